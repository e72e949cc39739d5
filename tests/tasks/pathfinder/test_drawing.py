"""Pathfinder: the tables against an image library, images against published figures, numpy against the library."""

import hashlib
import math

import numpy as np
import pytest
from PIL import Image, ImageDraw
from scipy import ndimage, stats

from longwave.core import native
from longwave.core.random import GOLDEN, mixed
from longwave.tasks.pathfinder import drawing as pathfinder
from longwave.tasks.pathfinder import snakes
from longwave.tasks.pathfinder.compiled import draw as draw_compiled
from longwave.tasks.pathfinder.drawing import SETTINGS, Paddle, Setting, keys
from longwave.tasks.pathfinder.tables import DEGREES, FULL, ONE, lanczos, line, tables_of

# Of the published sets of 64 x 64 pixels, which are not made here; their figures are known, too.
SIXTY_FOUR = Setting(64, (1,), 5, 1, 2.5, 12, 1.8, (0.8, 0.8), distractors=11)
EVERY = {**SETTINGS, "64": SIXTY_FOUR}
OPTIONS = {"plain": {}, "options": {"equal_contrast": True, "all_orientations": True}}


def sample(name, count, **options):
    """Images by the compiled library."""
    return draw_compiled(SETTINGS[name].with_options(**options), keys(1, range(count)))


def dashes(image):
    """How many parts of an image are bright; diagonal neighbours are of one part."""
    return ndimage.label(image.pixels > 90, structure=np.ones((3, 3)))[1]


def distractors(image):
    return len({paddle.snake for paddle in image.paddles}) - 2


STATISTICS = {
    "mean": lambda image: image.pixels.mean(),
    "deviation": lambda image: image.pixels.std(),
    "share above 0": lambda image: (image.pixels > 0).mean(),
    "share above 127": lambda image: (image.pixels > 127).mean(),
    "dashes": dashes,
    "distractors": distractors,
}


# Tables


@pytest.mark.parametrize("name", EVERY)
def test_lines_and_their_shrinking_are_those_of_an_image_library(name):
    setting = EVERY[name]
    half = setting.length + math.ceil(setting.thickness) + setting.margins[0]
    large, small, width = 4 * half + 1, 2 * half + 1, round(2 * setting.thickness)
    matrix = lanczos(large, small)
    for angle in np.random.default_rng(0).uniform(0, 2 * math.pi, 100):
        row, column = (2 * half + math.ceil(2 * setting.length * f(angle)) for f in (math.sin, math.cos))
        own = line(large, (2 * half, 2 * half), (row, column), width)
        image = Image.new("L", (large, large))
        ImageDraw.Draw(image).line([(2 * half, 2 * half), (column, row)], fill=1, width=width)
        np.testing.assert_array_equal(own, np.asarray(image))
        shrunk = Image.fromarray(own.astype(np.float32)).resize((small, small), Image.Resampling.LANCZOS)
        np.testing.assert_allclose(matrix @ own @ matrix.T, np.asarray(shrunk), atol=1e-6)  # theirs is float32


def test_masks_are_rounded_to_bytes_like_those_of_an_image_library():
    """Twice: the rows first, then the columns."""
    setting = SETTINGS["pathx"]
    (own, _), half = tables_of(setting), setting.length + 2 + 2
    large, small, radius = 4 * half + 1, 2 * half + 1, 4
    rows, columns = np.ogrid[-radius : radius + 1, -radius : radius + 1]
    for degrees in (0, 17, 100, 201, 333):
        angle = math.radians(degrees - 180)
        row, column = (2 * half + math.ceil(round(10 * f(angle), 9)) for f in (math.sin, math.cos))
        drawn = line(large, (2 * half, 2 * half), (row, column), 3)
        wide = ndimage.binary_dilation(drawn, rows**2 + columns**2 <= radius**2)
        shrunk = Image.fromarray((FULL * wide).astype(np.uint8)).resize((small, small), Image.Resampling.LANCZOS)
        np.testing.assert_array_equal(own.masks[degrees], np.asarray(shrunk))


@pytest.mark.parametrize(("name", "peak"), [("pathfinder", 0.6), ("64", 1.077), ("pathx", 1.217)])
def test_paddles_are_as_bright_as_published_ones(name, peak):
    assert tables_of(EVERY[name])[0].pictures.max() / ONE == pytest.approx(peak, abs=0.001)


