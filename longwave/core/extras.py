"""Optional dependencies, which only tasks, runs and estimators need, and the extras that install them."""

import contextlib
from collections.abc import Iterator

EXTRAS = {  # extra of pyproject.toml -> the modules that it brings
    "train": (
        "PIL",
        "accelerate",
        "huggingface_hub",
        "matplotlib",
        "narwhals",
        "requests",
        "scipy",
        "soundfile",
        "urllib3",
    ),
    "sklearn": ("sklearn",),
    "onnx": ("onnx", "onnxruntime", "onnxscript"),
}


class MissingExtra(ModuleNotFoundError):
    """A package of an extra is missing; the message has the command that installs it."""


@contextlib.contextmanager
def named() -> Iterator[None]:
    """Name the extra in the error for a package that is missing."""
    try:
        yield
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        for extra, modules in EXTRAS.items():
            if module in modules:
                raise MissingExtra(
                    f"{module} is not installed; install what this needs with pip install 'longwave[{extra}]'",
                    name=error.name,
                ) from error
        raise
