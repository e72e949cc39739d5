"""Making data sets: complete or not there, known by count and seed, never written over."""

import json

import pytest

from longwave.core import lock
from longwave.io.download import making
from longwave.io.download.catalogue import DATASETS, MissingData
from longwave.io.download.making import MAKERS, Made, Maker


class Counter:
    """A maker of one file a number, which may fail half-way and goes on where it failed."""

    def __init__(self):
        self.fail_at = None
        self.written = []

    def __call__(self, folder, count, seed, progress):
        progress.start("numbers", count)
        for k in range(count):
            if k == self.fail_at:
                raise KeyboardInterrupt
            if not (folder / f"{k}.txt").exists():
                (folder / f"{k}.txt").write_text(str(k + seed))
                self.written.append(k)
            progress.advance(1)


@pytest.fixture
def counter():
    maker = Counter()
    MAKERS.register("numbers")(Maker("Numbers", "some/numbers", ("0.txt", "1.txt"), count=4, seed=5, make=maker))
    yield maker
    MAKERS.unregister("numbers")


@pytest.mark.parametrize("name", MAKERS)
def test_every_maker_is_complete_and_no_download_has_its_name(name):
    maker = MAKERS[name]
    assert name not in DATASETS
    assert maker.title
    assert maker.files
    assert maker.count >= 1
    assert not maker.path.startswith(("/", "."))


def test_a_set_is_made_once_with_its_count_and_seed(counter, folder):
    assert not making.is_there("numbers", folder)
    assert making.made("numbers", folder) is None
    path = making.make("numbers", folder)
    assert path == folder / "some" / "numbers"
    assert [(path / f"{k}.txt").read_text() for k in range(4)] == ["5", "6", "7", "8"]
    assert json.loads((path / "made.json").read_text()) == {"name": "numbers", "count": 4, "seed": 5}
    assert making.is_there("numbers", folder)
    assert making.made("numbers", folder) == Made("numbers", 4, 5)
    assert making.require("numbers", folder) == path
    assert making.make("numbers", folder) == path
    assert counter.written == [0, 1, 2, 3]


def test_a_part_of_a_set_is_noted_and_the_whole_is_not(counter, folder):
    assert Made("numbers", 4, 5).note() is None
    making.make("numbers", folder, count=2)
    note = "numbers was made with 2 examples and seed 5; the full set has 4 and seed 5"
    assert making.made("numbers", folder).note() == note
    assert Made("numbers", 4, 6).note() == "numbers was made with 4 examples and seed 6; the full set has 4 and seed 5"


def test_an_interrupted_set_is_not_there_and_goes_on(counter, folder):
    counter.fail_at = 2
    with pytest.raises(KeyboardInterrupt):
        making.make("numbers", folder)
    assert not making.is_there("numbers", folder)
    counter.fail_at = None
    making.make("numbers", folder)
    assert counter.written == [0, 1, 2, 3]
    assert [file.name for file in (folder / "some").iterdir()] == ["numbers"]


def test_what_an_interrupted_set_of_another_seed_left_is_not_used(counter, folder):
    counter.fail_at = 2
    with pytest.raises(KeyboardInterrupt):
        making.make("numbers", folder, seed=1)
    counter.fail_at = None
    path = making.make("numbers", folder)
    assert [(path / f"{k}.txt").read_text() for k in range(4)] == ["5", "6", "7", "8"]


def test_a_set_of_another_count_or_seed_is_not_written_over(counter, folder):
    making.make("numbers", folder, count=2)
    for count, seed in ((None, None), (2, 6)):
        with pytest.raises(ValueError, match=r"has 2 examples with seed 5; expected \d with seed \d: move it away"):
            making.make("numbers", folder, count, seed)


def test_a_set_that_another_process_makes_is_left_to_it(counter, folder, monkeypatch):
    def taken(file):
        raise BlockingIOError

    making.make("numbers", folder / "other", count=2)
    monkeypatch.setattr(lock, "_lock", taken)
    with pytest.raises(ValueError, match=r"numbers\.making: another process is making this data set; wait for it"):
        making.make("numbers", folder, count=2)
    assert not making.is_there("numbers", folder)
    assert making.make("numbers", folder / "other", count=2).exists()  # nothing is written there


def test_published_files_serve_and_are_not_written_over(counter, folder):
    path = folder / "some" / "numbers"
    path.mkdir(parents=True)
    for name in ("0.txt", "1.txt"):
        (path / name).write_text("published")
    assert making.require("numbers", folder) == path
    assert making.made("numbers", folder) is None
    with pytest.raises(ValueError, match="has files that longwave did not make"):
        making.make("numbers", folder)
    assert (path / "0.txt").read_text() == "published"


def test_a_set_that_is_missing_is_named_with_the_command_that_makes_it(counter, folder, monkeypatch):
    with pytest.raises(MissingData) as missing:
        making.require("numbers", folder)
    assert f"Run:\n  longwave data make numbers --data-dir {folder}\n" in str(missing.value)
    assert f"{folder / 'some' / 'numbers'} has no 0.txt, 1.txt" in str(missing.value)
    monkeypatch.setenv("LONGWAVE_DATA", str(folder))
    with pytest.raises(MissingData, match="Run:\n  longwave data make numbers\n"):
        making.require("numbers")


@pytest.mark.parametrize(("count", "seed", "name"), [(0, 0, "count"), (2, -1, "seed")])
def test_counts_and_seeds_that_make_no_sense_are_refused(counter, folder, count, seed, name):
    with pytest.raises(ValueError, match=f"{name}: expected at least"):
        making.make("numbers", folder, count, seed)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"name": "numbers", "count": 4}',
        '{"name": "numbers", "count": "4", "seed": 0}',
        '{"name": ["numbers"], "count": 4, "seed": 0}',
        '{"name": "other", "count": 4, "seed": 0}',
        '{"name": "numbers", "count": 4, "seed": 0, "options": [1]}',
    ],
)
def test_a_damaged_note_of_how_a_set_was_made_is_refused(counter, folder, text):
    (making.make("numbers", folder) / "made.json").write_text(text)
    with pytest.raises(ValueError, match=r"made\.json: expected how the set was made"):
        making.made("numbers", folder)
