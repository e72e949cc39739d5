"""Signals that end a run cleanly: Ctrl-C, and what schedulers, containers and closed terminals send."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

# What schedulers and containers send, and a terminal that is closed; Windows does not have the latter.
ENDING = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
ALL = [signal.SIGINT, *ENDING]


class Ended(KeyboardInterrupt):
    """A signal that ends a command at once, as Ctrl-C does; `number` is which."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


def exit_code(number: int) -> int:
    """The exit code that shells expect after a signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + number


def raised() -> contextlib.AbstractContextManager[None]:
    """Raise `Ended` on SIGTERM and SIGHUP within the block, so that nothing is left half-done."""
    return handled(_raise, ENDING)


@contextlib.contextmanager
def handled(handler: Callable[[int, FrameType | None], Any], numbers: Sequence[signal.Signals] = ALL) -> Iterator[None]:
    """Handle Ctrl-C, SIGTERM and SIGHUP within the block, unless the program has its own handlers."""
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():  # the only one where Python allows it
        usual = (signal.SIG_DFL, signal.default_int_handler, _raise)
        before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) in usual}  # nohup ignores SIGHUP
    for number in before:
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _raise(number: int, frame: FrameType | None) -> None:
    raise Ended(number)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Block the signals for a moment: one could reach a loader's process before it ignores them."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ALL)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def leave_to_the_main_process(worker: int) -> None:
    """Ignore the signals in a worker: they reach every process of a job, and the main one ends the others."""
    for number in ALL:
        signal.signal(number, signal.SIG_IGN)
