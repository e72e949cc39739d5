"""The files of Pathfinder: made in parts as at once, read as they were published, refused where they are damaged."""

import json
import shutil
import struct
import zlib

import numpy as np
import pytest
from pathfinder_files import write_pathfinder
from PIL import Image

from longwave.core import files
from longwave.core.progress import SILENT, Progress
from longwave.io.download import making
from longwave.tasks.pathfinder import layout
from longwave.tasks.pathfinder.layout import HARD, INDEX, PIXELS, read


class Stopped(Progress):
    """Progress that ends the job, as a kill would, after some examples."""

    def __init__(self, after):
        self.left = after

    def advance(self, size):
        self.left -= size
        if self.left < 0:
            raise KeyboardInterrupt


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def small_batches(compiled, monkeypatch):
    monkeypatch.setattr(layout, "BATCH", 10)


@pytest.fixture
def folder(tmp_path):
    return write_pathfinder(tmp_path, {10: 5, 2: 7})


def values(found):
    return found.pixels[found.rows, 0, 0].tolist()


# Making


def test_a_set_that_was_stopped_goes_on_to_what_is_made_at_once(small_batches, tmp_path):
    at_once = making.make("pathfinder", tmp_path / "once", count=25)
    with pytest.raises(KeyboardInterrupt):
        making.make("pathfinder", tmp_path / "twice", count=25, progress=Stopped(13))
    assert not making.is_there("pathfinder", tmp_path / "twice")
    part = tmp_path / "twice" / ".pathfinder32.part" / HARD
    assert [path.name for path in (part / "metadata").iterdir()] == ["0.npy"]
    first = (part / "imgs" / "0" / "sample_3.png").stat().st_mtime_ns
    in_parts = making.make("pathfinder", tmp_path / "twice", count=25)
    assert contents(in_parts) == contents(at_once)
    assert (in_parts / HARD / "imgs" / "0" / "sample_3.png").stat().st_mtime_ns == first


def test_an_image_of_a_set_does_not_depend_on_how_many_there_are(small_batches, tmp_path):
    few = contents(making.make("pathfinder", tmp_path / "few", count=10) / HARD)
    many = contents(making.make("pathfinder", tmp_path / "many", count=12) / HARD)
    assert few.items() < many.items()
    other = contents(making.make("pathfinder", tmp_path / "other", count=10, seed=1) / HARD)
    assert set(other) == set(few)
    assert all(other[name] != few[name] for name in few if name.endswith(".png"))


def test_options_make_another_set_and_are_noted(small_batches, tmp_path):
    plain = making.make("pathfinder", tmp_path / "plain", count=4)
    chosen = making.make("pathfinder", tmp_path / "chosen", count=4, options=["equal_contrast"])
    assert contents(chosen / HARD) != contents(plain / HARD)
    made = making.made("pathfinder", tmp_path / "chosen")
    assert made.options == ("equal_contrast",)
    assert "with 4 examples and seed 0, equal_contrast; the full set has 200,000" in made.note()
    with pytest.raises(ValueError, match="has 4 examples with seed 0, equal_contrast; expected 4 with seed 0: move"):
        making.make("pathfinder", tmp_path / "chosen", count=4)
    with pytest.raises(ValueError, match="no option 'brighter'; expected some of: equal_contrast, all_orientations"):
        making.make("pathfinder", tmp_path / "more", count=4, options=["brighter"])
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(("name", "size"), [("pathfinder", 32), ("pathx", 128)])
def test_what_was_made_is_read_with_its_labels(small_batches, tmp_path, name, size):
    path = making.make(name, tmp_path, count=12)
    line = (path / HARD / "metadata" / "1.npy").read_text().splitlines()[1].split()
    found = read(path, size, SILENT)
    assert found.pixels.shape == (12, size, size)
    assert found.pixels.max(axis=(1, 2)).tolist() == [255] * 12
    assert line[:3] == ["imgs/1", "sample_1.png", "1"]
    assert line[3] == str(found.labels[11])
    assert line[4:9] == {32: "1.0 14 4 2 0.5", 128: "1.8 14 4 5 1.5"}[size].split()
    assert set(found.labels.tolist()) == {0, 1}


# Reading


def test_batches_are_read_by_their_number_and_lines_in_their_order(folder):
    found = read(folder, 32, SILENT)
    assert values(found) == [*range(20, 27), *range(100, 105)]
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1, 0, 0, 1, 0, 1, 0]
    assert found.empty == 0


@pytest.mark.parametrize("kind", [str, bytes])
def test_metadata_may_be_arrays_of_strings(folder, kind):
    expected = values(read(folder, 32, SILENT))
    path = folder / HARD / "metadata" / "2.npy"
    rows = [line.split() for line in path.read_text().splitlines()]
    np.save(path, np.array(rows).astype(kind))
    assert values(read(folder, 32, SILENT)) == expected


def test_empty_images_are_left_out_and_counted(folder):
    (folder / HARD / "imgs" / "2" / "sample_4.png").write_bytes(b"")
    for _ in range(2):  # read, and read again from what was kept
        found = read(folder, 32, SILENT)
        assert found.empty == 1
        assert values(found) == [20, 21, 22, 23, 25, 26, *range(100, 105)]
        assert found.labels.tolist() == [0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 0]
    for path in folder.rglob("*.png"):
        path.write_bytes(b"")
    (folder / HARD / INDEX).unlink()
    with pytest.raises(ValueError, match="expected images, got 12 empty files"):
        read(folder, 32, SILENT)


