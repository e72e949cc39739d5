"""`longwave import`: what it writes serves the other commands, and what it refuses leaves nothing behind."""

import collections
import dataclasses
import json
import math
import os
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from audio_files import write_tones
from authors_files import to_authors, vary
from changes import Trap
from command import call
from text_files import LINES

import longwave
from longwave import S4Config
from longwave.experiments import EXPERIMENTS
from longwave.io import audio
from longwave.models import SequenceModel, UNet
from longwave.tasks.text.codecs import Words
from longwave.tasks.waveform.task import WaveformConfig
from longwave.train.folder import RunFolder

WORDS = 15  # of the text below, <eos> included


def write_wikitext103(data):
    """WikiText-103 in miniature, with the words of the other one."""
    folder = Path(data) / "wikitext-103"
    folder.mkdir(parents=True)
    for part, lines in LINES.items():
        (folder / f"wiki.{part}.tokens").write_bytes("".join(f" {line} \n" for line in lines).encode())


def language_model(vocabulary=WORDS, length=8):
    torch.manual_seed(0)
    mixer = S4Config(d_state=4, n_ssm=1, length=length)
    sizes = {"vocabulary": vocabulary, "output_size": vocabulary, "cutoffs": (5, 9), "decoder": "sequence"}
    return vary(
        SequenceModel(d_model=16, n_layers=1, mixers_per_block=2, feed_forward=8, norm="layer", mixer=mixer, **sizes)
    )


def sashimi(**settings):
    torch.manual_seed(0)
    shape = {"d_model": 4, "n_layers": 1, "poolings": (4, 4), "skips": "stages", "norm": "scalar", "glu": False}
    ends = {"vocabulary": 256, "output_size": 256, "length": 64, "mixer": S4Config(d_state=4, n_ssm=1)}
    return vary(UNet(**shape | ends | settings))


def save(model, version=3, **options):
    torch.save(to_authors(model, version, **options), "model.pt")


def refused(capsys, *arguments):
    """What the command says; it leaves nothing behind."""
    before = sorted(str(path) for path in Path().rglob("*"))
    assert call("import", "model.pt", "--out", "new", *arguments) == 2
    said = capsys.readouterr().err
    assert sorted(str(path) for path in Path().rglob("*")) == before
    assert said.startswith("longwave: error: ")
    return said


# What is written


