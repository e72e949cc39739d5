"""Pathfinder: lookup tables that an image is composed from, as arrays of integers.

Everything that takes a sine, a root or a filter is computed here, once, and rounded; the two generators, plain and
compiled, only look up, add and compare integers. So they agree to the byte, on every machine. Places are (row, column);
an angle t moves a row by sin t and a column by cos t.
"""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.tasks.pathfinder.settings import Setting

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]

DEGREES = 360  # directions in which a snake can start: -180, -179, ... degrees
ONE = 1 << 20  # brightness 1
CERTAIN = 1 << 16  # weight 1 of a candidate
FULL = 255  # of a mask: fully occupied
FREE = 76  # up to this, 0.3, a pixel is free for the start of a snake
SHARED = 458  # up to this, just below 1.8, two masks may overlap in a pixel
DIGITS = 9  # to which a length is rounded before it is made whole: the sine of 180 degrees is not quite 0
LOBES = 3  # of the filter, each way: its reach in pixels of the smaller picture
BORDER = 1  # pixels along every side that no paddle may touch


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a setting with one margin.

    A direction is one of the degrees, of a first paddle, or 360 + k, that of candidate k. The first paddle extends from
    its tail along its direction; later ones from their head, the candidate, against it.
    """

    setting: Setting
    margin: int
    pictures: Ints  # (2, directions, side, side) brightness of the paddles of long snakes, and of distractors
    masks: Bytes  # (directions, side, side) how much of each pixel a paddle occupies, the margin included
    wide_masks: Bytes  # (directions, side + 2 margin, ...) the same, wider by a disc of the margin
    heads: Ints  # (360, 2) from the tail of the first paddle to its head
    pivots: Ints  # (360, 2) from there to the point that the next paddle turns about
    seconds: Ints  # (360, 2) from the tail of the first snake to that of the second
    advances: Ints  # (directions, 2) from a pivot to the next
    candidates: Ints  # (candidates, 2) from a pivot to where the head of the next paddle may be
    weights: Ints  # (directions, candidates) how likely each is, in units of 1 / CERTAIN
    stencils: Bools  # (360, window, window) what must be free about the tail of a first paddle
    works: Bools  # (360,) whether a snake can start in this direction
    boxes: Ints  # (360, 4) top, left, height, width of where the first long snake may have its tail; 0 if nowhere
    marker: Ints  # (size of a marker, ...) brightness of a disc

    @property
    def openings(self) -> Ints:
        """The degrees at which the first long snake can start."""
        return np.flatnonzero(self.works & (self.boxes[:, 2] * self.boxes[:, 3] > 0)).astype(np.int32)


def tables_of(setting: Setting) -> tuple[Tables, ...]:
    """The tables for each margin; settings that differ only in numbers of paddles and distractors share arrays."""
    common = replace(setting, paddles=(0, 0), distractors=0)
    return tuple(replace(_tables(common, margin), setting=setting) for margin in setting.margins)


@functools.lru_cache(16)
def _tables(setting: Setting, margin: int) -> Tables:
    length = setting.length
    reach = length + margin
    degrees = np.radians(np.arange(DEGREES) - 180.0)
    candidates = _candidates(reach)
    turns = np.arctan2(candidates[:, 0], candidates[:, 1])
    directions = np.concatenate([degrees, turns])
    pictures, masks = _paddles(setting, margin, np.concatenate([degrees, turns + math.pi]))
    stencils = _stencils(masks[:DEGREES] == FULL, reach)
    contrasts = [contrast / max(setting.contrasts) for contrast in setting.contrasts]
    works = np.ones(DEGREES, bool) if setting.all_orientations else np.array([_works(s) for s in stencils])
    return Tables(
        setting=setting,
        margin=margin,
        pictures=np.array([np.rint(ONE * contrast * pictures) for contrast in contrasts], np.int32),
        masks=masks,
        wide_masks=np.array([dilated(np.pad(mask, margin), margin) for mask in masks]),
        heads=_moves(degrees, length),
        pivots=_moves(degrees + math.pi, reach),
        seconds=np.rint(_exact(setting.distance * _unit(degrees))).astype(np.int32),
        advances=_moves(directions, length + 2 * margin),
        candidates=candidates,
        weights=_weights(directions, turns, setting.continuity),
        stencils=stencils,
        works=works,
        boxes=np.array([_box(stencil, setting) for stencil in stencils], np.int32),
        marker=_marker(setting),
    )


# Places


def _unit(angles: Floats) -> Floats:
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1)


def _exact(values: Any) -> Any:
    return np.round(values, DIGITS)


def _moves(angles: Floats, distance: float) -> Ints:
    """The displacement of a move: rounded up, as in the published generator."""
    return np.ceil(_exact(distance * _unit(angles))).astype(np.int32)


def _candidates(reach: int) -> Ints:
    """The pixels on a circle, each once, by their angle."""
    count = math.ceil(2 * math.pi * reach)
    places = np.floor(_exact(reach * _unit(np.arange(count) / reach)))
    _, first = np.unique(places, axis=0, return_index=True)
    return places[np.sort(first)].astype(np.int32)


def _weights(directions: Floats, turns: Floats, continuity: float) -> Ints:
    """cos^2 of the angle between a direction and each candidate's, times the continuity, up to a right angle."""
    between = np.abs((turns - directions[:, None] + math.pi) % (2 * math.pi) - math.pi)
    weight = np.cos(np.minimum(continuity * between, math.pi / 2)) ** 2
    return np.rint(CERTAIN * weight).astype(np.int32)


