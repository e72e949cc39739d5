"""The position-wise parts of a residual block as ops, against torch in float64 and at every vector width."""

import pytest
import torch
from dense import WITHOUT_DYNAMIC_SHAPES, error

from longwave import ops
from longwave.ops.cpu import block as native


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("H", [1, 5, 16, 37])
def test_the_parts_of_a_block_agree_with_torch(limit_vectors, bits, H):
    """From the tails, where GELU is tiny and a gate shut, to the middle; values and gradients."""
    limit_vectors(bits)
    z = torch.cat((torch.randn(2, 40, H), torch.linspace(-30, 30, 2 * 40 * H).reshape(2, 40, H)), dim=1)
    keep, dy = torch.rand(2, H), torch.randn(2, 80, H)
    exact = z.double().requires_grad_()
    truth = torch.nn.functional.gelu(exact) * keep.double().unsqueeze(1)
    truth.backward(dy.double())
    y = native.activate(z, keep)
    assert ((y - truth).abs() <= 1e-6 * truth.abs() + 1e-9).all()
    assert (native.activate_backward(dy, z, keep) - exact.grad).abs().max() < 1e-6

    weight, dy = torch.randn(7, H), torch.randn(2, 80, 7)
    exact, exact_weight = z.double().requires_grad_(), weight.double().requires_grad_()
    truth = (torch.nn.functional.gelu(exact) * keep.double().unsqueeze(1)) @ exact_weight.mT
    truth.backward(dy.double())
    assert error(native.mix(z, keep, weight, None), truth) < 1e-6
    dz, dweight = native.mix_backward(dy, z, keep, weight, True)
    assert error(dz, exact.grad) < 1e-6
    assert error(dweight, exact_weight.grad) < 1e-6
    (alone,) = native.mix_backward(dy, z, keep, weight, False)
    assert torch.equal(alone, dz)

    dy = torch.randn(2, 80, H)
    x, z, bias = torch.randn(2, 80, H), torch.cat((torch.randn(2, 80, H), z), dim=-1), torch.randn(2 * H)
    leaves = [t.double().requires_grad_() for t in (x, z, bias)]
    truth = leaves[0] + torch.nn.functional.glu(leaves[1] + leaves[2], dim=-1)
    truth.backward(dy.double())
    assert (native.gate(x, z, bias) - truth).abs().max() < 2e-6
    for value, leaf in zip(native.gate_backward(dy, z, bias), leaves[1:], strict=True):
        assert error(value, leaf.grad) < 1e-6


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize(("L", "H"), [(1, 5), (7, 1), (40, 16), (211, 37), (97, 64), (30, 130)])
def test_a_whole_gated_block_agrees_with_torch(limit_vectors, bits, L, H):
    """Less than a tile, several tiles, odd widths; values and gradients."""
    limit_vectors(bits)
    x, z, keep, dy = torch.randn(3, L, H), 3 * torch.randn(3, L, H), torch.rand(3, H), torch.randn(3, L, H)
    weight, bias = torch.randn(2 * H, H), torch.randn(2 * H)
    leaves = [t.double().requires_grad_() for t in (x, z, weight, bias)]
    mixed = (torch.nn.functional.gelu(leaves[1]) * keep.double().unsqueeze(1)) @ leaves[2].mT + leaves[3]
    truth = leaves[0] + torch.nn.functional.glu(mixed, dim=-1)
    truth.backward(dy.double())
    assert error(native.gated_mix(x, z, keep, weight, bias), truth) < 1e-6
    gradients = native.gated_mix_backward(dy, z, keep, weight, bias)
    for value, leaf in zip(gradients, leaves[1:], strict=True):
        assert error(value, leaf.grad) < 2e-6


def test_the_gradients_of_a_gated_block_keep_their_digits_over_many_rows(compiled):
    """A running sum in float32 over 50,000 rows with a mean would lose them."""
    rows, H = 50_000, 8
    z, keep, dy = torch.randn(1, rows, H), torch.ones(1, H), 1 + torch.rand(1, rows, H)
    weight, bias = torch.randn(2 * H, H), torch.randn(2 * H)
    leaves = [t.double().requires_grad_() for t in (z, weight, bias)]
    mixed = torch.nn.functional.gelu(leaves[0]) @ leaves[1].mT + leaves[2]
    torch.nn.functional.glu(mixed, dim=-1).backward(dy.double())
    for value, leaf in zip(native.gated_mix_backward(dy, z, keep, weight, bias), leaves, strict=True):
        assert error(value, leaf.grad) < 2e-6


@pytest.mark.parametrize("H", [32, ops.NARROW + 1])
def test_a_gated_block_is_the_same_wide_or_narrow_compiled_or_not(compiled, monkeypatch, H):
    x, z, keep = torch.randn(4, 200, H), torch.randn(4, 200, H, requires_grad=True), torch.rand(4, H)
    weight, bias = torch.randn(2 * H, H, requires_grad=True), torch.randn(2 * H, requires_grad=True)
    fast = ops.gated_mix(x, z, keep, weight, bias)
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    plain = ops.gated_mix(x, z, keep, weight, bias)
    assert fast.grad_fn.name() != plain.grad_fn.name()
    dy = torch.randn_like(x)
    found, truth = (torch.autograd.grad(out, (z, weight, bias), dy) for out in (fast, plain))
    assert error(fast, plain) < 2e-6
    assert all(error(a, b) < 4e-6 for a, b in zip(found, truth, strict=True))