def test_snakes_start_in_the_directions_in_which_they_do_in_the_published_generator():
    """At -120 degrees that one loses a start by the last digit of a cosine; here lengths are rounded."""

    def works(setting, margin=0):
        return set(np.flatnonzero(tables_of(setting)[margin].works) - 180)

    assert works(SETTINGS["pathfinder"]) == set(range(-150, -119))
    assert len(works(SIXTY_FOUR)) == 95
    assert works(SETTINGS["pathx"]) == set(range(-180, 180)) - set(range(-59, -53))
    assert works(SETTINGS["pathx"], 1) == set(range(-180, 180))
    assert works(SETTINGS["pathfinder"].with_options(all_orientations=True)) == set(range(-180, 180))


# Images


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(("name", "count"), [("pathfinder", 12), ("pathx", 3)])
def test_numpy_and_the_compiled_library_draw_the_same_bytes(compiled, name, count, options):
    """Images of both margins of Path-X are among the three."""
    setting, numbers = SETTINGS[name].with_options(**OPTIONS[options]), keys(3, range(count))
    found = draw_compiled(setting, numbers)
    assert {image.margin for image in found} == set(setting.margins)
    for key, image in zip(numbers, found, strict=True):
        plain = snakes.draw(tables_of(setting), int(key))
        np.testing.assert_array_equal(plain.pixels, image.pixels)
        np.testing.assert_array_equal(plain.markers, image.markers)
        assert (plain.label, plain.margin, plain.paddles) == (image.label, image.margin, image.paddles)


def test_without_the_library_numpy_draws_and_says_so(monkeypatch):
    def missing():
        raise native.Unavailable("no compiled library")

    monkeypatch.setattr(pathfinder, "load", missing)
    with pytest.warns(RuntimeWarning, match="draws its images with numpy, slowly: no compiled library"):
        (image,) = pathfinder.draw(SETTINGS["pathfinder"], keys(0, [5]))
    assert image.pixels.max() == 255


def test_an_image_follows_from_its_key_whatever_is_drawn_beside_it(compiled):
    together = draw_compiled(SETTINGS["pathfinder"], keys(0, range(40)), threads=3)
    alone = draw_compiled(SETTINGS["pathfinder"], keys(0, [17]), threads=1)
    np.testing.assert_array_equal(together[17].pixels, alone[0].pixels)
    assert len({image.pixels.tobytes() for image in together}) == 40


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("pathfinder", "88420f9f1502e128"),
        ("pathx", "0ae4389f98dadabd"),
    ],
)
def test_a_seed_makes_the_same_images_on_every_machine(compiled, name, digest):
    """No value of the tables is within 3e-7 of where it would be rounded the other way."""
    images = draw_compiled(SETTINGS[name], keys(0, range(8)))
    found = hashlib.sha256(b"".join(image.pixels.tobytes() + bytes([image.label]) for image in images))
    assert found.hexdigest()[:16] == digest


def test_random_numbers_are_those_of_splitmix64():
    random = snakes.Random(7)
    expected = mixed(np.uint64(7) + GOLDEN * np.arange(1, 5, dtype=np.uint64)) >> np.uint64(32)
    assert [random.below(1 << 32) for _ in range(4)] == expected.tolist()


