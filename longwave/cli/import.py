"""`longwave import`: convert a checkpoint of the authors' code into a longwave model."""  # noqa: N999 (commands are loaded by name)

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from longwave.cli._experiment import read_experiment
from longwave.core.terminal import say


def command(
    file: tyro.conf.Positional[Path],
    out: Path,
    data: str | None = None,
    data_dir: Path | None = None,
    dt: Annotated[Literal["exp", "softplus"] | None, tyro.conf.arg(metavar="exp|softplus")] = None,
    real: Annotated[
        Literal["exp", "none", "relu", "sigmoid", "softplus"] | None,
        tyro.conf.arg(metavar="exp|none|relu|sigmoid|softplus"),
    ] = None,
    decoder: Literal["mean", "last", "sequence"] = "mean",
) -> None:
    """Convert a checkpoint of the authors' code into a longwave model: language models, U-Nets, SaShiMi, stacks of S4.

    Examples:
        longwave import s4-wt103.pt --out runs/s4-wt103 --data wikitext103
        longwave import sashimi_sc09.pt --out runs/sashimi-sc09 --data sc09-waveform
        longwave import model.pt --out models/mine --dt softplus          (the model alone, version 4)

    A file is refused unless each of its tensors has a place. No code in it is executed.

    Args:
        file: A state dict written by torch.save, or a checkpoint of Lightning.
        out: The new folder to write.
        data: What the model was trained on: the name of an experiment (longwave list), or a file of settings as
            longwave show prints them. The folder is then a run, for longwave evaluate and longwave generate; otherwise
            a model, for longwave.load_model.
        data_dir: Folder with the data sets; by default LONGWAVE_DATA or the user's cache.
        dt: Transform that keeps dt positive, for files of version 4: by default that in the hyper-parameters of a
            Lightning checkpoint; required where there are none.
        real: The same for the real parts of Lambda; by default that in the hyper-parameters, else exp.
        decoder: Output of a plain stack of S4, which a file does not say: mean over steps, last step, or every step.
    """
    if not file.expanduser().is_file():
        raise FileNotFoundError(f"{file}: no such file")
    experiment = None if data is None else read_experiment(data)
    from longwave.importing import import_checkpoint

    made = import_checkpoint(
        file.expanduser(), out.expanduser(), experiment, data_dir, dt=dt, real=real, decoder=decoder
    )
    for note in made.notes:
        say(f"note: {note}", sys.stdout)
    print(f"version {made.version} of the authors' code: {made.config.label}, {made.parameters:,} parameters")
    print(f"dt: {made.dt}")
    print(f"{'model' if experiment is None else 'run'}: {out}")
