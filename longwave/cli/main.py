"""`longwave`: the commands, and how mistakes reach the user. Each command's module is imported only when it runs."""

import difflib
import importlib
import os
import sys

COMMANDS = {
    "list": "the named experiments",
    "show": "what an experiment would run, with every setting",
    "train": "train on a named experiment or on data of your own",
    "evaluate": "score a trained run again",
    "predict": "forecast or label new data with a trained run",
    "generate": "write text or draw images with a trained run",
    "plot": "draw pictures",
    "data": "list, download and check data sets",
    "bench": "measure speed, memory and accuracy on this machine",
    "doctor": "what this installation has, and whether it computes the right thing",
}

EXAMPLES = """examples:
  longwave doctor
  longwave train etth1-720-small
  longwave train forecast --csv my.csv --target price --horizon 96
  longwave train classify --npz my.npz
  longwave train text --file my.txt
  longwave generate runs/text-seed0 --prompt "Once upon a time"
  longwave COMMAND --help"""


def main(arguments: list[str] | None = None) -> None:
    """Run a command. Exit codes: 0, or 2 for a mistake in the input, 1 for a run that failed, 130 for Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        sys.exit(0 if arguments else 2)
    name, rest = arguments[0], arguments[1:]
    if name == "--version":
        from longwave import __version__

        print(__version__)
        sys.exit(0)
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        _exit(
            f"no command {name!r}" + (f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(COMMANDS)}")
        )
    try:
        module = importlib.import_module(f"longwave.cli.{name}")
        sys.exit(module.main(rest))
    except BrokenPipeError:
        # The reader, `head` for example, has seen enough; what is still buffered must not complain at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (ValueError, OSError) as error:
        _exit(str(error))
    except KeyboardInterrupt:
        print("longwave: interrupted", file=sys.stderr)
        sys.exit(130)


def _exit(message: str) -> None:
    print(f"longwave: error: {message}", file=sys.stderr)
    sys.exit(2)


def _help() -> str:
    lines = [f"  {name:10}{text}" for name, text in COMMANDS.items()]
    head = "usage: longwave COMMAND ...\n\nLong sequences with structured state spaces (S4).\n\ncommands:"
    return "\n".join([head, *lines, "", EXAMPLES])
