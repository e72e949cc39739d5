"""Pathfinder: images drawn with numpy, the plain version of native_pathfinder.inc; both give the same bytes.

An image depends on its key alone. Both versions draw the same random numbers in the same order.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longwave.core.random import GOLDEN
from longwave.tasks.pathfinder.tables import BORDER, CERTAIN, DEGREES, FREE, FULL, ONE, SHARED, Bytes, Ints, Tables

MASK = (1 << 64) - 1  # numbers of 64 bits
TRIES_OF_A_PADDLE, TRIES_OF_A_START, TRIES_OF_A_DISTRACTOR = 3, 3, 5
LEAST_WEIGHT = 10_000  # a snake ends where all candidates together weigh less than 1 / LEAST_WEIGHT
LEAST_FREE = 100  # no distractor starts if less than 1 / LEAST_FREE of the pixels are free


class Random:
    """SplitMix64 from a key: a stream of random integers."""

    def __init__(self, key: int) -> None:
        self.state = key

    def below(self, count: int) -> int:
        """A number from 0 to count - 1; count is below 2^31."""
        self.state = (self.state + int(GOLDEN)) & MASK
        bits = self.state
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
        return ((bits ^ bits >> 31) >> 32) * count >> 32


class Paddle(NamedTuple):
    """A dash: the pixel that its picture is centred on, its direction, and its snake: 0 and 1 are long ones."""

    row: int
    column: int
    direction: int
    snake: int


@dataclass
class Snake:
    """The end of a snake that grows."""

    pivot: tuple[int, int]
    last: Paddle  # its mask is not on the board yet, so that the next paddle can stand close


def _window(canvas: Any, rim: int, row: int, column: int, side: int) -> Any:
    """The part of a canvas around a pixel."""
    row, column = row + rim - side // 2, column + rim - side // 2
    return canvas[row : row + side, column : column + side]


def _lay(canvas: Any, rim: int, picture: Any, row: int, column: int) -> None:
    """Put a picture on a canvas around a pixel, where it is larger."""
    window = _window(canvas, rim, row, column, len(picture))
    np.maximum(window, picture, out=window)


@dataclass(frozen=True, eq=False)
class Board:
    """The occupied pixels, with a margin for masks that lie partly outside.

    `near` is, for each pixel, the maximum of `occupied` within the margin.
    """

    occupied: Bytes  # (size + 2 rim, ...)
    near: Bytes
    rim: int

    @classmethod
    def empty(cls, tables: Tables) -> "Board":
        size, margin = tables.setting.size, tables.margin
        rim = tables.wide_masks.shape[1] // 2
        occupied, near = np.zeros((2, size + 2 * rim, size + 2 * rim), np.uint8)
        for board, width in ((occupied, BORDER), (near, BORDER + margin)):
            inside = board[rim : rim + size, rim : rim + size]
            inside[:] = FULL
            inside[width:-width, width:-width] = 0
        return cls(occupied, near, rim)

    def copy(self) -> "Board":
        return Board(self.occupied.copy(), self.near.copy(), self.rim)

    def add(self, tables: Tables, paddle: Paddle) -> None:
        """Put the mask of a paddle on the board."""
        for board, masks in ((self.occupied, tables.masks), (self.near, tables.wide_masks)):
            _lay(board, self.rim, masks[paddle.direction], paddle.row, paddle.column)

    def clashes(self, tables: Tables, paddle: Paddle) -> bool:
        """Whether a paddle would overlap what is there."""
        mask = tables.masks[paddle.direction]
        window = _window(self.occupied, self.rim, paddle.row, paddle.column, len(mask))
        return bool((window > np.minimum(FULL, SHARED - mask.astype(np.int32))).any())

    def inside(self, size: int) -> Bytes:
        return self.occupied[self.rim : self.rim + size, self.rim : self.rim + size]


class Drawn(NamedTuple):
    """An image, and what is on it."""

    pixels: Bytes  # (size, size)
    label: int
    margin: int
    markers: Ints  # (2, 2) the start and the end
    paddles: list[Paddle]


def draw(tables: tuple[Tables, ...], key: int) -> Drawn:
    """The image of a key."""
    random = Random(key)
    own = tables[random.below(len(tables))]
    setting = own.setting
    while (pair := _pair(own, random)) is None:
        pass
    paddles, board = pair
    snakes = 2
    for _ in range(setting.distractors):
        for _ in range(TRIES_OF_A_DISTRACTOR):
            if (found := _distractor(own, board, random, snakes)) is not None:
                more, board = found
                paddles += more
                snakes += 1
                break
    label, first = random.below(2), random.below(2)
    start = paddles[first]
    end = paddles[2 * setting.paddles[0] - 2 + (first if label else 1 - first)]
    markers = np.array([start[:2], end[:2]], np.int32)
    return Drawn(_picture(own, paddles, markers), label, own.margin, markers, paddles)


# Snakes


def _pair(tables: Tables, random: Random) -> tuple[list[Paddle], Board] | None:
    """The two long snakes, their paddles in turn; None if one of them gets stuck.

    The first starts in the middle, and the second so close to it that it cannot leave the image. The first direction is
    drawn from those that can work, which is equivalent to redrawing those that cannot.
    """
    degrees = int(tables.openings[random.below(len(tables.openings))])
    top, left, height, width = tables.boxes[degrees].tolist()
    row, column = top + random.below(height), left + random.below(width)
    first = Paddle(row, column, degrees, 0)
    degrees, towards = random.below(DEGREES), random.below(DEGREES)
    down, right = tables.seconds[towards].tolist()
    second = Paddle(row + down, column + right, degrees, 1)
    board, paddles = Board.empty(tables), [first, second]
    snakes = [_begun(tables, paddle) for paddle in paddles]
    for _ in range(tables.setting.paddles[0] - 1):
        for snake in snakes:
            if not _grow(tables, board, random, snake):
                return None
            paddles.append(snake.last)
    board.add(tables, snakes[1].last)  # and not that of the first, as in the published generator
    return paddles, board


def _distractor(tables: Tables, board: Board, random: Random, number: int) -> tuple[list[Paddle], Board] | None:
    """The paddles of a short snake, and the board with them; None if it finds no place or gets stuck."""
    if (start := _start(tables, board, random, number)) is None:
        return None
    board, paddles, snake = board.copy(), [start], _begun(tables, start)
    for _ in range(tables.setting.paddles[1] - 1):
        if not _grow(tables, board, random, snake):
            return None
        paddles.append(snake.last)
    board.add(tables, snake.last)
    return paddles, board


def _start(tables: Tables, board: Board, random: Random, number: int) -> Paddle | None:
    """The first paddle of a distractor, where its stencil is free. All directions are drawn, even those that fail."""
    size = tables.setting.size
    blocked = board.inside(size) > FREE
    for _ in range(TRIES_OF_A_START):
        degrees = random.below(DEGREES)
        if not tables.works[degrees] or LEAST_FREE * (size * size - int(blocked.sum())) < size * size:
            return None
        places = np.flatnonzero(~_hit(blocked, tables.stencils[degrees]))
        if not len(places):
            return None
        row, column = divmod(int(places[random.below(len(places))]), size)
        head = np.array([row, column]) + tables.heads[degrees]
        ends = np.array([head, head + tables.pivots[degrees]])
        if ends.min() >= 0 and ends.max() < size:
            return Paddle(row, column, degrees, number)
    return None


def _hit(blocked: NDArray[np.bool_], stencil: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(size, size): whether a stencil around each pixel hits a blocked one; the outside is free."""
    size, reach = len(blocked), len(stencil) // 2
    padded = np.pad(blocked, reach)
    hit = np.zeros_like(blocked)
    for y, x in np.argwhere(stencil).tolist():
        hit |= padded[y : y + size, x : x + size]
    return hit


