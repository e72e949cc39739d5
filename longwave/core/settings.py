"""Settings as frozen dataclasses, to JSON and back: what `longwave show` prints and a run's config.json holds.

Where there are several kinds of something (tasks, models, mixers), their common base has a registry of them; the JSON
then says which kind it is.
"""

import dataclasses
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

from longwave.core.registry import Registry, nearest

T = TypeVar("T")
LARGEST = 2**63  # whole numbers from here on do not fit an array or a tensor
TYPES_IN_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
TYPES_IN_WORDS |= {dict: "values by name", type(None): "null"}


def set_by_task(default: T) -> T:
    """A setting that the task decides, such as the number of channels, and the command line does not offer."""
    made: Any = dataclasses.field(default=default, metadata={"set_by_task": True})
    return made


def at_least(least: float, default: Any = dataclasses.MISSING) -> Any:
    """A setting with a lower bound, which does not apply to None."""
    return dataclasses.field(default=default, metadata={"least": least})


@dataclass(frozen=True)
class Settings:
    """The base of all settings."""

    registry: ClassVar[Registry[Any] | None] = None  # of the kinds, by the name that JSON has for them

    def __post_init__(self) -> None:
        """Refuse settings below their bounds."""
        bounds = {one.name: one.metadata["least"] for one in dataclasses.fields(self) if "least" in one.metadata}
        check_least(self, **{name: least for name, least in bounds.items() if getattr(self, name) is not None})

    @property
    def kind(self) -> str:
        """The name of this kind."""
        assert self.registry is not None
        return self.registry.name_of(type(self))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        values = {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}
        return values if self.registry is None else {"kind": self.kind, **values}

    @classmethod
    def from_dict(cls, content: Any, where: str = "settings") -> Self:
        """The inverse of `to_dict`; missing settings have their defaults, unknown ones are refused."""
        if not isinstance(content, dict):
            raise ValueError(f"{where}: expected settings by name, got {content!r:.200}")
        values = dict(content)
        if cls.registry is not None and "kind" in values:
            kind = values.pop("kind")
            if not isinstance(kind, str) or kind not in cls.registry:
                raise ValueError(f"{where}: unknown kind {kind!r:.80}; {nearest(str(kind), cls.registry)}")
            chosen: Self = cls.registry[kind]._of(values, where)
            return chosen
        return cls._of(values, where)

    @classmethod
    def _of(cls, values: dict[str, Any], where: str) -> Self:
        types = get_type_hints(cls)
        _check_names(values, [f.name for f in dataclasses.fields(cls)], where)
        given = {name: typed(value, types[name], f"{where}: {name}") for name, value in values.items()}
        try:
            return cls(**given)
        except (TypeError, ValueError) as error:  # TypeError: a setting without a default is missing
            raise ValueError(f"{where}: {error}") from error

    @classmethod
    def by_keyword(cls, settings: Self | None = None, **changes: Any) -> Self:
        """Settings by keyword, over the defaults or `settings`; a part that has kinds may be given by its name."""
        if settings is not None and not isinstance(settings, cls):
            raise ValueError(f"config: expected {cls.__name__}(...), or keywords alone, got {settings!r:.80}")
        types = get_type_hints(cls)
        names = [f.name for f in dataclasses.fields(cls)]
        _check_names(changes, names, cls.__name__)
        made = cls(**changes) if settings is None else dataclasses.replace(settings, **changes)
        for name in names:
            kinds, value = getattr(types[name], "registry", None), getattr(made, name)
            if kinds is not None and not isinstance(value, types[name]):
                if not isinstance(value, str):
                    raise ValueError(f"{name}: expected {_kind_in_words(kinds, value)}")
                made = dataclasses.replace(made, **{name: kinds.find(value)()})
        return made

    def as_kind(self, kind: str) -> Any:
        """The settings of another kind, with the values of the fields that both have."""
        assert self.registry is not None
        other = self.registry.find(kind)
        shared = {f.name for f in dataclasses.fields(self)} & {f.name for f in dataclasses.fields(other)}
        return other(**{name: getattr(self, name) for name in shared})

    def with_setting(self, name: str, value: Any, where: str | None = None) -> Self:
        """The settings with one value replaced, by its dotted name, such as model.mixer.d_state.

        Another `kind` of a part keeps the settings that both kinds have.
        """
        where = name if where is None else where
        first, _, rest = name.partition(".")
        if first == "kind" and self.registry is not None and not rest:
            other: Self = self.as_kind(str(value))
            return other
        offered = [f.name for f in dataclasses.fields(self) if not f.metadata.get("set_by_task")]
        _check_names([first], offered, where)
        part = getattr(self, first)
        if isinstance(part, Settings) != bool(rest):
            parts = " followed by the name of a setting" if isinstance(part, Settings) else " alone: it has no parts"
            raise ValueError(f"{where}: expected {first}{parts}")
        annotation = get_type_hints(type(self))[first]
        changed = part.with_setting(rest, value, where) if rest else typed(value, annotation, where)
        return dataclasses.replace(self, **{first: changed})

    @property
    def files(self) -> list[Path]:
        """The files that settings name."""
        given = (getattr(self, f.name) for f in dataclasses.fields(self))
        return [value for value in given if isinstance(value, Path)]

    def with_absolute_paths(self) -> Self:
        """Files by their absolute path, so that they are found from any folder."""
        given = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        paths = {name: path.expanduser().resolve() for name, path in given.items() if isinstance(path, Path)}
        return dataclasses.replace(self, **paths)


