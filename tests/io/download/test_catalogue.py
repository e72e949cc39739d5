"""The catalogue: every entry is complete, files are checked, and what is missing is named."""

import gzip
import hashlib
import os
from pathlib import Path

import pytest
from tiny_set import CONTENTS, sha256

from longwave.io.download import catalogue
from longwave.io.download.catalogue import DATASETS, CsvFile, File, MissingData

REAL = os.environ.get("LONGWAVE_DATA")


def test_what_a_gzip_file_holds_will_do_without_it(tmp_path):
    part = File("x.gz", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}", gzipped=True)
    assert not part.present(tmp_path)
    (tmp_path / "x").write_bytes(CONTENTS["tiny/a.txt"])
    assert part.present(tmp_path)
    assert part.problem(tmp_path) is None
    (tmp_path / "x").write_bytes(CONTENTS["tiny/a.txt"][:-1])
    assert "holds 5999 bytes" in part.problem(tmp_path).replace(",", "")


def test_a_gzip_file_is_checked_by_what_it_holds(tmp_path):
    part = File("x.gz", 6000, f"sha256:{sha256(CONTENTS['tiny/a.txt'])}", gzipped=True)
    path = tmp_path / "x.gz"
    for level in (1, 9):
        path.write_bytes(gzip.compress(CONTENTS["tiny/a.txt"], level))
        assert part.problem(tmp_path) is None
    path.write_bytes(path.read_bytes()[:-12])
    assert "damaged" in part.problem(tmp_path)
    path.write_bytes(b"not gzip")
    assert "damaged" in part.problem(tmp_path)
    path.write_bytes(gzip.compress(bytes(10_000_000)))
    assert "more bytes" in part.problem(tmp_path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n3,4\n", None),
        ("a,b\r\n1,2\r\n3,4", None),
        ("a,b\n1,2\n", "1 rows, expected 2"),
        ("a,b\n1,2\n3\n", "row 2 has 1 cells, expected 2"),
        ("a,c\n1,2\n3,4\n", "does not begin with"),
    ],
)
def test_a_table_is_checked_by_columns_and_rows(tmp_path, text, problem):
    (tmp_path / "x.csv").write_text(text, newline="")
    found = CsvFile("x.csv", ("a", "b"), 2).problem(tmp_path)
    assert found is None if problem is None else problem in found


def test_require_says_what_is_missing_what_to_put_where_and_which_command_gets_it(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        catalogue.require("etth1", tmp_path)
    message = str(missing.value)
    assert f"to {tmp_path / 'ETT-small' / 'ETTh1.csv'}" in message
    assert DATASETS["etth1"].sources[0].urls[0] in message
    assert f"Run:\n  longwave data get etth1 --data-dir {tmp_path}\n" in message


def test_require_names_the_plain_command_for_the_usual_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path))
    with pytest.raises(MissingData, match="Run:\n  longwave data get mnist\n"):
        catalogue.require("mnist")


def test_require_asks_only_for_the_files_that_are_missing(tmp_path):
    (tmp_path / "mnist").mkdir()
    for source in DATASETS["mnist"].sources[1:]:
        (tmp_path / source.target).write_bytes(b"")
    with pytest.raises(MissingData) as missing:
        catalogue.require("mnist", tmp_path)
    assert "train-images" in str(missing.value)
    assert "t10k" not in str(missing.value)


def test_the_data_folder_is_the_argument_then_the_variable_then_the_cache(monkeypatch, tmp_path):
    assert catalogue.data_dir() == tmp_path / "cache" / "longwave"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert catalogue.data_dir() == Path.home() / ".cache" / "longwave"
    monkeypatch.setenv("LONGWAVE_DATA", str(tmp_path / "named"))
    assert catalogue.data_dir() == tmp_path / "named"
    assert catalogue.data_dir(tmp_path) == tmp_path
    assert catalogue.data_dir(Path("~/x")) == Path.home() / "x"


# The registry.


@pytest.mark.parametrize("name", DATASETS)
def test_every_registered_set_is_complete(name, tmp_path):
    dataset = DATASETS[name]
    assert name == name.lower()
    assert dataset.title
    assert dataset.licence
    for part in dataset.checks:
        assert sum(part.path == s.target or part.path.startswith(f"{s.target}/") for s in dataset.sources) == 1
    for source in dataset.sources:
        assert source.target == dataset.path or source.target.startswith(f"{dataset.path}/")
        assert all(url.startswith("https://") or source.sha256 for url in source.urls)
        assert source.sha256 is None or len(bytes.fromhex(source.sha256)) == 32
        assert source.archive is None or source.limit > source.size
    with pytest.raises(MissingData, match=f"longwave data get {name}"):
        catalogue.require(name, tmp_path)


@pytest.mark.skipif(not REAL, reason="LONGWAVE_DATA names no folder of real data")
@pytest.mark.parametrize("name", DATASETS)
def test_real_data_is_as_published(name):
    report = catalogue.check(name, Path(REAL))
    if report.problems and all("missing" in problem or " of " in problem for problem in report.problems):
        pytest.skip(f"not here, or not whole: {report.problems[0]}")
    assert report == ("good", ())


def test_the_embedded_file_is_unmodified():
    digest = "f1141f82f9d46968f05afa77ba16abfc4f790fe07583f9de06bb685b29a5411f"
    path = DATASETS["etth1"].embedded
    assert hashlib.sha256(path.read_bytes()).hexdigest() == digest
    note = (path.parent / "README.md").read_text(encoding="utf-8")
    assert "CC BY-ND 4.0" in note
    assert digest in note
