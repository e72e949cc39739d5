"""The spectrum from few nodes is the spectrum from all of them: values and gradients, by every backend.

Errors are those of each feature, relative to its own largest number. Those of dt, of which a feature has one gradient,
are relative to the largest of all features: a sum of both signs may happen to be small.
"""

from pathlib import Path

import pytest
import torch
from dense import error, hippo_system, log_uniform, random_system
from pairwise import CPU_BACKENDS, in_pairs

from longwave import ops
from longwave.layers import S4
from longwave.models import SequenceModel
from longwave.ops.cpu import kernel
from longwave.ssm import nodes

TRAINED = Path(__file__).parent.parent / "models" / "smnist"
FEATURE_AXES = (1, 0, 1, 0, 1, None)  # of K_hat and of the gradients of Lambda, P, B, C and dt


def pairs(system, dtype=torch.float64):
    """Lambda, P, B, C and dt as the ops take them."""
    Lambda, P, B, C, dt = system.to(dtype)
    C = C if C.ndim == 3 else C.unsqueeze(0)
    return *(torch.view_as_real(t).clone() for t in (Lambda, P, B, C)), dt.clone()


def all_and_gradients(inputs, L, choice):
    """K_hat and the gradients of Lambda, P, B, C and dt for a random gradient of K_hat."""
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    K_hat = ops.spectrum(*inputs, L, choice)
    weights = torch.randn(K_hat.shape, generator=torch.Generator().manual_seed(1)).to(K_hat.dtype)
    return [K_hat.detach(), *torch.autograd.grad(K_hat, inputs, weights)]


def errors(values, truth):
    """The worst of all features, for K_hat and each gradient."""
    found = []
    for value, true, axis in zip(values, truth, FEATURE_AXES, strict=True):
        assert torch.isfinite(value).all()
        if true.numel():
            value, true = (
                t.double().unsqueeze(0) if axis is None else t.double().movedim(axis, 0) for t in (value, true)
            )
            scale = true.flatten(1).abs().amax(1).clamp(min=torch.finfo(torch.float64).tiny)
            found.append(((value - true).flatten(1).abs().amax(1) / scale).max().item())
    return found


def few_against_all(inputs, L):
    """The errors of few nodes in the dtype of the inputs, where all of them in float64 are the truth."""
    truth = all_and_gradients([t.double() for t in inputs], L, "all")
    return errors(all_and_gradients(inputs, L, "few"), truth)


def divisions(inputs, L, dtype):
    return [nodes.divide(nodes.feature(*inputs, h), L, dtype) for h in range(len(inputs[0]))]


def evaluated(blocks):
    """Points and nodes at which a spectrum in float32 is evaluated."""
    return sum(nodes.SINGLE.points if block.is_smooth else block.size for block in blocks)


@pytest.fixture
def native(compiled, monkeypatch):
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")


# The poles of LegS are damped, and the direct sum is right to 1e-13. Those of LegT and LagT are not: where a node comes
# close to one, the direct sum itself loses digits (docs/results/accuracy.md); few nodes rarely meet one, and lose less.
BOUNDS = {"legs": (1e-11, 1e-9), "legt": (1e-9, 2e-7), "lagt": (1e-9, 2e-7)}


@in_pairs(backend=CPU_BACKENDS, init=BOUNDS, L=[2048, 1501])
def test_few_nodes_equal_all_in_float64(backend, init, L):
    inputs = pairs(hippo_system(init, 8, log_uniform(2, 3e-2, seed=L)))
    value, *gradients = few_against_all(inputs, L)
    bound, gradient_bound = BOUNDS[init]
    assert value < bound
    assert max(gradients) < gradient_bound


@pytest.mark.parametrize("init", BOUNDS)
@pytest.mark.parametrize("L", [8192, 16383])
def test_compiled_few_nodes_equal_all_in_float64(native, init, L):
    value, *gradients = few_against_all(pairs(hippo_system(init, 64, log_uniform(4, seed=L))), L)
    bound, gradient_bound = BOUNDS[init]
    assert value < bound
    assert max(gradients) < gradient_bound


@pytest.mark.parametrize("init", BOUNDS)
@pytest.mark.parametrize("L", [8192, 16383])
def test_compiled_few_nodes_equal_all_in_float32(native, init, L):
    """Within the bounds of the direct sum (test_accuracy.py)."""
    inputs = pairs(hippo_system(init, 64, log_uniform(4, seed=L)), torch.float32)
    value, *gradients, dt = few_against_all(inputs, L)
    assert value < 1e-5
    assert max(gradients) < 2e-5
    assert dt < 5e-5


