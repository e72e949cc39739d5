"""The report of a density model of images: samples, and completed test images."""

from typing import Any

import numpy as np

from longwave.infer.density import complete, complete_halves
from longwave.pictures.images import draw_completions, draw_samples
from longwave.report.base import REPORTS, Section, image
from longwave.tasks.density import DensityTask


@REPORTS.register("density")
def report(model: Any, task: DensityTask) -> list[Section]:
    """Images from nothing, and test images whose lower half was generated."""
    height, width = task.size
    images = complete(model, np.empty((24, 0), np.uint8), height * width, 1, seed=0).reshape(-1, height, width)
    originals = task.test_images(range(min(4, len(task.test))))
    halves = complete_halves(model, originals, 4, seed=0)
    content = (
        image(lambda: draw_samples(images, 12), "generated images")
        + "<p>Test images, of which the model was given the upper half, and what it generated below:</p>"
        + image(lambda: draw_completions(originals, halves), "completed test images")
    )
    return [Section("Samples", content)]
