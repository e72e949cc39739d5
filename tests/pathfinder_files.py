"""Pathfinder in miniature, in the layout of the published files."""

from pathlib import Path

import numpy as np
from PIL import Image


def write_pathfinder(data: Path, batches: dict[int, int], size: int = 32) -> Path:
    """So many images in each batch; all pixels of image k of batch b are 10 b + k, and its label is that of k mod 2."""
    folder = data / f"pathfinder{size}"
    place = folder / "curv_contour_length_14"
    (place / "metadata").mkdir(parents=True)
    for batch, count in batches.items():
        (place / "imgs" / str(batch)).mkdir(parents=True)
        lines = []
        for k in range(count):
            Image.fromarray(np.full((size, size), 10 * batch + k, np.uint8)).save(
                place / f"imgs/{batch}/sample_{k}.png"
            )
            lines.append(f"imgs/{batch} sample_{k}.png {k} {k % 2} 1.0 14 4 2 0.5 1 1\n")
        (place / "metadata" / f"{batch}.npy").write_text("".join(lines))
    return folder
