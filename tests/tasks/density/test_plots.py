"""Pictures of generated images show what they are said to show."""

import numpy as np

from longwave.tasks.density.plots import GAP, HIDDEN, draw_bits, draw_completions, draw_samples


def cell(figure, row, column, height=6, width=4):
    """One image of the picture, in red, green and blue."""
    canvas = np.asarray(figure.axes[0].images[0].get_array())
    top, left = row * (height + GAP), column * (width + GAP)
    return canvas[top : top + height, left : left + width]


def grey(image):
    return np.repeat(image[..., None], 3, axis=-1)


def test_samples_stand_in_rows_on_white():
    images = np.arange(5 * 24, dtype=np.uint8).reshape(5, 6, 4)
    figure = draw_samples(images, columns=3)
    for k in range(5):
        np.testing.assert_array_equal(cell(figure, k // 3, k % 3), grey(images[k]))
    assert (cell(figure, 1, 2) == 255).all()  # there is no sixth


def test_a_completion_stands_beside_the_original_and_what_was_given_of_it():
    originals = np.arange(2 * 24, dtype=np.uint8).reshape(2, 6, 4)
    completions = np.arange(100, 100 + 4 * 24, dtype=np.uint8).reshape(2, 2, 6, 4)
    figure = draw_completions(originals, completions)
    for row in range(2):
        np.testing.assert_array_equal(cell(figure, row, 0), grey(originals[row]))
        given = cell(figure, row, 1)
        np.testing.assert_array_equal(given[:3], grey(originals[row])[:3])
        assert (given[3:] == HIDDEN).all()
        for copy in range(2):
            np.testing.assert_array_equal(cell(figure, row, 2 + copy), grey(completions[row, copy]))
    titles = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert titles == ["original", "given", "completed", "completed"]


def test_a_colour_image_is_shown_whole_beside_the_half_that_was_given():
    originals = np.arange(72, dtype=np.uint8).reshape(1, 6, 4, 3)
    figure = draw_completions(originals, originals[None])
    np.testing.assert_array_equal(cell(figure, 0, 0), originals[0])
    assert (cell(figure, 0, 1)[3:] == HIDDEN).all()
    np.testing.assert_array_equal(originals, np.arange(72).reshape(1, 6, 4, 3))


def test_the_bits_of_the_colours_of_a_pixel_are_added_up():
    images = np.zeros((2, 6, 4, 3), np.uint8)
    bits = np.random.default_rng(0).random((2, 6, 4, 3))
    figure = draw_bits(images, bits)
    maps = [axes.images[0].get_array() for axes in figure.axes[2:4]]
    np.testing.assert_allclose(maps, bits.sum(-1))
    assert [axes.get_title() for axes in figure.axes[:2]] == [f"{one.mean():.2f}" for one in bits]
    grey_maps = [axes.images[0].get_array() for axes in draw_bits(images[..., 0], bits[..., 0]).axes[2:4]]
    np.testing.assert_allclose(grey_maps, bits[..., 0])
