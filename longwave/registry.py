"""Names and what they stand for: a new kind of something is a file that registers itself here.

A registry knows the package whose modules register in it, and imports them when it is first asked; a module whose name
begins with an underscore is none of them. Installed packages add kinds of their own by an entry point of the group
`longwave.plugins`, which names a module that registers them.
"""

import difflib
import functools
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")


class Registry(Mapping[str, T]):
    """A dict from names to things of one sort, filled by `register`.

    what      what one of them is called in messages
    package   the package whose modules register theirs, if there is one
    """

    def __init__(self, what: str, package: str | None = None) -> None:
        self.what, self.package = what, package
        self._items: dict[str, T] = {}
        self._is_filled = False

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that registers what it decorates; each name stands for one thing."""

        def put(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.what}: there is {name!r} already; choose another name")
            self._items[name] = item
            return item

        return put

    def unregister(self, name: str) -> None:
        """Take a name out again, as tests do."""
        del self._items[name]

    def find(self, name: str) -> T:
        """What a name stands for; a wrong one is refused with the nearest right one."""
        self._fill()
        if name not in self._items:
            raise ValueError(f"{self.what}: there is no {name!r}; {nearest(name, self._items)}")
        return self._items[name]

    def __getitem__(self, name: str) -> T:
        self._fill()
        return self._items[name]

    def __iter__(self) -> Iterator[str]:
        self._fill()
        return iter(self._items)

    def __len__(self) -> int:
        self._fill()
        return len(self._items)

    def _fill(self) -> None:
        if self._is_filled:
            return
        self._is_filled = True  # before the imports, which may ask again
        if self.package is not None:
            for module in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{self.package}.{module.name}")
        load_plugins()


@functools.cache
def load_plugins() -> None:
    """Import the modules that installed packages name under `longwave.plugins`, once."""
    for entry in importlib.metadata.entry_points(group="longwave.plugins"):
        entry.load()


def nearest(name: str, names: Iterable[str]) -> str:
    """The ending of a message about an unknown name: the nearest right one, and all if they are few."""
    names = list(names)
    folded = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    known = ", ".join(names) if len(names) <= 20 else f"{len(names)} names"
    return f"expected one of {known}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")
