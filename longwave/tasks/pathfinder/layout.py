"""Pathfinder: the files of the Long Range Arena, written in the published format, and read.

    <set>/curv_contour_length_14/imgs/<batch>/sample_<i>.png    grey images
    <set>/curv_contour_length_14/metadata/<batch>.npy           text, one line per image, in spite of the ending

Hundreds of thousands of small files are slow to open: once read, the pixels are cached beside them in one memory-mapped
array. It has a digest of the metadata, and is made again if that changes.
"""

import errno
import hashlib
import io
import re
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longwave.core import files
from longwave.core.progress import Progress
from longwave.tasks.pathfinder.drawing import SETTINGS, Drawn, Setting, draw, keys

HARD = "curv_contour_length_14"  # of the three difficulties, the one that the benchmark uses
BATCH = 1000  # images per folder
# Folder, file, number, label, then continuity, lengths, thickness, margin, contrasts. No name may leave the folder.
IMAGE = re.compile(r"imgs/[0-9]+ \w+\.png \S+ [01]( \S+){7}")
PIXELS, INDEX = "longwave-pixels.npy", "longwave-pixels.json"  # the cache, and the digest of its metadata


# Making


def make(name: str, folder: Path, count: int, seed: int, progress: Progress, **options: bool) -> None:
    """Write the images of a set in batches; a batch with metadata is complete."""
    from PIL import Image

    setting = SETTINGS[name].with_options(**options)
    for part in ("imgs", "metadata"):
        (folder / HARD / part).mkdir(parents=True, exist_ok=True)
    progress.start(name, count)
    for batch, start in enumerate(range(0, count, BATCH)):
        numbers = range(start, min(count, start + BATCH))
        metadata = folder / HARD / "metadata" / f"{batch}.npy"
        if metadata.exists():
            progress.advance(len(numbers))
            continue
        (folder / HARD / "imgs" / str(batch)).mkdir(exist_ok=True)
        lines = []
        for k, drawn in enumerate(draw(setting, keys(seed, numbers))):
            # Not atomically: the metadata, which is written last, marks the batch as complete.
            path = folder / HARD / "imgs" / str(batch) / f"sample_{k}.png"
            buffer = io.BytesIO()
            Image.fromarray(drawn.pixels).save(buffer, "PNG")
            with files.naming(path):
                path.write_bytes(buffer.getvalue())
            lines.append(_line(setting, batch, k, drawn))
            progress.advance(1)
        files.write_text(metadata, "".join(lines))


def _line(setting: Setting, batch: int, number: int, drawn: Drawn) -> str:
    numbers = setting.continuity, *setting.paddles, setting.length, setting.thickness, drawn.margin, 1
    return " ".join(map(str, (f"imgs/{batch}", f"sample_{number}.png", number, drawn.label, *numbers))) + "\n"


# Reading


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """The images of a set and their labels, in the order of the metadata."""

    pixels: NDArray[np.uint8]  # (images, size, size), memory-mapped, or in memory if they cannot be cached
    rows: NDArray[np.int64]  # (n,) those that can be read
    labels: NDArray[np.int64]  # (n,)
    empty: int  # images skipped because their files are empty
    digest: str  # of the metadata


def read(folder: Path, size: int, progress: Progress) -> LabelledImages:
    """The images of a set in a folder such as pathfinder32; empty files are skipped."""
    place = folder / HARD
    names, labels, digest = _metadata(place)
    found = _kept(place, digest, (len(names), size, size))
    if found is None:
        found = _read_images(place, names, size, digest, progress)
    pixels, empty = found
    rows = np.setdiff1d(np.arange(len(names)), empty)
    if not len(rows):
        raise ValueError(f"{place}: expected images, got {len(names):,} empty files")
    return LabelledImages(pixels, rows, labels[rows], len(empty), digest)