def _check_names(given: Iterable[str], known: Collection[str], where: str) -> None:
    for name in sorted(set(given) - set(known)):
        raise ValueError(f"{where}: unknown setting {name!r}; {nearest(name, known)}")


def check_least(settings: Any, **least: float) -> None:
    """Refuse settings below a bound, and NaN."""
    for name, number in least.items():
        if not getattr(settings, name) >= number:
            raise ValueError(f"{name}: expected at least {number}, got {getattr(settings, name)}")


def check_numbers(settings: Any, prefix: str = "") -> None:
    """Refuse whole numbers of 2^63 and above, in settings and their parts."""
    for one in dataclasses.fields(settings):
        value, name = getattr(settings, one.name), prefix + one.name
        if dataclasses.is_dataclass(value):
            check_numbers(value, f"{name}.")
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) >= LARGEST:
                raise ValueError(f"{name}: expected a whole number below 2^63, got {number}")


def dumps(settings: Settings) -> str:
    """Settings as JSON text."""
    return json.dumps(settings.to_dict(), indent=2)


def flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Plain settings by their dotted names: {"optim.lr": 0.01, ...}."""
    found: dict[str, Any] = {}
    for name, value in settings.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Settings):
        return value.to_dict()
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def typed(value: Any, annotation: Any, where: str) -> Any:
    """A value from JSON, as the type of its field; another type is refused."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return annotation.from_dict(value, where)
    if isinstance(value, str) and annotation in (Path, Path | None):
        return Path(value)
    value = _tuples(value)
    if not _fits(value, annotation):
        raise ValueError(f"{where}: expected {_in_words(annotation)}, got {value!r:.80}")
    return value


def _kind_in_words(kinds: Registry[Any], value: Any) -> str:
    """Describe for a message what was expected instead of a class or an instance, and what came."""
    given = value if isinstance(value, type) else type(value)
    meant = given.__name__.lower().removesuffix("config")
    got = f"the class {given.__name__}" if given is value else f"{value!r:.80}".partition("\n")[0]
    if meant in kinds:
        return f"the name {meant!r}, or its settings, {kinds[meant].__name__}(...), got {got}"
    return f"a name, one of {', '.join(kinds)}, or the settings of one, got {got}"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a plain value has the type of a field; types that JSON lacks are left to the class."""
    if get_origin(annotation) in (Union, UnionType):
        return any(_fits(value, option) for option in get_args(annotation))
    if get_origin(annotation) is Literal:
        return value in get_args(annotation)
    if get_origin(annotation) is tuple and get_args(annotation)[1:] == (...,):
        return isinstance(value, tuple) and all(_fits(one, get_args(annotation)[0]) for one in value)
    if annotation is float:
        return isinstance(value, float) or _fits(value, int)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
    return annotation not in (bool, str, Path, dict, type(None)) or isinstance(value, annotation)


def _in_words(annotation: Any) -> str:
    """The type of a field, for a message."""
    if get_origin(annotation) in (Union, UnionType):
        return " or ".join(map(_in_words, get_args(annotation)))
    if get_origin(annotation) is Literal:
        return " or ".join(map(json.dumps, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return f"a list, each {_in_words(get_args(annotation)[0])}"
    return TYPES_IN_WORDS.get(annotation, str(annotation))
