"""States of streams that were saved and come back, perhaps damaged: as a file of longwave's, or as tensors."""

import sys
from typing import Any, Never

import torch
from torch import Tensor

import longwave
from longwave.models.stream import Stream

RESTORE, ASSIGN = ("restore", "state.safetensors"), ("assign", "state.pt")


def _live() -> Stream:
    return longwave.stream(longwave.load_model("run").eval(), hop=2, window=6)


def _steps(count: int) -> Tensor:
    return torch.linspace(-1, 1, count).reshape(1, count, 1)


def write_state() -> None:
    """The state of a stream that is under way, in both forms, and what comes next."""
    live = _live()
    live.push(_steps(13))
    live.save("state.safetensors")
    torch.save(live.state, "state.pt")
    torch.save(live.push(_steps(7)), "next.pt")


def restore(command: tuple[str, ...]) -> Never:
    """Go on from a state: it is refused, and the stream stays as it was; or what comes next is what would have come.

    Tensors that were saved by other means have no checksum: what they are is checked, and not their values.
    """
    live, fresh = _live(), _live()
    try:
        if command == RESTORE:
            live.load("state.safetensors")
        else:
            live.state = _loaded()
    except ValueError as error:
        assert torch.equal(live.push(_steps(7)), fresh.push(_steps(7))), "a state that was refused changed the stream"
        print(f"longwave: error: {error}", file=sys.stderr)
        sys.exit(2)
    y = live.push(_steps(7))
    assert command == ASSIGN or torch.equal(y, torch.load("next.pt")), "another state than was saved"
    sys.exit(0)


def _loaded() -> Any:
    """What is in state.pt; torch's refusals are not longwave's."""
    try:
        return torch.load("state.pt", weights_only=True)
    except Exception as error:
        raise ValueError(f"state.pt: {error}") from error