def _metadata(place: Path) -> tuple[list[str], NDArray[np.int64], str]:
    """The name of each image below the folder, its label, and a digest of all metadata."""
    paths = list((place / "metadata").glob("*.npy"))
    if not paths or not all(path.stem.isdecimal() for path in paths):
        odd = next((path.name for path in paths if not path.stem.isdecimal()), "none")
        raise ValueError(f"{place / 'metadata'}: expected files called NUMBER.npy, got {odd}")
    names, labels, digest = [], [], hashlib.sha256()
    for path in sorted(paths, key=lambda path: int(path.stem)):
        content = path.read_bytes()
        digest.update(b"%d %d\n" % (int(path.stem), len(content)) + content)
        for number, fields in enumerate(_fields(path, content), 1):
            if IMAGE.fullmatch(" ".join(fields)) is None:
                raise ValueError(
                    f"{path}: image {number}: expected 11 fields that begin with imgs/BATCH, a file name *.png, "
                    f"a number, and 0 or 1, got {' '.join(fields)!r:.100}"
                )
            names.append(f"{fields[0]}/{fields[1]}")
            labels.append(int(fields[3]))
    if not names:
        raise ValueError(f"{place / 'metadata'}: expected a line for each image, got none")
    return names, np.array(labels, np.int64), digest.hexdigest()


def _fields(path: Path, content: bytes) -> list[list[str]]:
    """The metadata of each image: lines of text, or an array of strings, as the original generator writes."""
    if not content.startswith(b"\x93NUMPY"):
        try:
            return [line.split() for line in content.decode("ascii").splitlines() if line.strip()]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: expected lines of text, or an array of strings, got {error}") from error
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: expected an array of strings, got {error}") from error
    if array.ndim != 2 or array.dtype.kind not in "US":
        raise ValueError(f"{path}: expected a table of strings, got an array {array.shape} of {array.dtype}")
    rows: list[list[str]] = array.astype(str).tolist()
    return rows


def _kept(place: Path, digest: str, shape: tuple[int, ...]) -> tuple[NDArray[np.uint8], list[int]] | None:
    """The cached pixels, and which images were empty; None if they do not match the metadata."""
    try:
        index = files.read_json(place / INDEX)
        pixels = np.load(place / PIXELS, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):  # missing or incomplete: it is made again
        return None
    fits = isinstance(pixels, np.ndarray) and pixels.shape == shape and pixels.dtype == np.uint8
    if not fits or not isinstance(index, dict) or index.get("digest") != digest:
        return None
    empty = index.get("empty")
    if not isinstance(empty, list) or not all(type(k) is int and 0 <= k < shape[0] for k in empty):
        return None
    return pixels, empty


def _read_images(
    place: Path, names: list[str], size: int, digest: str, progress: Progress
) -> tuple[NDArray[np.uint8], list[int]]:
    """The pixels of all images, cached if the folder is writable; and which images were empty."""
    empty: list[int] = []
    progress.start(f"reading the images of {place.parent.name}", len(names))

    def image(k: int) -> NDArray[np.uint8]:
        pixels = read_png(place / names[k], size)
        progress.advance(1)
        if pixels is None:
            empty.append(k)
            return np.zeros((size, size), np.uint8)
        return pixels

    try:
        (place / INDEX).unlink(missing_ok=True)
        with files.atomic(place / PIXELS) as file:
            shape = len(names), size, size
            np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for k in range(len(names)):
                file.write(image(k).tobytes())
        files.write_json(place / INDEX, {"digest": digest, "empty": empty})
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        empty.clear()
        return np.stack([image(k) for k in range(len(names))]), empty
    return np.load(place / PIXELS, mmap_mode="r", allow_pickle=False), empty


def read_png(path: Path, size: int) -> NDArray[np.uint8] | None:
    """A grey image (size, size); None if the file is empty."""
    from PIL import Image

    # What Pillow raises for a damaged PNG file, or one that declares too many pixels.
    damage = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file; expected this image, which the metadata lists") from error
    if not content:
        return None
    try:
        with Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            (width, height), mode = image.size, image.mode
            if (width, height, mode) == (size, size, "L"):
                return np.asarray(image)
    except damage as error:
        raise ValueError(f"{path}: the PNG file is damaged ({error}); get it again") from error
    raise ValueError(
        f"{path}: expected an 8-bit grey image of {size} x {size} pixels, got {height} x {width}, mode {mode}"
    )
