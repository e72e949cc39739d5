"""Damage of every format that longwave reads: what a case changes, and the command that then meets it.

A case follows from its kind and its seed. `test_damage.py` runs a few of each in `make test`, `fuzz.py` thousands in
`make fuzz`. Saved states of streams have no command; `restore.py` reads them. Besides files, the words of a command and
the variables of its environment are damaged.
"""

import json
import math
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from accelerate.state import AcceleratorState
from audio_files import sound, write
from authors_files import to_authors
from changes import (
    HUGE,
    bytes_,
    checkpoint,
    csv_,
    json_,
    lines_,
    metadata,
    npy,
    npz,
    png,
    state_dict,
    text,
    tsv,
    weights,
)
from restore import ASSIGN, RESTORE, restore, write_state
from trained import TINY

from longwave import S4Config
from longwave.cli.main import main as longwave
from longwave.core.progress import SILENT
from longwave.models import SequenceModel
from longwave.tasks.pathfinder import layout
from longwave.tasks.pathfinder.layout import HARD, INDEX, PIXELS
from longwave.train.checkpoint import LAST

Command = tuple[str, ...]
WORDS = (
    *("", " ", "a/b/c", "/", "a/", "/a", "../a", "a//b", "-x/y", "a/.", "~/a", "a/b@", "a/b@@", "@", "a b/c", "ä/ö"),
    *(
        "\ud800/a",
        "a/" + "b" * 300,
        "a/b\n",
        "a--b/c..d",
        "a/b.git",
        "https://huggingface.co/a/b",
        "no/such",
        "no/such@x",
    ),
)
NUMBERS = (
    "0",
    "-1",
    "-0.5",
    "1e400",
    "nan",
    "inf",
    "-inf",
    str(HUGE),
    str(2**31),
    str(2**63),
    "1e-320",
    "",
    "x",
    "1,5",
)
VARIABLES = {
    "ACCELERATE_TORCH_DEVICE": ("meta", "cuda:7", "cpu:-1", "mps"),
    **dict.fromkeys(("ACCELERATE_MIXED_PRECISION", "ACCELERATE_DYNAMO_BACKEND"), ("fp8", "no", "inductor")),
    **dict.fromkeys(("ACCELERATE_USE_CPU", "ACCELERATE_DEBUG_MODE", "FORK_LAUNCHED"), ("maybe", "yes", "no")),
    **dict.fromkeys(("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "OMP_NUM_THREADS", "COLUMNS", "LINES"), NUMBERS),
    **dict.fromkeys(("LONGWAVE_KERNEL", "LONGWAVE_VECTOR_BITS"), ("native", "reference", "128", "cuda")),
    **dict.fromkeys(("LONGWAVE_DATA", "HF_HUB_CACHE", "HOME", "XDG_CACHE_HOME", "TMPDIR"), ("/dev/null", "~x", "~/a")),
    **dict.fromkeys(("RANK", "LOCAL_RANK", "WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE"), ("-1", "1.5", "")),
    **dict.fromkeys(("CUDA_VISIBLE_DEVICES", "NO_COLOR", "TERM", "MPLBACKEND"), ("-1", "dumb", "module://nothing")),
}


class Kind(NamedTuple):
    """One file, how it is damaged, and what then reads it; of several that match, chance takes one."""

    run: str  # one of those in trained.py
    file: str
    change: Callable[[bytes, random.Random], bytes]
    commands: tuple[Command, ...]
    prepare: Callable[[], object] = lambda: None  # writes the file, if it is not one of the run

    def damage(self, chance: random.Random) -> Command:
        """Damage the file in the folder at hand, where the run is; the command that is to meet it."""
        self.prepare()
        paths = sorted(Path().glob(self.file))
        path = paths[0] if len(paths) == 1 else chance.choice(paths)
        path.write_bytes(self.change(path.read_bytes(), chance))
        return chance.choice(self.commands)


class Words(NamedTuple):
    """Commands with a word `?`, in whose place one of some wrong ones comes."""

    run: str
    words: tuple[str, ...]
    commands: tuple[Command, ...]

    def damage(self, chance: random.Random) -> Command:
        """The command with a wrong word."""
        word = chance.choice(self.words)
        return tuple(part.replace("?", word) for part in chance.choice(self.commands))


class Variables(NamedTuple):
    """Commands that run with a variable of their environment that is not right."""

    run: str
    commands: tuple[Command, ...]

    def damage(self, chance: random.Random) -> Command:
        """Set the variable, as for a process that begins; the command that is to meet it."""
        name = chance.choice(sorted(VARIABLES))
        os.environ[name] = chance.choice((*VARIABLES[name], "x", "\udcff", "1" * 5000))
        AcceleratorState._reset_state(reset_partial_state=True)
        return chance.choice(self.commands)


class Settings(NamedTuple):
    """Numbers in the config.json of a run that would be settings of their kind, and are not right."""

    run: str
    names: tuple[str, ...]  # dotted
    commands: tuple[Command, ...]

    def damage(self, chance: random.Random) -> Command:
        """Change one of them; the command that is to meet it."""
        path = Path("run/config.json")
        content = json.loads(path.read_text())
        *parts, last = chance.choice(self.names).split(".")
        owner = content["experiment"]
        for part in parts:
            owner = owner[part]
        owner[last] = chance.choice((0, -1, 1000, 10**6, 2**31, 2**62, HUGE, 1e-320, 1e308, math.nan, math.inf))
        path.write_text(json.dumps(content))
        return chance.choice(self.commands)


EVALUATE, RESUME = ("evaluate", "run"), ("train", "--resume", "run", "--quiet")
LABEL = ("predict", "run", "--npz", "my.npz", "--out", "out.csv")
FORECAST = ("predict", "run", "--csv", "series.csv", "--out", "out.csv")
CLASSIFY = ("train", "classify", "--npz", "my.npz", "--model.kind", "SequenceModel", "--model.d-model", "4")
CLASSIFY += ("--model.n-layers", "1", "--model.mixer.d-state", "4", "--loop.epochs", "1", "--quiet", "--out", "new")
AUDIO = ("predict", "run", "--folder", "clips/tone", "--out", "out.csv")
GENERATE = ("generate", "run", "--length", "4")
TAGS = ("predict", "run", "--npz", "switches.npz", "--out", "out.csv")
STREAM = ("stream", "run", "--csv", "series.csv", "--out", "out.csv")
ROWS = ("stream", "run", "--csv", "rows.csv", "--out", "out.csv")
SOUND = ("stream", "run", "--wav", "tone.wav", "--out", "out.csv")
IMPORT = ("import", "authors.pt", "--out", "imported")
SHOW = ("show", "--config", "run/config.json")
SWEEP, COMPARE = ("sweep", "--resume", "swept", "--quiet"), ("compare", "swept/a", "swept/b")
PLAY = ("generate", "run", "--seconds", "0.002", "--seed", "0", "--out", "out.wav")
MAKE = ("data", "make", "--count", "120", "--data-dir", "data")
LIST = ("data", "list", "--data-dir", "data")
MADE = (*TINY, "--data-dir", "data", "--out", "new")
LISTOPS = ("train", "lra-listops-small", "--task.length", "60", *MADE)
PATHFINDER = ("train", "lra-pathfinder-small", "--loop.batch-size", "16", *MADE)
PATHX = ("train", "lra-pathx-small", "--loop.batch-size", "16", *MADE)
DECODED = ("--task.decode",)
RETRIEVAL = ("train", "lra-retrieval-synthetic-small", "--task.length", "60", *MADE)
DRAW = ("generate", "run", "--count", "1", "--seed", "0", "--out", "out.png")


TEXT = ("train", "text", "--file", "my.txt", "--length", "32", *TINY, "--out", "new")
PUBLISH = ("publish", "run", "?", "--preview", "out")
LOOP = tuple(f"loop.{name}" for name in ("workers", "batch_size", "eval_batch_size", "bucket", "validations"))
LOOP += ("loop.seed", "loop.patience", "loop.minutes", "loop.checkpoint_minutes", "optim.lr", "optim.accumulate")
DRAW_INIT = ("plot", "init", "--d-model", "2", "--d-state", "4", "--length", "16", "--out", "out.png")
PICTURES: tuple[Command, ...] = tuple((*DRAW_INIT, f"--{name}=?") for name in ("d-model", "d-state", "length", "seed"))
PICTURES += tuple(("plot", "basis", "--out", "out.png", f"--{name}=?") for name in ("d-state", "longest"))
DRAW_NODES = ("plot", "nodes", "--d-state", "4", "--length", "64", "--out", "out.png", "--dt", "0.1")
PICTURES += tuple((*DRAW_NODES, f"--{name}=?") for name in ("d-state", "length", "dt", "seed"))
DRAWS = ("temperature", "top-k", "top-p", "min-p", "repetition-penalty", "stop", "seed")
OPTIONS: tuple[Command, ...] = tuple((*GENERATE, f"--{name}=?") for name in DRAWS)
OPTIONS += (("evaluate", "run", "--rate=?"), ("sweep", "--resume", "none", "--jobs=?"), (*RESUME, "--device=?"))
OPTIONS += ((*MAKE, "listops", "--seed=?"),)
OPTIONS += tuple((*TEXT, f"--{name}=?") for name in ("loop.workers", "loop.minutes", "optim.lr", "length", "seeds"))


def write_rows() -> None:
    Path("rows.csv").write_text("a\n" + "".join(f"{k % 7 / 3:.3f}\n" for k in range(40)))


def write_authors() -> None:
    mixer = S4Config(d_state=4, n_ssm=1, length=8)
    torch.manual_seed(0)
    model = SequenceModel(d_model=4, n_layers=1, feed_forward=4, mixer=mixer)
    torch.save(to_authors(model), "authors.pt")


def write_tone() -> None:
    write(Path("tone.wav"), sound("tone", 400))


def write_beginning() -> None:
    write(Path("begin.wav"), sound("tone", 60))


def name_runs() -> None:
    for name, run in zip("ab", sorted(Path("swept").glob("*/result.json")), strict=True):
        shutil.copytree(run.parent, Path("swept") / name)


def keep_pixels() -> None:
    """The cache that reading Pathfinder leaves."""
    layout.read(Path("data/pathfinder32"), 32, SILENT)


KINDS = {
    "config of a classifier": Kind("causal", "run/config.json", json_, (EVALUATE, LABEL, SHOW)),
    "config of a forecaster": Kind("forecast", "run/config.json", json_, (EVALUATE, FORECAST)),
    "config of the weights": Kind("causal", "run/best/config.json", json_, (EVALUATE, LABEL, RESUME)),
    "config of a text": Kind("text", "run/config.json", json_, (GENERATE, EVALUATE)),
    "config of clips": Kind("audio", "run/config.json", json_, (AUDIO, EVALUATE)),
    "metrics": Kind("causal", "run/metrics.jsonl", lines_, (RESUME,)),
    "result": Kind("causal", "run/result.json", json_, (RESUME, EVALUATE)),
    "weights": Kind("causal", "run/best/model.safetensors", weights, (EVALUATE, LABEL, RESUME)),
    "weights of a text": Kind("text", "run/best/model.safetensors", weights, (GENERATE,)),
    "checkpoint": Kind("causal", f"run/checkpoints/{LAST}", checkpoint, (RESUME,)),
    "arrays to train on": Kind("causal", "my.npz", npz, (CLASSIFY, EVALUATE)),
    "arrays to label": Kind("causal", "my.npz", npz, (LABEL,)),
    "tags": Kind("tag", "switches.npz", npz, (EVALUATE, TAGS)),
    "series": Kind("forecast", "series.csv", csv_, (FORECAST, STREAM)),
    "rows": Kind("causal", "rows.csv", csv_, (ROWS,), write_rows),
    "sound": Kind("causal", "tone.wav", bytes_, (SOUND,), write_tone),
    "clips": Kind("audio", "clips/tone/2.wav", bytes_, (AUDIO, EVALUATE)),
    "authors": Kind("causal", "authors.pt", state_dict, (IMPORT,), write_authors),
    "text": Kind("text", "my.txt", text, (EVALUATE, TEXT)),
    "sweep": Kind("sweep", "swept/sweep.json", json_, (SWEEP,)),
    "result in a sweep": Kind("sweep", "swept/[!ab]*/result.json", json_, (SWEEP,)),
    "results side by side": Kind("sweep", "swept/a/result.json", json_, (COMPARE,), name_runs),
    "metrics side by side": Kind("sweep", "swept/a/metrics.jsonl", lines_, (COMPARE,), name_runs),
    "config of a waveform": Kind("waveform", "run/config.json", json_, (PLAY, EVALUATE)),
    "weights of a U-Net": Kind("waveform", "run/best/model.safetensors", weights, (PLAY, EVALUATE)),
    "sound to go on from": Kind(
        "waveform", "begin.wav", bytes_, ((*PLAY, "--prompt-wav", "begin.wav"),), write_beginning
    ),
    "config of images": Kind("density", "run/config.json", json_, (DRAW, EVALUATE)),
    "vocabulary": Kind("words", "run/vocabulary.txt", bytes_, (GENERATE, EVALUATE)),
    "ListOps": Kind("made", "data/listops-1000/*.tsv", tsv, (LISTOPS,)),
    "how ListOps was made": Kind("made", "data/listops-1000/made.json", json_, (LISTOPS, LIST, (*MAKE, "listops"))),
    "pairs of documents": Kind("made", "data/retrieval-synthetic/*.tsv", tsv, (RETRIEVAL, (*RETRIEVAL, *DECODED))),
    "metadata of Pathfinder": Kind("made", f"data/pathfinder32/{HARD}/metadata/0.npy", metadata, (PATHFINDER,)),
    "images of Pathfinder": Kind("made", f"data/pathfinder32/{HARD}/imgs/0/*.png", png, (PATHFINDER,)),
    "kept pixels": Kind("made", f"data/pathfinder32/{HARD}/{PIXELS}", npy, (PATHFINDER,), keep_pixels),
    "index of kept pixels": Kind("made", f"data/pathfinder32/{HARD}/{INDEX}", json_, (PATHFINDER,), keep_pixels),
    "metadata of Path-X": Kind("made images", f"data/pathfinder128/{HARD}/metadata/0.npy", metadata, (PATHX,)),
    "images of Path-X": Kind("made images", f"data/pathfinder128/{HARD}/imgs/0/*.png", png, (PATHX,)),
    "state of a stream": Kind("causal", "state.safetensors", weights, (RESTORE,), write_state),
    "tensors of a state": Kind("causal", "state.pt", state_dict, (ASSIGN,), write_state),
    "settings of the loop": Settings("causal", LOOP, (EVALUATE, RESUME, SHOW)),
    "environment": Variables("causal", (EVALUATE, RESUME, LABEL, DRAW_INIT)),
    "names on the hub": Words("causal", WORDS, (*((name, "?") for name in ("evaluate", "predict", "stream")), PUBLISH)),
    "options of pictures": Words("causal", NUMBERS, PICTURES),
    "options": Words("text", NUMBERS, OPTIONS),
}


def meet(command: tuple[str, ...]) -> None:
    """Run a command on what was damaged; it ends by SystemExit."""
    if command in (RESTORE, ASSIGN):
        restore(command)
    longwave(list(command))


def left_behind(code: int, command: str) -> list[str]:
    """What a command should not have left: half-written files, output beside an error, traces of code that ran.

    A stream has written its rows by the time that it meets the damage.
    """
    found = [str(path) for path in Path().rglob("*.part")] + [str(path) for path in Path().rglob(".lock")]
    found += [name for name in ("sprung",) if Path(name).exists()]
    written = [path.name for pattern in ("out*", "imported", "new") for path in Path().glob(pattern)]
    return found + (written if code and command != "stream" else [])