# Pictures


def _paddles(setting: Setting, margin: int, angles: Floats) -> tuple[Floats, Bytes]:
    """Brightness at contrast 1 and mask of a paddle along each angle, both centred on its start.

    Masks are shrunk in bytes, as in the published generator: rows are rounded before columns.
    """
    half = setting.length + math.ceil(setting.thickness) + margin
    large = 4 * half + 1
    shrink = lanczos(large, 2 * half + 1)
    width = round(2 * setting.thickness)
    pictures, masks = [], []
    for row, column in 2 * half + _moves(angles, 2 * setting.length):
        drawn = line(large, (2 * half, 2 * half), (row, column), width)
        pictures.append(shrink @ drawn @ shrink.T)
        masks.append(_byte(shrink @ _byte(FULL * dilated(drawn, 2 * margin) @ shrink.T)))
    return np.array(pictures), np.array(masks, np.uint8)


def _byte(values: Floats) -> Floats:
    """The nearest whole numbers from 0 to 255."""
    return np.clip(np.floor(_exact(values) + 0.5), 0, FULL)


def line(size: int, start: tuple[int, int], end: tuple[int, int], width: int) -> Bools:
    """A straight line between two pixels on a canvas: Bresenham's if one pixel wide, else a filled quadrilateral."""
    canvas = np.zeros((size, size), bool)
    (y, x), (y_end, x_end) = start, (int(end[0]), int(end[1]))
    down, right = y_end - y, x_end - x
    if width == 1:
        steps = max(abs(down), abs(right))
        for k in range(steps + 1):
            canvas[y + _half_up(k * down / steps), x + _half_up(k * right / steps)] = True
        return canvas
    half = (width - 1) / 2
    far, near = (rounded(half) / math.hypot(down, right) for rounded in (_half_up, _half_down))
    corners = [
        (y + _half_up(far * right), x - _half_down(near * down)),
        (y_end + _half_up(far * right), x_end - _half_down(near * down)),
        (y_end - _half_up(near * right), x_end + _half_down(far * down)),
        (y - _half_up(near * right), x + _half_down(far * down)),
    ]
    for row in range(min(c[0] for c in corners), max(c[0] for c in corners) + 1):
        crossed = [x for a, b in zip(corners, corners[1:] + corners[:1], strict=True) for x in _crossed(a, b, row)]
        canvas[row, _half_up(min(crossed)) : _half_down(max(crossed)) + 1] = True
    return canvas


