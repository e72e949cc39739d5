"""Settings: to JSON and back, kinds by name, what is refused, and paths."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from longwave.core.registry import Registry
from longwave.core.settings import Settings, check_least, dumps

SHAPES: Registry[Any] = Registry("shape")


@dataclass(frozen=True)
class Shape(Settings):
    registry: ClassVar[Registry[Any]] = SHAPES


@SHAPES.register("disc")
@dataclass(frozen=True)
class Disc(Shape):
    radius: float = 1.0


@SHAPES.register("box")
@dataclass(frozen=True)
class Box(Shape):
    sides: tuple[int, ...] = (1, 2)
    file: Path | None = None


@dataclass(frozen=True)
class Drawing(Settings):
    name: str
    shape: Shape = field(default_factory=Disc)
    folder: Path = Path("out")


def test_settings_come_back_from_json_with_the_kinds_of_their_parts():
    drawing = Drawing("a", Box((3, 4), Path("b.csv")), Path("c"))
    content = json.loads(dumps(drawing))
    shape = {"kind": "box", "sides": [3, 4], "file": "b.csv"}
    assert content == {"name": "a", "shape": shape, "folder": "c"}
    assert Drawing.from_dict(content) == drawing


def test_what_is_missing_has_its_default():
    assert Drawing.from_dict({"name": "a", "shape": {"kind": "box"}}) == Drawing("a", Box())


def test_without_a_kind_the_class_itself_is_meant():
    assert Box.from_dict({"sides": [7]}) == Box((7,))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"name": "a", "nmae": 1}, "file: unknown setting 'nmae'; expected one of name.*did you mean 'name'"),
        ({"name": "a", "shape": {"kind": "disk"}}, "file: shape: unknown kind 'disk'; .*did you mean 'disc'"),
        ({"name": "a", "shape": {"kind": "disc", "sides": 2}}, "file: shape: unknown setting 'sides'; .* radius"),
        ({"name": "a", "shape": {"kind": ["disc"]}}, "file: shape: unknown kind "),
        ({"name": "a", "shape": 3}, "file: shape: expected settings by name, got 3"),
        ([], r"file: expected settings by name, got \[\]"),
        ({}, "file: .*name"),
    ],
    ids=str,
)
def test_what_is_not_known_or_missing_is_refused_with_where_it_stands(content, message):
    with pytest.raises(ValueError, match=message):
        Drawing.from_dict(content, "file")


@dataclass(frozen=True)
class Plain(Settings):
    count: int = 1
    size: float = 1.0
    loud: bool = False
    word: str | None = None
    way: Literal["up", "down"] = "up"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"count": "four"}, "file: count: expected a whole number, got 'four'"),
        ({"count": True}, "file: count: expected a whole number, got True"),
        ({"count": 1.5}, "file: count: expected a whole number, got 1.5"),
        ({"size": None}, "file: size: expected a number, got None"),
        ({"loud": 1}, "file: loud: expected true or false, got 1"),
        ({"word": 3}, "file: word: expected text or null, got 3"),
        ({"way": "left"}, 'file: way: expected "up" or "down", got \'left\''),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        Plain.from_dict(content, "file")
    assert Plain.from_dict({"size": 2, "word": None, "way": "down"}) == Plain(size=2, way="down")


def test_settings_by_keyword_may_name_a_kind():
    assert Drawing.by_keyword(name="a", shape="box") == Drawing("a", Box())
    assert Drawing.by_keyword(Drawing("a"), shape=Disc(2.0)) == Drawing("a", Disc(2.0))
    with pytest.raises(ValueError, match=r"Drawing: unknown setting 'nmae'; .*did you mean 'name'"):
        Drawing.by_keyword(nmae="a")


def test_a_class_that_is_not_registered_has_no_kind():
    @dataclass(frozen=True)
    class Line(Shape):
        pass

    with pytest.raises(ValueError, match=r"shape: .*Line.* is not registered; expected one of disc, box"):
        Line().to_dict()


def test_files_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Box(file=Path("b.csv")).with_absolute_paths() == Box(file=tmp_path / "b.csv")
    assert Box().with_absolute_paths() == Box()


def test_a_number_below_its_least_is_refused_and_so_is_none_at_all():
    check_least(Disc(2.0), radius=2)
    for radius in (1.9, float("nan")):
        with pytest.raises(ValueError, match=f"radius: expected at least 2, got {radius}"):
            check_least(Disc(radius), radius=2)