@pytest.mark.parametrize("version", [3, 4])
@torch.no_grad()
def test_a_model_alone_is_loaded_by_its_folder(version, capsys):
    model = language_model()
    save(model, version)
    assert call("import", "model.pt", "--out", "made/model", "--dt", "exp") == 0
    count = sum(p.numel() for p in model.parameters())
    why = "as given" if version == 4 else "the only one of version 3"
    assert capsys.readouterr().out == (
        f"version {version} of the authors' code: S4, {count:,} parameters\ndt: exp, {why}\nmodel: made/model\n"
    )
    assert sorted(path.name for path in Path("made/model").iterdir()) == ["config.json", "model.safetensors"]
    assert [path.name for path in Path("made").iterdir()] == ["model"]
    found = longwave.load_model("made/model").eval()
    x = torch.randint(WORDS, (2, 11))
    torch.testing.assert_close(found(x)[0], model(x)[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_language_model_is_scored_and_goes_on_from_a_prompt(capsys):
    """The vocabulary is that of the data, in the order in which equally frequent words appear first."""
    write_wikitext103("data")
    save(language_model())
    settings = EXPERIMENTS["wikitext103"].to_dict()
    settings["task"] |= {"length": 8, "rows": 2}
    Path("short.json").write_text(json.dumps(settings))
    assert call("import", "model.pt", "--out", "run", "--data", "short.json", "--data-dir", "data") == 0
    said = capsys.readouterr().out
    assert "wikitext103 differs from the published text" in said
    assert said.endswith("run: run\n")
    words = Words.from_folder(Path("run"))
    assert words == Words.of_lines(LINES["train"], "appearance") != Words.of_lines(LINES["train"])
    model = longwave.load_model("run").eval()  # the folder of a run: its best weights
    assert call("evaluate", "run") == 0
    scores = dict(line.split()[1:] for line in capsys.readouterr().out.splitlines())
    task = longwave.experiments.Experiment.from_dict(settings).task.build(Path("data"))
    batch = task.test.batch(range(len(task.test)))
    losses, _ = model.nll(batch["x"], batch["y"])
    expected = float(losses.sum() / (batch["y"] != -100).sum())
    assert float(scores["loss"]) == pytest.approx(expected, abs=2e-6)  # printed with six digits
    assert float(scores["perplexity"]) == pytest.approx(math.exp(expected), rel=1e-5)
    assert call("generate", "run", "--prompt", "the sea", "--length", "5", "--seed", "0") == 0
    assert capsys.readouterr().out.startswith("the sea")


def test_sound_is_generated_without_the_data(capsys):
    save(sashimi())
    assert call("import", "model.pt", "--out", "run", "--data", "sc09-waveform") == 0
    facts = json.loads(Path("run/config.json").read_text())["task"]
    assert (facts["sampling_rate"], facts["encoding"]) == (16_000, "mu-law")
    assert not {"examples", "digest", "samples", "data"} & facts.keys()
    assert call("generate", "run", "--seconds", "0.003", "--seed", "0", "--out", "x.wav") == 0
    samples, rate = audio.read_samples(Path("x.wav"))
    assert (samples.shape, rate) == ((48, 1), 16_000)
    assert np.abs(samples).max() > 0
    capsys.readouterr()
    assert call("evaluate", "run", "--data-dir", "nowhere") == 2
    assert "longwave data get speech-commands" in capsys.readouterr().err


@torch.no_grad()
def test_sound_is_scored_on_custom_audio(capsys):
    """Of a run that knows its data by the settings alone."""
    write_tones(Path("notes"))
    model = sashimi()
    save(model)
    task = WaveformConfig(folder=Path("notes"), length=64, sampling_rate=8000)
    experiment = dataclasses.replace(EXPERIMENTS["waveform"], task=task)
    Path("notes.json").write_text(json.dumps(experiment.to_dict()))
    assert call("import", "model.pt", "--out", "run", "--data", "notes.json") == 0
    capsys.readouterr()
    assert call("evaluate", "run") == 0
    batch = task.build().test
    batch = batch.batch(range(len(batch)))
    losses = torch.nn.functional.cross_entropy(model(batch["x"])[0].flatten(0, 1), batch["y"].flatten())
    bits = float(capsys.readouterr().out.split("bits_per_sample ")[1])
    assert bits == pytest.approx(float(losses) / math.log(2), abs=1e-5)


def test_images_need_no_data_to_be_generated():
    """The size of the images is in the settings; 3,072 values are not drawn here."""
    model = sashimi(vocabulary=769, skips="layers", poolings=(3, 4, 4), length=3072)
    save(model)
    assert call("import", "model.pt", "--out", "run", "--data", "cifar-density") == 0
    folder = RunFolder.open("run")
    assert (folder.config.task["size"], folder.config.imported) == ([32, 32, 3], "model.pt")
    assert folder.load_best("cpu").config == model.config == folder.config.experiment.model


def test_an_imported_run_has_no_training_to_go_on_with(capsys):
    save(sashimi())
    assert call("import", "model.pt", "--out", "run", "--data", "sc09-waveform") == 0
    assert call("train", "--resume", "run") == 2
    assert "run: its weights were imported from model.pt, and there is no training to resume" in capsys.readouterr().err


def test_what_the_file_cannot_say_is_said_by_options():
    torch.manual_seed(0)
    mixer = S4Config(d_state=4, bidirectional=True, dt_transform="softplus")
    model = vary(SequenceModel(d_model=4, n_layers=1, norm="batch", prenorm=False, decoder="last", mixer=mixer))
    save(model, 4, real="softplus")
    options = ("--dt", "softplus", "--real", "softplus", "--decoder", "last")
    assert call("import", "model.pt", "--out", "made", *options) == 0
    found, x = longwave.load_model("made").eval(), torch.randn(2, 9, 1)
    assert found.config == model.config
    torch.testing.assert_close(found(x)[0], model(x)[0], atol=1e-5, rtol=1e-5)


def test_a_checkpoint_of_lightning_with_plain_values_is_read():
    torch.save({"state_dict": to_authors(sashimi()), "epoch": 3, "hyper_parameters": {"lr": 0.1}}, "model.pt")
    assert call("import", "model.pt", "--out", "made") == 0
    assert longwave.load_model("made").config == sashimi().config


# What is refused


class Empty:
    """Stored without a state."""


class Node:
    """As OmegaConf stores a value, or a container of nodes."""

    def __init__(self, value, parent=None):
        self.__dict__["_parent"] = parent
        if isinstance(value, dict):
            self.__dict__["_content"] = {key: Node(part, self) for key, part in value.items()}
        elif isinstance(value, list):
            self.__dict__["_content"] = [Node(part, self) for part in value]
        else:
            self.__dict__["_val"] = value

    def __getstate__(self):
        return self.__dict__

    def __setstate__(self, state):
        raise AssertionError("foreign code was run")


@pytest.mark.parametrize(("stated", "options"), [("softplus", ()), ("exp", ()), ("exp", ("--dt", "softplus"))])
@torch.no_grad()
def test_a_lightning_checkpoint_is_read_and_its_settings_say_how_dt_is_stored(stated, options, capsys):
    """Its objects of other libraries are not built: only what they were to be made of is looked at."""
    torch.manual_seed(0)
    used = options[1] if options else stated
    model = vary(SequenceModel(d_model=4, n_layers=1, norm="batch", mixer=S4Config(d_state=4, dt_transform=used)))
    settings = Node({"model": {"layer": [{"_name_": "s4", "dt_transform": stated}], "dropout": Empty()}, "loop": 0})
    loop = settings._content["loop"]
    loop._val = loop  # as no library writes it
    content = {"state_dict": to_authors(model, 4), "hyper_parameters": settings, "hparams_type": Node, "epoch": 3}
    torch.save(content | {"callbacks": {"trap": Trap()}}, "model.pt")
    assert call("import", "model.pt", "--out", "made", *options) == 0
    said = capsys.readouterr().out
    assert "dt: softplus, as given; the hyper-parameters of the file say exp\n" in said or not options
    assert f"dt: {stated}, as the hyper-parameters of the file say\n" in said or options
    assert not Path("sprung").exists()
    found, x = longwave.load_model("made").eval(), torch.randn(2, 9, 1)
    assert found.config == model.config
    torch.testing.assert_close(found(x)[0], model(x)[0], atol=1e-5, rtol=1e-5)


def test_a_file_of_version_4_that_does_not_say_how_dt_is_stored_needs_the_option(capsys):
    save(sashimi(), 4)
    assert "say which (--dt)" in refused(capsys)


class Shell:
    """Unpickled, it would call what torch reads under no name."""

    def __reduce__(self):
        return os.system, ("touch sprung",)


@pytest.mark.parametrize(
    ("thing", "is_zip"),
    [(Trap(), False), (Shell(), True), (collections.defaultdict(list, {"a": 1}), True)],
    ids=["of an old torch", "a blocked module", "filled with items"],
)
def test_nothing_in_a_file_is_run_and_the_way_to_strip_it_is_named(thing, is_zip, capsys):
    content = {"state_dict": to_authors(sashimi()), "hyper_parameters": thing}
    torch.save(content, "model.pt", _use_new_zipfile_serialization=is_zip)
    said = refused(capsys)
    assert not Path("sprung").exists()
    assert "model.pt: expected tensors and settings, but this file would build " in said
    code = shlex.split(said.partition("with: ")[2])[2]
    assert code.endswith("torch.load('model.pt', weights_only=False)['state_dict'], 'model.stripped.pt')")


def test_a_vocabulary_of_another_size_is_refused(capsys):
    write_wikitext103("data")
    save(language_model(WORDS + 1))
    settings = EXPERIMENTS["wikitext103"].to_dict()
    settings["task"] |= {"length": 8, "rows": 2}
    Path("short.json").write_text(json.dumps(settings))
    said = refused(capsys, "--data", "short.json", "--data-dir", "data")
    assert call("import", "model.pt", "--out", "a/b/new", "--data", "short.json", "--data-dir", "data") == 2
    assert not Path("a").exists()
    assert f"vocabulary: expected {WORDS}, as the data of wikitext103 has, got a file with {WORDS + 1}" in said


def test_a_model_that_does_not_fit_the_task_is_refused(capsys):
    save(sashimi())
    assert "vocabulary: expected 769, as the data of cifar-density has" in refused(capsys, "--data", "cifar-density")
    torch.manual_seed(0)
    save(SequenceModel(d_model=4, n_layers=1, vocabulary=256, output_size=256, mixer=S4Config(d_state=4)))
    assert "decoder: this task needs sequence, got mean" in refused(capsys, "--data", "sc09-waveform")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"PK\x03\x04 nothing", "model.pt: expected a state dict written by torch.save, got another or a damaged file"),
        (b"", "model.pt: expected a state dict written by torch.save, got another or a damaged file"),
        ([torch.zeros(3)], "model.pt: expected tensors by name (a state dict), got list"),
        ({}, "model.pt: expected tensors by name (a state dict), got dict"),
        ({"a": 3}, "model.pt: 'a': expected a tensor, got int"),
        ({"a": torch.zeros(1).expand(10**9)}, "model.pt: a: expected a plain tensor"),
        ({"a": torch.zeros(3).to_sparse()}, "model.pt: a: expected a plain tensor"),
        ({"a": torch.zeros(3)}, "expected the names of the authors' models, model.layers.0"),
    ],
)
def test_files_of_something_else_are_refused(content, message, capsys):
    if isinstance(content, bytes):
        Path("model.pt").write_bytes(content)
    else:
        torch.save(content, "model.pt")
    assert message in refused(capsys)


def test_a_folder_that_is_there_is_left_alone(capsys):
    save(sashimi())
    Path("new").mkdir()
    Path("new/mine").write_text("mine")
    assert "out: new already exists; expected the name of a new folder" in refused(capsys)


def test_a_write_that_fails_leaves_nothing(monkeypatch, capsys):
    save(sashimi())

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("longwave.models.pretrained.files.write_json", full)
    assert "No space left on device" in refused(capsys)