def test_pixels_are_kept_in_one_file_until_the_metadata_change(folder):
    first = values(read(folder, 32, SILENT))
    shutil.rmtree(folder / HARD / "imgs" / "2")
    kept = read(folder, 32, SILENT)
    assert isinstance(kept.pixels, np.memmap)
    assert values(kept) == first
    path = folder / HARD / "metadata" / "2.npy"
    path.write_text(path.read_text().replace("0.5 1 1", "0.5 2 1"))
    with pytest.raises(ValueError, match=r"sample_0\.png: no such file; expected this image"):
        read(folder, 32, SILENT)
    path.unlink()
    assert values(read(folder, 32, SILENT)) == [*range(100, 105)]


@pytest.mark.parametrize("name", [PIXELS, INDEX])
def test_what_was_kept_is_made_again_if_it_is_damaged(folder, name):
    first = values(read(folder, 32, SILENT))
    (folder / HARD / name).write_bytes((folder / HARD / name).read_bytes()[:20])
    assert values(read(folder, 32, SILENT)) == first
    assert json.loads((folder / HARD / INDEX).read_text())["empty"] == []


@pytest.mark.parametrize("empty", [None, [2, True], [99], "12", [0.5]])
def test_an_index_that_names_no_images_is_made_again(folder, empty):
    first = values(read(folder, 32, SILENT))
    index = folder / HARD / INDEX
    index.write_text(json.dumps(json.loads(index.read_text()) | {"empty": empty}))
    assert values(read(folder, 32, SILENT)) == first


def test_a_folder_that_cannot_be_written_to_is_read_into_memory(folder, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(files, "atomic", refused)
    assert values(read(folder, 32, SILENT)) == [*range(20, 27), *range(100, 105)]
    assert not (folder / HARD / PIXELS).exists()


def declare(path, size):
    """Let a PNG file say that it has so many pixels a side."""
    data = path.read_bytes()
    header = b"IHDR" + struct.pack(">II", size, size) + data[24:29]
    path.write_bytes(data[:12] + header + struct.pack(">I", zlib.crc32(header)) + data[33:])


def write_png(path, pixels):
    Image.fromarray(pixels).save(path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "no such file; expected this image, which the metadata lists"),
        (lambda path: path.write_bytes(path.read_bytes()[:60]), "the PNG file is damaged"),
        (lambda path: path.write_bytes(b"GIF89a, in truth"), "the PNG file is damaged"),
        (lambda path: declare(path, 2**31 - 1), "the PNG file is damaged"),
        (lambda path: write_png(path, np.zeros((32, 31), np.uint8)), "32 x 32 pixels, got 32 x 31"),
        (lambda path: write_png(path, np.zeros((32, 32, 3), np.uint8)), "got 32 x 32, mode RGB"),
    ],
)
def test_a_damaged_image_is_named(folder, damage, message):
    damage(folder / HARD / "imgs" / "10" / "sample_3.png")
    with pytest.raises(ValueError, match=rf"sample_3\.png: .*{message}"):
        read(folder, 32, SILENT)
    assert not (folder / HARD / PIXELS).exists()


GOOD = "imgs/2 sample_1.png 1 0 1.0 14 4 2 0.5 1 1"


@pytest.mark.parametrize(
    "line",
    [
        GOOD.removesuffix(" 1"),
        GOOD.replace("1 0 1.0", "1 2 1.0"),
        GOOD.replace("imgs/2", "../imgs/2"),
        GOOD.replace("imgs/2", "/imgs/2"),
        GOOD.replace("sample_1.png", "../sample_1.png"),
        GOOD.replace("sample_1.png", "sample_1.tif"),
    ],
)
def test_a_line_that_describes_no_image_is_named(folder, line):
    (folder / HARD / "metadata" / "2.npy").write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(ValueError, match=r"2\.npy: image 2: expected 11 fields that begin with imgs/BATCH"):
        read(folder, 32, SILENT)


def test_metadata_that_are_no_table_of_strings_are_refused(folder):
    path = folder / HARD / "metadata" / "2.npy"
    np.save(path, np.array([[{"a": 1}]], object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"2\.npy: expected an array of strings, got Object arrays cannot be loaded"):
        read(folder, 32, SILENT)
    np.save(path, np.zeros((2, 11)))
    with pytest.raises(ValueError, match=r"2\.npy: expected a table of strings, got an array \(2, 11\) of float64"):
        read(folder, 32, SILENT)
    path.write_bytes(path.read_bytes()[:9])
    with pytest.raises(ValueError, match=r"2\.npy: expected an array of strings"):
        read(folder, 32, SILENT)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match=r"2\.npy: expected lines of text, or an array of strings"):
        read(folder, 32, SILENT)
    path.rename(path.with_name("two.npy"))
    with pytest.raises(ValueError, match=r"expected files called NUMBER\.npy, got two\.npy"):
        read(folder, 32, SILENT)
    for left in (folder / HARD / "metadata").iterdir():
        left.unlink()
    with pytest.raises(ValueError, match=r"expected files called NUMBER\.npy, got none"):
        read(folder, 32, SILENT)
    path.write_text("\n")
    with pytest.raises(ValueError, match="expected a line for each image, got none"):
        read(folder, 32, SILENT)