FIGURES = {  # of the published generator and images, and how far the mean of the sample may be from them
    "pathfinder": (400, {"mean": (19.95, 0.6), "deviation": (48.7, 0.8), "share above 0": (0.382, 0.01)}
                   | {"share above 127": (0.0695, 0.003), "dashes": (17, 0.8), "distractors": (2.15, 0.25)}),
    "pathx": (60, {"mean": (9.65, 0.35), "deviation": (36.5, 0.7), "share above 0": (0.1625, 0.006)}
              | {"share above 127": (0.0400, 0.002), "dashes": (87.8, 2.5), "distractors": (15.3, 0.7)}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_images_have_the_figures_of_published_ones(compiled, name):
    count, figures = FIGURES[name]
    images = sample(name, count)
    for statistic, (expected, tolerance) in figures.items():
        found = np.mean([STATISTICS[statistic](image) for image in images])
        assert found == pytest.approx(expected, abs=tolerance), statistic


def test_options_make_distractors_as_bright_and_as_frequent_as_they_can_be(compiled):
    """By default few can start, and those are brighter than the snakes."""
    own = {"default": sample("pathfinder", 100)}
    own["equal"] = sample("pathfinder", 100, equal_contrast=True)
    own["all"] = sample("pathfinder", 100, all_orientations=True)
    count = {name: np.mean([distractors(image) for image in images]) for name, images in own.items()}
    assert count["equal"] == count["default"] < 3
    assert count["all"] > 5

    def brightness(image, of_distractors):
        found = [image.pixels[p.row, p.column] for p in image.paddles[2:] if (p.snake > 1) == of_distractors]
        return np.median(found) if found else np.nan

    ratio = {
        name: np.nanmedian([brightness(image, True) / brightness(image, False) for image in own[name]])
        for name in ("default", "equal")
    }
    assert ratio["default"] == pytest.approx(4 / 3, abs=0.1)
    assert ratio["equal"] == pytest.approx(1, abs=0.08)


def test_both_classes_are_alike_in_every_pixel_statistic(compiled):
    """Kolmogorov and Smirnov's test for what is said of an image, and the mean of every pixel."""
    images = sample("pathfinder", 3000)
    labels = np.array([image.label for image in images])
    assert stats.binomtest(int(labels.sum()), len(labels)).pvalue > 0.01
    for name, statistic in STATISTICS.items():
        values = np.array([statistic(image) for image in images])
        assert stats.ks_2samp(values[labels == 0], values[labels == 1]).pvalue > 0.01, name
    pixels = np.array([image.pixels for image in images], np.float64)
    ever = pixels.std(axis=0) > 0
    z = stats.ttest_ind(pixels[labels == 0][:, ever], pixels[labels == 1][:, ever]).statistic
    assert np.abs(z).max() < 4.5  # of about a thousand pixels, the largest is 3.3 on average
    assert np.abs(z).mean() == pytest.approx(0.8, abs=0.2)


def ends(setting, paddle: Paddle, is_first):
    """The tail and the head of a paddle, in pixels, from its picture alone."""
    own = tables_of(setting)[0]
    if is_first:
        angle = math.radians(paddle.direction - 180)
        tail = np.array([paddle.row, paddle.column])
        return tail, tail + setting.length * np.array([math.sin(angle), math.cos(angle)])
    towards = own.candidates[paddle.direction - DEGREES]
    head = np.array([paddle.row, paddle.column])
    return head - setting.length * towards / np.hypot(*towards), head


def test_the_label_is_true_by_following_the_snake_from_its_start(compiled):
    setting = SETTINGS["pathfinder"]
    seen = set()
    for image in sample("pathfinder", 100):
        first = [image.paddles[k] for k in (0, 1)]
        assert math.hypot(*np.subtract(first[0][:2], first[1][:2])) == pytest.approx(setting.distance, abs=1)
        (start,) = [p for p in first if p[:2] == tuple(image.markers[0])]
        snake = [p for p in image.paddles if p.snake == start.snake]
        assert len(snake) == setting.paddles[0]
        _, head = ends(setting, snake[0], True)
        for paddle in snake[1:]:
            tail, next_head = ends(setting, paddle, False)
            assert math.hypot(*(tail - head)) < 2 * setting.margins[0] + 3  # places are rounded up, each time
            head = next_head
        reached = tuple(head.astype(int)) == tuple(image.markers[1])
        assert reached == bool(image.label)
        assert image.pixels[tuple(image.markers.T)].min() > 230
        seen.add((image.label, start.snake))
    assert len(seen) == 4


def test_paddles_of_long_snakes_lie_on_none_but_the_newest_of_each(compiled):
    """Those are not on the board yet, so that the next one can stand close to its neighbour."""
    (own,) = tables_of(SETTINGS["pathfinder"])
    for image in sample("pathfinder", 20):
        board = snakes.Board.empty(own)
        for before, paddle in zip(image.paddles[:26], image.paddles[2:28], strict=True):
            assert not board.clashes(own, paddle)
            board.add(own, before)
            assert board.clashes(own, before)
