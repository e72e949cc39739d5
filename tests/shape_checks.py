"""Checks of the shapes in annotations that cost little: the first calls of each function in a test are checked.

A loop calls the same functions with the same shapes hundreds of times, and a check takes longer than the step itself.
To be imported before the packages that are checked (`--jaxtyping-packages` names them).
"""

import functools
from collections import Counter
from types import FunctionType
from typing import Any

import jaxtyping

CALLS = 4  # of each function that are checked in a test

_jaxtyped = jaxtyping.jaxtyped
_calls: Counter[FunctionType] = Counter()
_is_on = False


def switch(on: bool) -> None:
    """Check from here on, and count the calls of each function anew; or check nothing."""
    global _is_on
    _is_on = on
    _calls.clear()


def _checked_at_first(*, typechecker: Any) -> Any:
    """The decorator that jaxtyping's import hook puts on every function and class."""

    def decorate(target: Any) -> Any:
        if not isinstance(target, FunctionType):
            return _jaxtyped(target, typechecker=typechecker)
        if "<locals>" in target.__qualname__:
            return target  # made anew in each call of the function around it, and would be decorated as often
        checked = _jaxtyped(target, typechecker=typechecker)

        @functools.wraps(target)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not _is_on:
                return target(*args, **kwargs)
            _calls[target] += 1
            return (checked if _calls[target] <= CALLS else target)(*args, **kwargs)

        return call

    return decorate


jaxtyping.jaxtyped = _checked_at_first
