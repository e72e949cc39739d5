"""Pictures of kernels show the kernels."""

import math

import numpy as np
import pytest
import torch

from longwave.layers import S4
from longwave.pictures.kernels import draw_kernels, draw_layer, draw_planes


@pytest.fixture
def layers():
    return {"first": S4(3, 4, bidirectional=True), "last": S4(3, 4)}


def largest_dt(layer, length):
    """The kernel of the feature with the largest dt, over its largest value; of those that look back."""
    with torch.no_grad():
        K = layer.kernel(length)
        K = (K[0] if layer.bidirectional else K)[layer.ssm().dt.argmax()]
    return K / K.abs().max()


def test_kernels_are_shown_as_images_row_by_row(layers):
    figure = draw_planes(layers, (4, 6))
    planes = [axes.images[0].get_array() for part in figure.subfigs for axes in part.axes if axes.images]
    assert len(planes) == 6  # three features in each of two layers
    for plane, layer in ((planes[0], layers["first"]), (planes[3], layers["last"])):
        K = largest_dt(layer, 24)
        np.testing.assert_allclose(plane.ravel() ** 2, K.abs().numpy(), atol=1e-5)
        assert math.copysign(1, plane.ravel()[0]) == math.copysign(1, K[0])


def test_kernels_are_sorted_by_dt_over_the_lag(layers):
    figure = draw_kernels(layers, 10)
    assert [axes.get_title() for axes in figure.axes] == ["first", "last"]
    for axes, layer in zip(figure.axes, layers.values(), strict=True):
        shown = axes.collections[0].get_array().reshape(3, 10)
        np.testing.assert_allclose(shown[0], largest_dt(layer, 10).numpy(), atol=1e-6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_layer_is_drawn_into_a_file_in_a_folder_that_is_made(bidirectional, tmp_path):
    draw_layer(S4(3, 4, bidirectional=bidirectional), 16, tmp_path / "new" / "kernels.png")
    assert (tmp_path / "new" / "kernels.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="out: expected a picture ending in one of"):
        draw_layer(S4(3, 4), 16, tmp_path / "kernels.text")
