"""`longwave`: dispatch commands and report errors.

A command is a module of this package without a leading underscore, imported only when it runs. It has
`main(arguments)`, or a function `command`, or several in `COMMANDS`: signatures and docstrings give options and help.
"""

import contextlib
import importlib
import os
import signal
import sys
import warnings
from typing import Any

from longwave.cli import _tyro
from longwave.core import extras, files
from longwave.core.terminal import in_a_command, say
from longwave.train import signals

COMMANDS = {  # as help shows them
    "list": "list the named experiments",
    "show": "show every setting of an experiment",
    "train": "train on a named experiment or on your data",
    "evaluate": "score a trained run again, also at other sampling rates and on other files",
    "predict": "forecast or classify new data with a trained run",
    "backtest": "forecast at many past cutoffs of a series, and compare with the actual values",
    "generate": "write text, draw images or make sound with a trained run",
    "stream": "classify or forecast with a trained run as data comes in",
    "sweep": "train with several settings, and compare them on the validation set",
    "compare": "compare runs side by side",
    "ablate": "run the paper's ablation of initialisations, with its figures",
    "bench": "measure speed, memory and accuracy on this machine",
    "data": "list, download, make and check data sets",
    "doctor": "show this installation and check that it computes correct results",
    "import": "convert a checkpoint of the authors' code into a longwave model",
    "plot": "draw pictures",
    "export": "write a trained run as a file for other runtimes: ONNX, or torch's .pt2",
    "publish": "upload a trained run to the Hugging Face hub, with a model card",
}

_ROWS = "\n".join(f"  {name:10}{text}" for name, text in COMMANDS.items())
HELP = f"""usage: longwave COMMAND ...

Long sequences with structured state spaces (S4).

commands:
{_ROWS}

examples:
  longwave doctor
  longwave train etth1-720-small
  longwave train forecast --csv my.csv --target price --horizon 96
  longwave train classify --npz my.npz
  longwave train text --file my.txt
  longwave generate runs/text-my-seed0 --prompt "Once upon a time"
  longwave stream runs/audio-clips-seed0 --wav long.wav
  longwave sweep smnist-small --set optim.lr 0.001,0.004,0.01
  longwave COMMAND --help"""


@in_a_command()
def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    Exit codes: 0, or 2 for a mistake in the input or a full disk, 1 for a run that failed, 130 for Ctrl-C, 143 for
    SIGTERM, 129 for SIGHUP.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(HELP)
        sys.exit(0 if arguments else 2)
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        from longwave import __version__

        print(__version__)
        sys.exit(0)
    if name not in COMMANDS:
        from longwave.core.registry import nearest

        _exit(f"unknown command {name!r}; {nearest(name, COMMANDS)}")
    os.environ["MPLBACKEND"] = "agg"  # pictures are written and never shown, whatever a notebook has set
    warnings.formatwarning = _note  # type: ignore[assignment]
    try:
        with signals.raised(), warnings.catch_warnings(), extras.named():
            warnings.showwarning = lambda message, *_, **__: say(f"longwave: warning: {message}")
            code = _run(name, rest)
            sys.stdout.flush()  # a failed write is an error of the command, too
            sys.exit(code)
    except BrokenPipeError:
        # The reader, `head` for example, has closed the pipe; flushing at exit must not complain either.
        _drop_stdout()
        sys.exit(0)
    except OSError as error:
        _exit(f"{error}{_advice(error, name)}")
    except (ValueError, extras.MissingExtra) as error:
        _exit(str(error))
    except MemoryError as error:
        _exit(f"out of memory ({str(error) or 'the allocation failed'})")
    except OverflowError as error:
        _exit(f"a number is too large ({error})")
    except KeyboardInterrupt as error:
        say(f"longwave: {error if isinstance(error, signals.Ended) else 'interrupted'}")
        sys.exit(signals.exit_code(getattr(error, "number", signal.SIGINT)))


def _run(name: str, arguments: list[str]) -> Any:
    module = importlib.import_module(f"longwave.cli.{name}")
    if hasattr(module, "main"):
        return module.main(arguments)
    if hasattr(module, "command"):
        return _tyro.run_command(name, module.command, arguments)
    return _tyro.run_group(name, f"{COMMANDS[name].capitalize()}.", module.COMMANDS, arguments)


def _advice(error: OSError, command: str) -> str:
    """Advice for a full disk; an interrupted run has its own."""
    if error.errno not in files.FULL:
        return ""
    if error.filename is None:  # as files are named, it is most likely the standard output
        _drop_stdout()
    option = {"data": "--data-dir", "publish": "--preview"}.get(command, "--out")
    return "; " + "; ".join(getattr(error, "__notes__", [f"make room, or choose another place with {option}"]))


def _drop_stdout() -> None:
    """Drop buffered output, whose flush would fail again at exit."""
    with contextlib.suppress(OSError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _note(message: Warning | str, *_: Any) -> str:
    """A Python warning as one plain line."""
    return f"longwave: note: {' '.join(str(message).split())}\n"


def _exit(message: str) -> None:
    say(f"longwave: error: {message}")
    sys.exit(2)