def _crossed(a: tuple[int, int], b: tuple[int, int], row: int) -> list[float]:
    """The point at which an edge crosses a row."""
    if a[0] == b[0]:
        return [a[1], b[1]] if a[0] == row else []
    if not min(a[0], b[0]) <= row <= max(a[0], b[0]):
        return []
    return [a[1] + (b[1] - a[1]) * (row - a[0]) / (b[0] - a[0])]


def _half_up(value: float) -> int:
    """To the nearest whole number; a half away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))


def _half_down(value: float) -> int:
    """To the nearest whole number; a half towards zero."""
    return int(math.copysign(math.ceil(abs(value) - 0.5), value))


def dilated(picture: Any, radius: float) -> Any:
    """A picture dilated by a disc: of each pixel the largest value within the radius; 0 outside the picture."""
    from scipy.ndimage import maximum_filter

    return maximum_filter(picture, footprint=disc(radius), mode="constant")


def disc(radius: float) -> Bools:
    """The places within a radius of the middle."""
    reach = np.arange(-math.floor(radius), math.floor(radius) + 1)
    return reach[:, None] ** 2 + reach**2 <= radius * radius


def lanczos(large: int, small: int) -> Floats:
    """(small, large): the matrix that shrinks a row by the Lanczos filter of three lobes, as image libraries do."""
    scale = large / small
    centres = (np.arange(small) + 0.5) * scale
    first = np.maximum(np.floor(centres - LOBES * scale + 0.5), 0)
    last = np.minimum(np.floor(centres + LOBES * scale + 0.5), large)
    places = np.arange(large)
    at = (places - centres[:, None] + 0.5) / scale
    taken = (places >= first[:, None]) & (places < last[:, None]) & (np.abs(at) < LOBES)
    weights = np.where(taken, np.sinc(at) * np.sinc(at / LOBES), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def _marker(setting: Setting) -> Ints:
    """A disc in the middle of a picture that is large enough for the whole filtered disc.

    At the border of an image the filter would be renormalised, by a few per cent; here it is not.
    """
    half = math.ceil(setting.radius) + LOBES
    outer = half + LOBES  # so that the picture has no border effects
    size = 2 * outer + 1
    canvas = np.zeros((2 * size, 2 * size), bool)
    shape = disc(2 * setting.radius)
    place = slice(2 * outer - len(shape) // 2, 2 * outer + len(shape) // 2 + 1)
    canvas[place, place] = shape  # a place p of the image is 2 p on the canvas, a quarter of a pixel off
    shrink = lanczos(2 * size, size)
    picture = np.rint(ONE * (shrink @ canvas @ shrink.T)).astype(np.int32)
    return picture[LOBES:-LOBES, LOBES:-LOBES]


# Starts


def _stencils(masks: Bools, reach: int) -> Bools:
    """The pixels that all first paddles occupy in a window around a pixel, one pixel to its lower right."""
    half = masks.shape[1] // 2
    window = 2 * reach + 1
    result = np.zeros((len(masks), window, window), bool)
    low = reach + 1 - half  # where the window would have the first row of a mask
    inner = slice(max(0, -low), window - low)
    part = masks[:, inner, inner]
    place = slice(max(0, low), max(0, low) + part.shape[1])
    result[:, place, place] = part
    return result


def _works(stencil: Bools) -> bool:
    """Whether some of the stencil stays in the image wherever its pixel is, even in each corner.

    Otherwise the published generator finds no place at all in this direction.
    """
    middle = len(stencil) // 2
    before, behind = slice(None, middle + 1), slice(middle, None)
    return all(stencil[rows, columns].any() for rows in (before, behind) for columns in (before, behind))


def _box(stencil: Bools, setting: Setting) -> tuple[int, int, int, int]:
    """The places of a stencil at least twice the distance of the starts from every side of the image."""
    middle, band = len(stencil) // 2, 2 * setting.distance
    rows, columns = (np.flatnonzero(stencil.any(axis=axis)) - middle for axis in (1, 0))
    top, left = band - rows[0], band - columns[0]
    height, width = setting.size - band - rows[-1] - top, setting.size - band - columns[-1] - left
    return (top, left, height, width) if height > 0 and width > 0 else (0, 0, 0, 0)
