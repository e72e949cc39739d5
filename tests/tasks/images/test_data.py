"""Files of images: read as they are published, and refused if they are damaged."""

import numpy as np
import pytest
from image_files import digits, idx, write_cifar10, write_mnist

from longwave.tasks.images.data import grey, read_cifar10, read_cifar10_batch, read_idx, read_mnist


@pytest.mark.parametrize("zipped", [True, False])
def test_mnist_is_read_compressed_or_not(tmp_path, zipped):
    train, (pixels, labels) = read_mnist(write_mnist(tmp_path, zipped=zipped))
    expected, classes = digits(20, seed=1)
    np.testing.assert_array_equal(pixels[..., 0], expected)
    np.testing.assert_array_equal(labels, classes)
    assert (train[0].shape, train[1].shape) == ((60, 28, 28, 1), (60,))


def test_cifar10_has_five_training_batches_and_its_planes_become_channels(tmp_path):
    (pixels, labels), (test_pixels, test_labels) = read_cifar10(write_cifar10(tmp_path, count=12))
    assert pixels.shape == (60, 32, 32, 3)
    assert test_pixels.shape == (12, 32, 32, 3)
    np.testing.assert_array_equal(labels, [(i + k) % 10 for k in range(5) for i in range(12)])
    rows, columns = np.mgrid[0:32, 0:32]
    np.testing.assert_array_equal(test_pixels[3, ..., 0], rows)
    np.testing.assert_array_equal(test_pixels[3, ..., 1], columns)
    np.testing.assert_array_equal(test_pixels[3, ..., 2], 10 * test_labels[3])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "begins with 00 00 08 03, got nothing"),
        (b"<html>", "begins with 00 00 08 03, got 3c 68 74 6d"),
        (idx(np.zeros(5)), "begins with 00 00 08 03, got 00 00 08 01"),
        (idx(np.zeros((5, 28, 28)))[:2] + b"\x0d" + idx(np.zeros((5, 28, 28)))[3:], "got 00 00 0d 03"),  # floats
        (idx(np.zeros((5, 28, 27))), "expected an array of any x 28 x 28, got 5 x 28 x 27"),
        (idx(np.zeros((5, 28, 28)))[:-1], "expected 3,936 bytes for 5 x 28 x 28, got 3,935; the file may be cut off"),
        (idx(np.zeros((5, 28, 28))) + b"\0", "got 3,937"),
        (idx(np.zeros((5, 28, 28)))[:10], "expected an array of any x 28 x 28, got 5 x"),
        (b"\x1f\x8b" + bytes(30), "the gzip file is damaged"),
    ],
)
def test_a_wrong_idx_file_is_refused_with_what_came(tmp_path, content, message):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_idx(path, (None, 28, 28))
    assert str(path) in str(error.value)


def test_images_and_labels_that_do_not_go_together_are_refused(tmp_path):
    folder = write_mnist(tmp_path, zipped=False)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(np.zeros(19)))
    with pytest.raises(ValueError, match="expected a label for each image, got 19 for 20 images"):
        read_mnist(folder)
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx(np.full(20, 10)))
    with pytest.raises(ValueError, match="expected labels from 0 to 9, got 10"):
        read_mnist(folder)


@pytest.mark.parametrize("content", [b"", bytes(3072), bytes(2 * 3073 - 1)], ids=["empty", "a byte short", "cut off"])
def test_a_wrong_cifar_file_is_refused_with_what_came(tmp_path, content):
    path = tmp_path / "data_batch_1.bin"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"expected records of 3,073 bytes, got {len(content):,} bytes in all"):
        read_cifar10_batch(path)


def test_grey_is_that_of_pillow_to_the_bit():
    image = pytest.importorskip("PIL.Image")
    colours = np.random.default_rng(0).integers(0, 256, (2100, 8, 8, 3), np.uint8)
    found = grey(colours)
    assert found.shape == (2100, 8, 8, 1)
    rows = image.fromarray(colours.reshape(-1, 8, 3)).convert("L")
    np.testing.assert_array_equal(found.reshape(-1, 8), np.asarray(rows))
