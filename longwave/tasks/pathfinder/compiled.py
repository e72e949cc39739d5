"""Pathfinder: images drawn by the compiled library."""

import ctypes
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.core import native
from longwave.tasks.pathfinder.settings import LEVELS, Setting
from longwave.tasks.pathfinder.snakes import Drawn, Paddle
from longwave.tasks.pathfinder.tables import Bytes, Ints, tables_of

ROW_BYTES = 32  # of the masks, as native_pathfinder.inc has them
HEAD = 7  # numbers before the paddles in the record of an image: label, margin, markers, number of paddles

SIZES = (
    *("size", "margin", "side", "wide_side", "window", "marker_side"),
    *("candidates", "openings", "long_paddles", "short_paddles", "distractors"),
)
ARRAYS = (
    *("pictures", "masks", "wide_masks", "heads", "pivots", "seconds", "advances", "offsets", "weights"),
    *("stencils", "works", "boxes", "opening", "marker"),
)


class _Tables(ctypes.Structure):
    """The struct Tables of native_pathfinder.inc; `_handed` fills it in this order."""

    _fields_ = [(name, ctypes.c_int64) for name in SIZES] + [(name, ctypes.c_void_p) for name in ARRAYS]


def draw(setting: Setting, keys: NDArray[np.uint64], threads: int = 0) -> list[Drawn]:
    """The images of some keys; with 0 threads, as many as OpenMP takes."""
    function = native.load().longwave_pathfinder
    function.argtypes = [ctypes.c_int64] * 3 + [ctypes.c_void_p] * 2 + [ctypes.c_int] + [ctypes.c_void_p] * 2
    found, _ = _handed(setting)
    keys = np.ascontiguousarray(keys, np.uint64)
    pixels = np.empty((len(keys), setting.size, setting.size), np.uint8)
    records = np.empty((len(keys), HEAD + 4 * setting.most_paddles), np.int32)
    memory = found, keys.ctypes.data, threads, pixels.ctypes.data, records.ctypes.data
    if function(len(found), len(keys), records.shape[1], *memory):
        raise MemoryError(f"longwave's compiled generator of Pathfinder ran out of memory at {len(keys)} images")
    return [_drawn(*pair) for pair in zip(pixels, records, strict=True)]


def _drawn(pixels: Bytes, record: Ints) -> Drawn:
    label, margin, *_, count = record[:HEAD].tolist()
    paddles = record[HEAD : HEAD + 4 * count].reshape(-1, 4).tolist()
    return Drawn(pixels, label, margin, record[2:6].reshape(2, 2), [Paddle(*paddle) for paddle in paddles])


@functools.lru_cache(4 * LEVELS)
def _handed(setting: Setting) -> tuple[Any, list[Any]]:
    """The tables of a setting as the library takes them, and the arrays that must outlive them."""
    structs, kept = [], []
    for own in tables_of(setting):
        sizes = (
            *(setting.size, own.margin, own.masks.shape[1], own.wide_masks.shape[1]),
            *(own.stencils.shape[1], len(own.marker), len(own.candidates), len(own.openings)),
            *(*setting.paddles, setting.distractors),
        )
        masks, wide_masks = (
            np.pad(mask, ((0, 0), (0, 0), (0, ROW_BYTES - mask.shape[2]))) for mask in (own.masks, own.wide_masks)
        )
        arrays = (
            *(own.pictures, masks, wide_masks, own.heads, own.pivots, own.seconds, own.advances, own.candidates),
            *(own.weights, own.stencils, own.works, own.boxes, own.openings, own.marker),
        )
        held = [np.ascontiguousarray(array) for array in arrays]
        structs.append(_Tables(*sizes, *(array.ctypes.data for array in held)))
        kept.append(held)
    return (_Tables * len(structs))(*structs), kept
