"""A trained model, as users have them: loaded from its files, it reads digits alike by every view.

The files in `smnist/` are the best weights of `longwave train smnist-small` and the first 200 digits of the test set
of MNIST (CC BY-SA 3.0, LeCun and Cortes), with the mean and deviation that the training standardised them by.
"""

from pathlib import Path

import numpy as np
import pytest
import torch

from longwave.models import SequenceModel

FOLDER = Path(__file__).parent / "smnist"
RIGHT = 199  # of 200, when the files were made


@pytest.fixture(scope="module")
def model():
    return SequenceModel.from_pretrained(FOLDER).eval().requires_grad_(False)


@pytest.fixture(scope="module")
def digits():
    """x (200, 784, 1) as in training, and the labels."""
    with np.load(FOLDER / "digits.npz") as file:
        pixels = file["pixels"].reshape(200, 784, 1).astype(np.float32)
        x = (pixels - file["mean"]) / file["deviation"]
        return torch.from_numpy(x), torch.from_numpy(file["labels"].astype(np.int64))


@pytest.fixture(scope="module")
def logits(model, digits):
    return model(digits[0])[0]


def test_the_files_are_small():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_000_000


def test_it_reads_digits_by_convolution(backend, model, digits):
    x, labels = digits
    right = int((model(x)[0].argmax(-1) == labels).sum())
    assert abs(right - RIGHT) <= 1


def test_it_reads_digits_by_recurrence(model, digits, logits):
    x = digits[0][:12]
    state = model.initial_state(len(x))
    for k in range(x.shape[1]):
        y, state = model.step(x[:, k], state)
    assert (y - logits[:12]).abs().max() < 1e-3 * logits.abs().max()
    assert torch.equal(y.argmax(-1), logits[:12].argmax(-1))


@pytest.mark.parametrize("sizes", [(400, 384), (1, 200, 300, 283)])
def test_it_reads_digits_in_chunks(model, digits, logits, sizes):
    state = None
    for part in digits[0][:12].split(sizes, dim=1):
        y, state = model(part, state, need_state=True)
    assert (y - logits[:12]).abs().max() < 1e-3 * logits.abs().max()
    assert torch.equal(y.argmax(-1), logits[:12].argmax(-1))