def _begun(tables: Tables, paddle: Paddle) -> Snake:
    down, right = (tables.heads[paddle.direction] + tables.pivots[paddle.direction]).tolist()
    return Snake((paddle.row + down, paddle.column + right), paddle)


def _grow(tables: Tables, board: Board, random: Random, snake: Snake) -> bool:
    """Add a paddle to a snake, and the previous one to the board; False if it is stuck."""
    direction, size = snake.last.direction, tables.setting.size
    down, right = tables.advances[direction].tolist()
    pivot = snake.pivot[0] + down, snake.pivot[1] + right
    places = tables.candidates + pivot
    inside = ((places >= 0) & (places < size)).all(axis=1)
    rows, columns = (places[inside] + board.rim).T
    weights = np.zeros(len(places), np.int64)
    weights[inside] = tables.weights[direction][inside] * (FULL - board.near[rows, columns].astype(np.int64))
    ends = weights.cumsum()
    total = int(ends[-1])
    if LEAST_WEIGHT * total < FULL * CERTAIN:
        return False
    for _ in range(TRIES_OF_A_PADDLE):
        chosen = int(np.searchsorted(ends, random.below(total), side="right"))
        row, column = places[chosen].tolist()
        paddle = Paddle(row, column, DEGREES + chosen, snake.last.snake)
        if not board.clashes(tables, paddle):
            board.add(tables, snake.last)
            snake.pivot, snake.last = pivot, paddle
            return True
    return False


# Pictures


def _picture(tables: Tables, paddles: list[Paddle], markers: Ints) -> Bytes:
    size = tables.setting.size
    rim = max(tables.pictures.shape[-1], len(tables.marker)) // 2
    canvas = np.zeros((size + 2 * rim, size + 2 * rim), np.int64)
    for paddle in paddles:
        _lay(canvas, rim, tables.pictures[int(paddle.snake > 1), paddle.direction], paddle.row, paddle.column)
    image = canvas[rim : rim + size, rim : rim + size]
    disc = tables.marker * image.max() // ONE
    for row, column in markers.tolist():
        _lay(canvas, rim, disc, row, column)
    return (FULL * image // image.max()).astype(np.uint8)
