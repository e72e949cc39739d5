"""Registries, in which each file registers a kind of something under a name.

When it is first read, a registry imports the modules of its package whose name has no leading underscore; or one module
of each subpackage that has it. Installed packages register more through entry points of the group `longwave.plugins`,
each of which names a module.
"""

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

T = TypeVar("T")
_here = threading.local()  # whether this thread is filling any registry


class Registry(Mapping[str, T]):
    """A mapping from names to items of one kind, filled by `register`.

    what      what messages call an item
    package   the package whose modules register items, if there is one
    module    the module of each of its subpackages that does so instead
    """

    def __init__(self, what: str, package: str | None = None, module: str | None = None) -> None:
        self.what, self.package, self.module = what, package, module
        self._items: dict[str, T] = {}
        self._version = 0
        self._is_imported = self._is_filled = False
        self._here = threading.local()  # whether this thread is filling it: the imports may read the registry

    def register(self, name: str) -> Callable[[T], T]:
        """A decorator that registers an item; a name that is taken is refused."""

        def put(item: T) -> T:
            if name in self._items:
                raise ValueError(f"{self.what}: {name!r} is registered already; choose another name")
            self._items[name] = item
            self._version += 1
            return item

        return put

    def unregister(self, name: str) -> None:
        """Remove a name, as tests do."""
        del self._items[name]
        self._version += 1

    @property
    def version(self) -> int:
        """A number that changes with every registration or removal, to invalidate what is derived from the items."""
        self._fill()
        return self._version

    def find(self, name: str) -> T:
        """The item of a name; an unknown name is refused, with the nearest as a hint."""
        self._fill()
        if name not in self._items:
            raise ValueError(f"unknown {self.what} {name!r}; {nearest(name, self._items)}")
        return self._items[name]

    def name_of(self, item: T) -> str:
        """The name that something is registered under."""
        for name, other in self.items():
            if other is item:
                return name
        raise ValueError(f"{self.what}: {item!r} is not registered; expected one of {', '.join(self)}")

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
        if self._is_filled or getattr(self._here, "is_filling", False):
            return
        # A second thread imports as well, and so waits for the imports of the first.
        is_outermost = not getattr(_here, "is_filling", False)
        self._here.is_filling = _here.is_filling = True
        try:
            if not self._is_imported:
                for module in self._modules():
                    importlib.import_module(module)
                self._is_imported = True
            if is_outermost:  # plug-ins may read every registry: they are loaded when none is half-filled
                load_plugins()
                self._is_filled = True  # only now: after a failure, names must not be missing silently
        finally:
            self._here.is_filling = False
            if is_outermost:
                _here.is_filling = False

    def _modules(self) -> Iterator[str]:
        """The names of the modules that register items."""
        if self.package is None:
            return
        for found in pkgutil.iter_modules(importlib.import_module(self.package).__path__):
            name = f"{self.package}.{found.name}"
            if found.name.startswith("_"):
                continue
            if self.module is None:
                yield name
            elif found.ispkg and importlib.util.find_spec(f"{name}.{self.module}"):
                yield f"{name}.{self.module}"


@functools.cache
def load_plugins() -> None:
    """Import the modules that installed packages name under `longwave.plugins`, once."""
    for entry in importlib.metadata.entry_points(group="longwave.plugins"):
        try:
            entry.load()
        except Exception as error:
            raise ImportError(
                f"plug-in {entry.name!r}: {entry.value} cannot be loaded ({type(error).__name__}: {error}); "
                "repair or uninstall the package that provides it"
            ) from error


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known names if they are few, and the nearest one."""
    names = list(names)
    folded = {other.lower(): other for other in names}
    close = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.5)
    known = ", ".join(names) if len(names) <= 20 else f"{len(names)} names"
    return f"expected one of {known}" + (f"; did you mean {folded[close[0]]!r}?" if close else "")