@in_pairs(by="backend", backend=CPU_BACKENDS, maps=[1, 2], rank=[0, 1, 2], L=[1, 2, 63, 901])
def test_every_shape_of_a_system_is_served(backend, maps, rank, L):
    value, *gradients = few_against_all(pairs(random_system(2, 4, rank, maps)), L)
    # Of a kernel of one step the gradients of Lambda, P and dt are 0, but for rounding; of rank 0 that of P is empty.
    assert value < 1e-12
    assert L == 1 or max(gradients) < 1e-10


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bits", [128, 256, 512])
def test_every_vector_width_interpolates_alike(limit_vectors, dtype, bits):
    limit_vectors(bits)
    inputs, L = pairs(hippo_system("legt", 16, log_uniform(2, 3e-2), maps=2), dtype), 6001
    exact = [t.double() for t in inputs]
    grad = torch.randn(2, 2, L // 2 + 1, 2, dtype=dtype)
    values = kernel.spectrum(*inputs, L, "few")
    gradients = kernel.spectrum_backward(grad, *inputs, L, "few")
    truth = kernel.spectrum(*exact, L, "all"), *kernel.spectrum_backward(grad.double(), *exact, L, "all")
    assert max(errors([values, *gradients], truth)) < (2e-5 if dtype == torch.float32 else 2e-7)


def test_the_kernels_of_a_trained_model_need_few_nodes_and_are_as_exact_as_from_all(native):
    model, L = SequenceModel.from_pretrained(TRAINED), 16384
    for layer in (module for module in model.modules() if isinstance(module, S4)):
        Lambda, P, B, C, _, dt = (t.detach() for t in layer.ssm())
        inputs = *(torch.view_as_real(t.resolve_conj())[..., :8, :, :] for t in (Lambda, P, B, C[None])), dt[:8]
        assert evaluated(nodes.divide(nodes.feature(*inputs, 0), L, dt.dtype)) < 0.25 * (L // 2 + 1)
        truth = all_and_gradients([t.double() for t in inputs], L, "all")
        few, every = (errors(all_and_gradients(inputs, L, choice), truth) for choice in ("few", "all"))
        # Where nodes are evaluated one by one they are the same; elsewhere few are closer, but for rounding.
        assert all(one < 1.5 * other + 1e-6 for one, other in zip(few, every, strict=True))


# What is divided how


def test_features_are_divided_each_for_itself(backend):
    """Those of a call give what each of them gives alone."""
    inputs, L = pairs(hippo_system("legs", 8, [0.0013, 0.011, 0.097])), 2048
    assert len({tuple(blocks) for blocks in divisions(inputs, L, torch.float64)}) == 3
    together = ops.spectrum(*inputs, L, "few")
    for h in range(3):
        alone = [t.narrow(-1 if t.ndim == 1 else -3, h, 1) for t in inputs]
        assert torch.equal(ops.spectrum(*alone, L, "few")[:, 0], together[:, h])


def test_blocks_cover_every_node_once():
    for L in (1, 2, 127, 128, 2000, 16384, 50001):
        (blocks,) = divisions(pairs(hippo_system("legs", 16, [0.02])), L, torch.float32)
        assert [block.begin for block in blocks] == [0, *(b.begin + b.size for b in blocks[:-1])]
        end = blocks[-1].begin + blocks[-1].size
        assert end >= L // 2 + 1
        assert blocks[-1].is_smooth or end == L // 2 + 1


def test_the_share_of_points_falls_with_the_length():
    """Their number hardly depends on it."""
    inputs = pairs(hippo_system("legs", 64, [0.011]))
    shares = []
    for L in (16384, 131072):
        (blocks,) = divisions(inputs, L, torch.float32)
        shares.append(evaluated(blocks) / (L // 2 + 1))
    assert shares[0] < 0.2
    assert shares[1] < 0.02


def comb(damping, P=0.05):
    """Poles at equal distances all along the nodes, damped as little as one likes."""
    M = 32
    Lambda = torch.complex(torch.full((1, M), -damping), torch.linspace(1, 60, M)[None]).to(torch.complex128)
    P = torch.full((1, 1, M), P, dtype=torch.complex128)
    system = random_system(1, M, 1)
    return system._replace(Lambda=Lambda, P=P, dt=torch.tensor([0.03], dtype=torch.float64))


def test_a_lightly_damped_system_is_given_up_early(monkeypatch):
    """Its peaks are evaluated node by node, after few attempts: points of blocks that failed are less than 4 in 100."""
    tried = []
    attempt = nodes._try

    def watched(system, block, *rest):
        tried.append(attempt(system, block, *rest))
        return tried[-1]

    monkeypatch.setattr(nodes, "_try", watched)
    L = 8192
    (blocks,) = divisions(pairs(comb(1e-3)), L, torch.float32)
    assert sum(block.size for block in blocks if not block.is_smooth) > 0.7 * (L // 2 + 1)
    assert 24 * sum(not smooth for smooth, _ in tried) < 0.04 * (L // 2 + 1)


@pytest.mark.parametrize("damping", [1e-6, 1e-3, 0.1])
def test_lightly_damped_systems_keep_values_and_gradients(backend, damping):
    value, *gradients = few_against_all(pairs(comb(damping)), 4096)
    assert value < 1e-8
    assert max(gradients) < 1e-7


def test_a_mode_that_P_does_not_reach_keeps_its_gradients(backend):
    """Neither the kernel nor the other functions that are checked see its pole if its C is 0, but the gradient does."""
    system = comb(1e-2)
    P, C = system.P.clone(), system.C.clone()
    P[..., 7] = C[..., 7] = 0
    value, *gradients = few_against_all(pairs(system._replace(P=P, C=C)), 4096)
    assert value < 1e-11
    assert max(gradients) < 1e-9


@pytest.mark.parametrize("zero", ["B", "C"])
def test_an_output_or_input_of_zero_gives_zero_and_the_gradients_of_all_nodes(backend, zero):
    system = hippo_system("legs", 16, [0.05])
    inputs = pairs(system._replace(**{zero: torch.zeros_like(getattr(system, zero))}))
    truth, values = all_and_gradients(inputs, 2048, "all"), all_and_gradients(inputs, 2048, "few")
    assert torch.equal(values[0], torch.zeros_like(values[0]))
    where = 4 if zero == "C" else 3
    assert error(values[where], truth[where]) < 1e-9
    assert all(value.abs().max() == 0 for k, value in enumerate(values) if k != where)


def test_a_feature_that_is_no_number_spoils_no_other(backend):
    inputs = pairs(hippo_system("legs", 16, [0.01, 0.02, 0.03]))
    clean = ops.spectrum(*inputs, 2000, "few")
    inputs[4][1] = float("nan")
    K_hat = ops.spectrum(*inputs, 2000, "few")
    assert torch.equal(K_hat[:, ::2], clean[:, ::2])
    assert K_hat[:, 1].isnan().all()


# Which nodes are taken


def test_few_nodes_are_taken_from_the_length_on_at_which_they_are_faster(native):
    inputs = pairs(hippo_system("legs", 64, [0.02]), torch.float32)
    for L, same, other in ((8191, "all", "few"), (8192, "few", "all")):
        results = {choice: all_and_gradients(inputs, L, choice) for choice in ("auto", "all", "few")}
        assert all(torch.equal(a, b) for a, b in zip(results["auto"], results[same], strict=True))
        assert not torch.equal(results["auto"][0], results[other][0])


def test_the_reference_takes_all_nodes_unless_few_are_asked_for(monkeypatch):
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    inputs = pairs(hippo_system("legs", 8, [0.02]))
    auto, every, few = (ops.spectrum(*inputs, 8192, choice) for choice in ("auto", "all", "few"))
    assert torch.equal(auto, every)
    assert not torch.equal(auto, few)


def test_a_kernel_can_be_asked_for_from_all_nodes(native):
    system = hippo_system("legs", 16, [0.02, 0.003])
    every, few, auto = (ops.dplr_kernel(*system, 8192, nodes=choice) for choice in ("all", "few", "auto"))
    assert torch.equal(auto, few)
    assert 0 < error(few, every) < 1e-12


def test_the_result_does_not_depend_on_the_number_of_threads(native):
    inputs, results = pairs(hippo_system("legs", 16, log_uniform(5)), torch.float32), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results += [all_and_gradients(inputs, 8192, "few") for _ in range(2)]
    for again in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], again, strict=True))


@pytest.mark.parametrize("nonsense", ["", "some", "Few"])
def test_an_unknown_choice_of_nodes_is_refused(backend, nonsense):
    with pytest.raises(ValueError, match=f"nodes: expected one of auto, all, few, got {nonsense!r}"):
        ops.spectrum(*pairs(random_system(1, 2, 1)), 8, nonsense)


def test_the_spectrum_from_few_nodes_is_a_proper_op(backend):
    inputs = [t.requires_grad_() for t in pairs(random_system(1, 3, 1))]
    torch.library.opcheck(torch.ops.longwave.spectrum.default, (*inputs, 150, "few"))
