"""Pictures of sequences with a class at each step."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.style import as_drawn, short
from longwave.tasks.sequences.plots import show_lines

GREYS = ("black", "0.45", "0.65", "0.8")  # lines beside bands of colour
UNKNOWN = "0.93"  # where no class is known
NAMED = 12  # classes that a legend has room for


def draw_tags(
    sequences: Sequence[NDArray[np.float64]],
    truth: Sequence[NDArray[np.int64]],
    predicted: Sequence[NDArray[np.int64]],
    classes: Sequence[str],
    captions: Sequence[str],
) -> Any:
    """Sequences (length, channels) as lines, and below each its true and its predicted classes (length,) as colours.

    A negative class is one that is not known. The legend has the classes that are shown, if they are few.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    shown = sorted({int(k) for tags in (*truth, *predicted) for k in np.unique(tags) if k >= 0})
    colours = _colours(len(classes))
    with_legend = len(shown) <= NAMED
    figure = Figure(figsize=(10, 2.3 * len(sequences) + 0.4 * with_legend), layout="constrained")
    panels = figure.subplots(2 * len(sequences), 1, squeeze=False, height_ratios=[2.2, 1] * len(sequences))[:, 0]
    for k, (values, caption) in enumerate(zip(sequences, captions, strict=True)):
        lines, bands = panels[2 * k], panels[2 * k + 1]
        show_lines(lines, values, GREYS)
        lines.set_title(as_drawn(caption), fontsize=9)
        lines.set_xticklabels([])
        picture = np.stack([_painted(tags[k], colours) for tags in (truth, predicted)])
        bands.imshow(picture, aspect="auto", interpolation="nearest", extent=(-0.5, len(values) - 0.5, 1.5, -0.5))
        bands.axhline(0.5, color="white", linewidth=2)
        bands.set_yticks([0, 1], ["true", "predicted"], fontsize=8)
        bands.tick_params(labelsize=8, left=False)
        bands.xaxis.get_major_locator().set_params(integer=True)
        for side in bands.spines.values():
            side.set_visible(False)
        limits = (-0.5 - 0.01 * len(values), len(values) - 0.5 + 0.01 * len(values))
        lines.set_xlim(limits)
        bands.set_xlim(limits)
    if with_legend:
        patches = [Patch(color=colours[k], label=as_drawn(short(classes[k], 20))) for k in shown]
        if any((tags < 0).any() for tags in truth):
            patches.append(Patch(color=UNKNOWN, label="not labelled"))
        columns = min(7, len(patches))
        figure.legend(handles=patches, loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _painted(tags: NDArray[np.int64], colours: list[Any]) -> NDArray[np.float64]:
    """(length, 3) red, green and blue of each step."""
    from matplotlib.colors import to_rgb

    table = np.array([to_rgb(colour) for colour in (*colours, UNKNOWN)])
    return table[np.where(tags < 0, len(colours), tags)]


def _colours(count: int) -> list[Any]:
    """Distinct colours, as far as there are so many."""
    import matplotlib

    if count <= 20:
        few: Any = matplotlib.colormaps["tab10" if count <= 10 else "tab20"]
        return list(few.colors[:count])
    return [matplotlib.colormaps["nipy_spectral"](k / count) for k in range(count)]
