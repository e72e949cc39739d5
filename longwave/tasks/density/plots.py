"""Pictures of generated images."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import panels

HIDDEN = (198, 213, 234)  # the colour of pixels that a model was not given
GAP = 3  # pixels between images


def draw_samples(images: NDArray[np.uint8], columns: int = 8) -> Any:
    """Images (n, height, width) in rows."""
    return _draw_table([list(images[k : k + columns]) for k in range(0, len(images), columns)], [])


def draw_completions(originals: NDArray[np.uint8], completions: NDArray[np.uint8]) -> Any:
    """A row for each image (n, height, width): itself, the half that was given, its completions (n, copies, ...)."""
    rows = []
    for original, made in zip(originals, completions, strict=True):
        given = _in_colour(original).copy()
        given[len(given) // 2 :] = HIDDEN
        rows.append([original, given, *made])
    return _draw_table(rows, ["original", "given", *["completed"] * completions.shape[1]])


def draw_bits(images: NDArray[np.uint8], bits: NDArray[np.float64]) -> Any:
    """Images above maps of the bits per pixel, summed over colours; both (n, height, width) or (..., 3)."""
    of_pixels = bits if bits.ndim == 3 else bits.sum(axis=-1)
    count = len(images)
    figure, flat = panels(1.25 * count + 0.6, 2.9, 2, count)
    above, below = flat[:count], flat[count:]
    bound = float(np.quantile(of_pixels, 0.995)) or 1.0  # a few pixels should not darken all others
    shown: Any = None
    for column, (image, pixels, values) in enumerate(zip(images, of_pixels, bits, strict=True)):
        above[column].imshow(_in_colour(image), interpolation="nearest")
        shown = below[column].imshow(pixels, cmap="magma", vmin=0, vmax=bound, interpolation="nearest")
        above[column].set_title(f"{values.mean():.2f}", fontsize=8)
    for axes in flat:
        axes.axis("off")
    bar = figure.colorbar(shown, ax=below.tolist(), aspect=12, pad=0.01)
    bar.set_label("bits per pixel", fontsize=7)
    bar.ax.tick_params(labelsize=7)
    return figure


def _draw_table(rows: list[list[NDArray[np.uint8]]], titles: list[str]) -> Any:
    height, width = (size + GAP for size in rows[0][0].shape[:2])
    columns = len(rows[0])
    canvas = np.full((len(rows) * height - GAP, columns * width - GAP, 3), 255, np.uint8)
    for i, row in enumerate(rows):
        for j, image in enumerate(row):
            canvas[i * height :, j * width :][: height - GAP, : width - GAP] = _in_colour(image)
    figure, (axes,) = panels(0.03 * canvas.shape[1], 0.03 * canvas.shape[0] + 0.3 * bool(titles))
    axes.imshow(canvas, interpolation="nearest")
    axes.set_frame_on(False)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.set_xticks([(j + 0.5) * width - GAP for j in range(len(titles))], titles, fontsize=8)
    axes.tick_params(length=0)
    return figure


def _in_colour(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Grey as red, green and blue: (height, width, 3)."""
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=-1)
