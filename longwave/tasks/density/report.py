"""The report of a density model of images: samples, completed test images, and the bits of each pixel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longwave.pictures.html import Section, image
from longwave.tasks.actions import predict
from longwave.tasks.density.generate import complete, complete_halves
from longwave.tasks.density.plots import draw_bits, draw_completions, draw_samples
from longwave.tasks.density.task import DensityTask

MEASURED = 8  # test images whose bits are shown


def report(model: Any, task: DensityTask) -> list[Section]:
    """Images from scratch, test images with a generated lower half, and the likelihood of pixels."""
    images = complete(model, np.empty((24, 0), np.uint8), task.size, 1, seed=0)
    originals = task.test_images(range(min(4, len(task.test))))
    halves = complete_halves(model, originals, 4, seed=0)
    content = (
        image(lambda: draw_samples(images, 12), "generated images")
        + "<p>Test images whose lower half was generated from the upper half:</p>"
        + image(lambda: draw_completions(originals, halves), "completed test images")
    )
    indices = range(min(MEASURED, len(task.test)))
    measured = bits(model, task, indices)
    text = (
        "<p>Test images with their bits per dimension, and below them the bits per pixel"
        f"{', summed over its colours' if len(task.size) == 3 else ''}, given the pixels before: bright ones were "
        "unexpected.</p>"
    )
    heat = image(lambda: draw_bits(task.test_images(indices), measured), "bits of each pixel of test images")
    return [Section("Samples", content), Section("Likelihood of each pixel", text + heat)]


def bits(model: Any, task: DensityTask, indices: range) -> NDArray[np.float64]:
    """The bits (n, *size) of each value of some test images."""
    rows = [predict(model, task.test.batch([index]), task.losses).double().numpy() for index in indices]
    return np.concatenate(rows).reshape(-1, *task.size) / np.log(2)