def test_a_narrow_gated_block_keeps_one_signal_for_the_backward_pass(compiled):
    x, z = torch.randn(4, 300, 32, requires_grad=True), torch.randn(4, 300, 32, requires_grad=True)
    weight, bias = torch.randn(64, 32, requires_grad=True), torch.randn(64, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.numel()) or t, lambda t: t):
        ops.gated_mix(x, z, None, weight, bias)
    assert [numel for numel in kept if numel >= z.numel()] == [z.numel()]


def test_a_gated_block_refuses_shapes_that_do_not_fit(compiled):
    """The compiled loops read raw memory."""
    x, z, weight, bias = torch.randn(4, 300, 32), torch.randn(4, 300, 32), torch.randn(64, 32), torch.randn(64)
    for given in ((x[:1], z, weight, bias), (x, z, weight[:5], bias), (x, z, weight, bias[:5])):
        with pytest.raises(ValueError, match="expected"):
            ops.gated_mix(given[0], given[1], None, *given[2:])
    for keep in (torch.ones(3, 32), torch.ones(4, 32, dtype=torch.float64)):
        with pytest.raises(ValueError, match="keep: expected"):
            ops.gated_mix(x, z, keep, weight, bias)


def test_the_parts_of_a_block_are_proper_ops(compiled):
    registered, H = torch.ops.longwave, 5
    z, keep, x = torch.randn(2, 3, H, requires_grad=True), torch.rand(2, H), torch.randn(2, 3, H, requires_grad=True)
    wide, bias = torch.randn(2, 3, 2 * H, requires_grad=True), torch.randn(2 * H, requires_grad=True)
    torch.library.opcheck(registered.activate.default, (z, keep))
    torch.library.opcheck(registered.gate.default, (x, wide, bias))
    weight, offset = torch.randn(3, H, requires_grad=True), torch.randn(3, requires_grad=True)
    torch.library.opcheck(registered.mix.default, (z, keep, weight, offset))
    torch.library.opcheck(registered.mix.default, (z, keep, weight.detach(), None), test_utils=WITHOUT_DYNAMIC_SHAPES)
    for need_weight in (True, False):
        given = (torch.randn(2, 3, 3), z.detach(), keep, weight.detach(), need_weight)
        utils = "ALL" if need_weight else WITHOUT_DYNAMIC_SHAPES
        torch.library.opcheck(registered.mix_backward.default, given, test_utils=utils)
    gates = torch.randn(2 * H, H, requires_grad=True)
    torch.library.opcheck(registered.gated_mix.default, (x, z, keep, gates, bias))
    dy = torch.randn(2, 3, H)
    given = (dy, z.detach(), keep, gates.detach(), bias.detach())
    torch.library.opcheck(registered.gated_mix_backward.default, given)
    torch.library.opcheck(registered.activate_backward.default, (dy, z.detach(), keep))
    torch.library.opcheck(registered.gate_backward.default, (dy, wide.detach(), bias.detach()))


@pytest.mark.parametrize("frozen", ["none", "weight", "z"])
def test_a_linear_layer_keeps_its_input_alone_for_the_backward_pass(compiled, frozen):
    """And gives the gradients that torch's own operators give."""
    z, keep = torch.randn(4, 300, 32, requires_grad=frozen != "z"), torch.rand(4, 32)
    weight, bias = torch.randn(5, 32, requires_grad=frozen != "weight"), torch.randn(5, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.shape) or t, lambda t: t):
        y = ops.mix(z, keep, weight, bias)
    assert kept.count(z.shape) == 1
    expected = torch.nn.functional.linear(torch.nn.functional.gelu(z) * keep.unsqueeze(1), weight, bias)
    assert error(y, expected) < 1e-6
    wanted = [t for t in (z, weight, bias) if t.requires_grad]
    dy = torch.randn_like(y)
    found, truth = (torch.autograd.grad(out, wanted, dy) for out in (y, expected))
    assert all(error(a, b) < 2e-6 for a, b in zip(found, truth, strict=True))


def test_under_autocast_a_linear_layer_is_torchs_own(compiled):
    z, weight = torch.randn(4, 300, 32), torch.randn(5, 32)
    with torch.autocast("cpu", torch.bfloat16):
        assert ops.mix(z, None, weight).dtype == torch.bfloat16


def test_what_is_not_a_number_stays_so_in_the_parts_of_a_block(compiled):
    nan = torch.full((1, 2, 3), torch.nan)
    assert native.activate(nan, torch.ones(1, 3)).isnan().all()
    assert native.gate(torch.zeros(1, 2, 3), nan.repeat(1, 1, 2), torch.zeros(6)).isnan().all()
    weight, bias = torch.ones(6, 3), torch.zeros(6)
    assert native.gated_mix(torch.zeros(1, 2, 3), nan, torch.ones(1, 3), weight, bias).isnan().all()
