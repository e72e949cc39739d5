"""The bits of each pixel: those that the score is the mean of."""

import numpy as np
import pytest
import torch
from image_files import write_cifar10

from longwave.layers import S4Config
from longwave.models import UNetConfig
from longwave.tasks.density.report import bits
from longwave.tasks.density.task import DensityConfig


def test_the_bits_of_a_pixel_are_those_of_its_probability_and_their_mean_is_the_score(tmp_path):
    write_cifar10(tmp_path)
    task = DensityConfig(data="cifar").build(tmp_path)
    torch.manual_seed(0)
    config = UNetConfig(d_model=4, n_layers=1, mixer=S4Config(d_state=4))
    model = config.resolve(task.spec).build().eval()
    found = bits(model, task, range(2, 4))
    assert found.shape == (2, 32, 32, 3)
    batch = task.test.batch([2, 3])
    with torch.no_grad():
        total, count = task.outcome(model, batch).scores["loss"]
        probabilities = model(batch["x"])[0].double().softmax(-1)
    assert found.mean() == pytest.approx(task.reported({"loss": float(total) / count})["bits_per_dim"], rel=1e-5)
    image = task.test_images([2, 3])
    for n, row, column, channel in ((0, 0, 0, 0), (0, 5, 31, 2), (1, 31, 31, 1)):
        step = 3 * (32 * row + column) + channel
        expected = -np.log2(float(probabilities[n, step, int(image[n, row, column, channel])]))
        assert found[n, row, column, channel] == pytest.approx(expected, rel=1e-4)
