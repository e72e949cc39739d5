"""Linear layers of compiled steps with weights in 32, 16 and 8 bits, against the products that they stand for."""

import pytest
import torch
from pairwise import in_pairs

from longwave.ops import WEIGHT_TYPES
from longwave.ops.cpu import library
from longwave.ops.cpu.model_step import LinearSteps
from longwave.ops.cpu.step_weights import whole_numbers


def rounded(weight, weights):
    """The weights that a layer has, in float64."""
    if weights == "int8":
        scale, whole = whole_numbers(weight)
        return whole.double() * scale.double().unsqueeze(1)
    return weight.to(getattr(torch, weights)).double()


def rounded_input(x, weights):
    """Its input, which int8 weights meet in whole numbers of 14 bits."""
    if weights != "int8":
        return x.double()
    unit = x.abs().amax(1, keepdim=True) / 8191
    return (x / unit).round().double() * unit.double()


@in_pairs(
    by="weights, bits",
    weights=WEIGHT_TYPES,
    bits=[128, 256, 512],
    batch=[1, 2, 5, 33],
    inputs=[1, 16, 50, 320],
    outputs=[1, 32, 75],
    threads=[1, 2, 3],
)
def test_a_layer_is_the_product_with_its_rounded_weights(
    compiled, monkeypatch, weights, bits, batch, inputs, outputs, threads
):
    if bits > library.vector_bits():
        pytest.skip(f"this CPU has vectors of {library.vector_bits()} bits")
    monkeypatch.setattr(library, "vector_bits", lambda: bits)
    torch.set_num_threads(threads)
    weight, bias, x = torch.randn(outputs, inputs), torch.randn(outputs), torch.randn(batch, inputs)
    y = LinearSteps(weight, bias, weights)(x)
    given, kept = rounded_input(x, weights), rounded(weight, weights)
    sizes = given.abs() @ kept.abs().T + bias.abs()  # what rounding is in proportion to
    # Float sums: measured 4e-7. A whole number of an input may be the next one, where its float is in the middle.
    bound = 2e-6 + (2e-4 if weights == "int8" else 0)
    assert ((y - (given @ kept.T + bias)).abs() / sizes).max() < bound
    without = LinearSteps(weight, None, weights)(x)
    torch.testing.assert_close(without + bias, y, atol=1e-4, rtol=1e-5)


@pytest.fixture
def without_vnni(compiled):
    """Leaves out the instruction for products of bytes, as CPUs without it do."""
    allow = library.load().longwave_allow_vnni
    yield lambda: allow(False)
    allow(True)


@pytest.mark.parametrize("batch", [1, 5, 33])
def test_products_of_bytes_are_the_same_to_the_bit_without_vnni(without_vnni, batch):
    """With the largest inputs and weights, too, whose products add up to more than 16 bits."""
    if library.vector_bits() < 512:
        pytest.skip("VNNI is used at 512 bits only")
    weight, x = torch.randn(75, 320), torch.randn(batch, 320)
    weight[:20], x[:1] = weight[:20].sign(), 1
    steps = LinearSteps(weight, torch.randn(75), "int8")
    y = steps(x)
    without_vnni()
    assert torch.equal(steps(x), y)


@pytest.mark.parametrize(("weights", "error"), [("bfloat16", 4e-3), ("float16", 5e-4), ("int8", 4e-3)])
def test_the_weights_are_to_the_nearest(weights, error):
    """Of bfloat16 a share of 2^-8, of float16 2^-11; of int8 half a step of a 127th of the largest of a row."""
    weight = torch.randn(20, 64)
    largest = weight.abs() if weights != "int8" else weight.abs().amax(1, keepdim=True)
    assert ((rounded(weight, weights) - weight).abs() / largest).max() < error


def test_half_precision_has_its_small_numbers(compiled, monkeypatch):
    """Those below the normal ones, 6e-8 to 6e-5, at each width."""
    weight = torch.tensor([[6e-8, -3e-6, 5.9e-5, 0.0, -65504.0]])
    for bits in (128, library.vector_bits()):
        monkeypatch.setattr(library, "vector_bits", lambda bits=bits: bits)
        for k in range(5):
            y = LinearSteps(weight, None, "float16")(torch.eye(5)[k : k + 1])
            assert y.item() == weight[0, k].half().item()


@pytest.mark.parametrize("weights", WEIGHT_TYPES)
def test_rows_of_zeros_and_of_what_is_not_finite_stay_so(compiled, weights):
    x = torch.randn(6, 32)
    x[1], x[2, 3], x[3, 0], x[4] = 0, torch.nan, torch.inf, 1e-42
    weight = torch.randn(20, 32)
    weight[7] = 0
    y = LinearSteps(weight, torch.ones(20), weights)(x)
    assert torch.equal(y[1], torch.ones(20))
    assert not y[2].isfinite().any()
    assert not y[3, weight[:, 0] != 0].isfinite().any()
    assert (y[4] - 1).abs().max() < 1e-6
    assert y[[0, 5]].isfinite().all()
    assert torch.equal(y[[0, 1, 4, 5], 7], torch.ones(4))


def test_an_input_of_another_size_is_refused(compiled):
    steps = LinearSteps(torch.randn(4, 32), None, "int8")
    for wrong in (torch.randn(2, 31), torch.randn(2, 32).double(), torch.randn(32)):
        with pytest.raises(ValueError, match=r"^x: expected torch\.float32"):
            steps(wrong)
