"""Lines of files that grow, and that others take the place of."""

import contextlib
from pathlib import Path

import pytest
from streamed import Writers, append, rotate, truncate

from longwave.io import tail as lines


def follow(monkeypatch, *actions):
    """The lines of grow.csv until Ctrl-C, and what was said."""
    monkeypatch.setattr(lines, "_wait", Writers(*actions))
    found, said = [], []
    with contextlib.suppress(KeyboardInterrupt):
        for some in lines.lines(Path("grow.csv"), True, said.append):
            found.append(some)
    return found, said


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("grow.csv").write_text("1\n2")


def test_lines_of_a_file_that_is_not_followed_come_to_its_end():
    assert list(lines.lines(Path("grow.csv"))) == [(["1"], True, False), (["2"], False, False)]


def test_lines_that_a_file_had_before_are_past_and_no_lines_say_that_they_are_read(monkeypatch):
    found, said = follow(monkeypatch, append("3\n"), append("4\n5"))
    assert found == [(["1"], True, True), ([], False, False), (["23"], False, False), (["4"], False, False)]
    assert said == []


def test_a_long_past_comes_in_pieces(monkeypatch):
    monkeypatch.setattr(lines, "TOGETHER", 3)
    truncate("1\n2\n3\n4\n")()
    found, _ = follow(monkeypatch, append("5\n"))
    assert [(text, some.is_past) for some in found for text in some.texts] == [
        ("1", True), ("2", True), ("3", True), ("4", True), ("5", False)
    ]  # fmt: skip


def test_what_is_written_to_a_file_just_before_it_is_rotated_is_not_lost(monkeypatch):
    truncate("1\n")()
    append("2\n3", "new.csv")()
    look = lines._change

    def rotated_before_the_look(file, path):
        if Path("new.csv").exists():
            append("2\n3")()
            Path("grow.csv").rename("old.csv")
            Path("new.csv").rename("grow.csv")
        return look(file, path)

    monkeypatch.setattr(lines, "_change", rotated_before_the_look)
    found, said = follow(monkeypatch)
    assert [some for some in found if some.texts] == [
        (["1"], True, True),
        (["2"], False, False),
        (["2"], True, False),
    ]
    assert said == [
        "grow.csv was replaced by another file; its incomplete last line is skipped: reading from the beginning"
    ]


def test_a_longer_file_in_the_place_of_another_is_noticed(monkeypatch):
    found, said = follow(monkeypatch, rotate("3\n4\n5\n"))
    assert found == [(["1"], True, True), ([], False, False), (["3", "4", "5"], True, False), ([], False, False)]
    assert len(said) == 1


def test_a_file_that_is_gone_again_when_it_is_to_be_opened_is_waited_for(monkeypatch):
    look, left = lines._change, ["new"]

    def gone_after_the_look(file, path):
        happened = look(file, path)
        if happened and left:
            Path(f"{left.pop()}.csv").write_text("6\n")
            path.unlink()
        return happened

    monkeypatch.setattr(lines, "_change", gone_after_the_look)
    found, _ = follow(monkeypatch, rotate("3\n4\n"), lambda: Path("new.csv").rename("grow.csv"), append("7\n"))
    assert [text for some in found for text in some.texts] == ["1", "6", "7"]
