"""The ops as torch sees them, and the backends behind them."""

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from dense import WITHOUT_DYNAMIC_SHAPES, error, hippo_system, log_uniform, random_system
from pairwise import CPU_BACKENDS, in_pairs
from torch.autograd import gradcheck
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

from longwave import ops
from longwave.ops import reference
from longwave.ops.cpu import convolution, kernel, step
from longwave.ssm import dplr_bilinear, dplr_step
from longwave.ssm import spectrum as algorithm_1

# A block of the compiled loops has 256 nodes (L = 510, 511) and a tile 4,096 (L = 8,190, 8,191); vectors have up to 16.
LENGTHS = [1, 2, 3, 30, 31, 33, 510, 511, 512, 8189, 8190, 8192]


def pairs(system):
    """Lambda, P, B, C and dt as the ops take them: complex numbers as a last axis of two, C with an axis of maps."""
    Lambda, P, B, C, dt = system
    C = C if C.ndim == 3 else C.unsqueeze(0)
    return *(torch.view_as_real(t).clone() for t in (Lambda, P, B, C)), dt.clone()


def random_pairs(H=3, M=4, rank=1, maps=1, dtype=torch.float64, seed=0):
    return pairs(random_system(H, M, rank, maps, seed).to(dtype))


def signal(batch=2, L=9, H=3, sides=1, dtype=torch.float64):
    """u, K and D of a convolution."""
    shapes = (batch, L, H), (sides, H, L), (H,)
    return [torch.randn(shape, dtype=dtype) for shape in shapes]


def spectrum_and_gradients(inputs, L):
    inputs = [t.detach().clone().requires_grad_() for t in inputs]
    K_hat = ops.spectrum(*inputs, L)
    weights = torch.randn(K_hat.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(K_hat.dtype)
    return [K_hat.detach(), *torch.autograd.grad(K_hat, inputs, weights, materialize_grads=True)]


def truncation_and_gradients(inputs, L):
    inputs = [t.detach().clone().requires_grad_() for t in (inputs[0], inputs[1], inputs[3], inputs[4])]
    C_tilde = ops.truncate(*inputs, L)
    weights = torch.randn(C_tilde.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [C_tilde.detach(), *torch.autograd.grad(C_tilde, inputs, weights.to(C_tilde.dtype), materialize_grads=True)]


def power_sum_and_gradients(inputs, L, rule):
    inputs = [t.detach().clone().requires_grad_() for t in (inputs[0], *inputs[2:])]
    K = ops.power_sum(*inputs, L, rule)
    weights = torch.randn(K.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return [K.detach(), *torch.autograd.grad(K, inputs, weights.to(K.dtype))]


def convolution_and_gradients(u, K, D):
    inputs = [t.detach().clone().requires_grad_() for t in (u, K, D)]
    y = ops.convolve(*inputs)
    weights = torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, inputs, weights)]


def disagreement(values, truth, loose=0):
    """The largest error of any tensor, relative to its largest number, or to 1 where all are smaller (or exactly 0).

    The last `loose` tensors count 1/100: in float32 the gradient of dt is a small difference of large sums.
    """
    assert all(torch.isfinite(value).all() for value in values)
    assert [value.shape for value in values] == [true.shape for true in truth]
    weight = [1.0] * (len(truth) - loose) + [0.01] * loose
    return max(
        w * ((value.double() - true.double()).abs().max() / true.abs().max().clamp(min=1)).item()
        for w, value, true in zip(weight, values, truth, strict=True)
        if true.numel()
    )


def everything(dtype, L=700):
    """Values and gradients of all ops on one damped and one undamped system."""
    results = []
    for system in (random_system(5, 8, 2), hippo_system("legt", 16, log_uniform(3))):
        inputs = pairs(system.to(dtype))
        results += spectrum_and_gradients(inputs, L) + truncation_and_gradients(inputs, L)
        results += power_sum_and_gradients(inputs, L, "zoh")
    torch.manual_seed(3)
    return results + convolution_and_gradients(*signal(2, L, 40, 2, dtype))


# What torch asks of an op


def check_op(op, arguments, backward, backward_arguments, dynamic):
    """opcheck, of the backward op too; dynamic shapes, which take longest, in one case of each op."""
    for checked, given in ((op, arguments), (backward, backward_arguments)):
        torch.library.opcheck(checked, given, test_utils="ALL" if dynamic else WITHOUT_DYNAMIC_SHAPES)


@pytest.mark.parametrize(
    ("maps", "rank", "L", "dtype"),
    [(1, 0, 7, torch.float64), (2, 2, 7, torch.float64), (1, 1, 1, torch.float32), (2, 2, 8, torch.float32)],
)
def test_the_spectrum_is_a_proper_op(backend, maps, rank, L, dtype):
    inputs = [t.requires_grad_() for t in random_pairs(2, 3, rank, maps, dtype)]
    plain = [t.detach() for t in inputs]
    arguments = (ops.spectrum(*plain, L), *plain, L)
    registered = torch.ops.longwave
    dynamic = backend == "reference" and L == 7 and rank > 0
    check_op(registered.spectrum.default, (*inputs, L), registered.spectrum_backward.default, arguments, dynamic)


@pytest.mark.parametrize(
    ("maps", "rank", "L", "dtype"),
    [(1, 0, 40, torch.float64), (2, 2, 40, torch.float64), (1, 1, 1, torch.float32), (2, 2, 33, torch.float32)],
)
def test_the_truncation_is_a_proper_op(backend, maps, rank, L, dtype):
    Lambda, P, _, C, dt = (t.requires_grad_() for t in random_pairs(2, 3, rank, maps, dtype))
    arguments = (torch.randn_like(C), *(t.detach() for t in (Lambda, P, C, dt)), L)
    registered = torch.ops.longwave
    forward, backward = registered.truncate.default, registered.truncate_backward.default
    dynamic = backend == "reference" and L == 40 and rank > 0
    check_op(forward, (Lambda, P, C, dt, L), backward, arguments, dynamic)


@pytest.mark.parametrize(("maps", "L", "dtype"), [(1, 1, torch.float64), (2, 7, torch.float64), (1, 8, torch.float32)])
def test_the_inverse_transform_is_a_proper_op(maps, L, dtype):
    K_hat = torch.randn(maps, 2, L // 2 + 1, 2, dtype=dtype, requires_grad=True)
    registered = torch.ops.longwave
    arguments = (torch.randn(maps, 2, L, dtype=dtype), L)
    check_op(registered.irfft.default, (K_hat, L), registered.irfft_backward.default, arguments, L == 7)


@pytest.mark.parametrize(
    ("maps", "L", "rule", "dtype"), [(1, 1, "zoh", torch.float32), (2, 7, "bilinear", torch.float64)]
)
def test_the_sum_of_powers_is_a_proper_op(backend, maps, L, rule, dtype):
    Lambda, _, *rest = (t.requires_grad_() for t in random_pairs(2, 3, 0, maps, dtype))
    inputs = (Lambda, *rest, L, rule)
    arguments = (torch.randn(maps, 2, L, dtype=dtype), *(t.detach() for t in (Lambda, *rest)), L, rule)
    registered = torch.ops.longwave
    dynamic = backend == "reference" and L > 1
    check_op(registered.power_sum.default, inputs, registered.power_sum_backward.default, arguments, dynamic)


@pytest.mark.parametrize(("sides", "L"), [(1, 1), (1, 6), (2, 7)])
def test_the_convolution_is_a_proper_op(backend, sides, L):
    inputs = [t.requires_grad_() for t in signal(2, L, 9, sides)]
    arguments = (torch.randn(2, L, 9, dtype=torch.float64), *(t.detach() for t in inputs))
    registered = torch.ops.longwave
    dynamic = backend == "reference" and sides == 2
    check_op(registered.convolve.default, inputs, registered.convolve_backward.default, arguments, dynamic)


@in_pairs(backend=CPU_BACKENDS, maps=[1, 2], rank=[0, 1, 2], L=[1, 5, 6])
def test_gradcheck_of_the_spectrum(backend, maps, rank, L):
    """Of one feature by the reference, which takes long; of more than one the backends agree (below)."""
    inputs = [t.requires_grad_() for t in random_pairs(1 if backend == "reference" else 2, 2, rank, maps)]
    assert gradcheck(lambda *x: ops.spectrum(*x, L), inputs)


@pytest.mark.parametrize("init", ["legt", "lagt"])
def test_gradcheck_of_the_spectrum_of_undamped_systems(backend, init):
    """With a damping that moves by more than gradcheck's step, so that both sides of the difference are stable."""
    steps = [0.0731, 0.31][: 1 if backend == "reference" else 2]
    inputs = [t.requires_grad_() for t in pairs(hippo_system(init, 4, steps))]
    assert gradcheck(lambda *x: ops.spectrum(*x, 9), inputs)


@pytest.mark.parametrize("L", [1, 2, 3, 8, 9])
def test_the_inverse_transform_is_that_of_torch(L):
    """With the gradients of its own backward pass, also of a spectrum that begins at an odd place in memory."""
    numbers = torch.randn(1 + 3 * (L // 2 + 1) * 2, dtype=torch.float64)
    K_hat = numbers[1:].view(1, 3, -1, 2).requires_grad_()
    K, expected = ops.irfft(K_hat, L), torch.fft.irfft(torch.complex(K_hat[..., 0], K_hat[..., 1]), n=L)
    assert torch.equal(K, expected)
    weights = torch.randn_like(K)
    (value,), (true,) = (torch.autograd.grad(one, [K_hat], weights) for one in (K, expected))
    assert error(value, true) < 1e-14


@in_pairs(backend=CPU_BACKENDS, maps=[1, 2], rank=[0, 1, 2], L=[1, 2, 33])
def test_gradcheck_of_the_truncation(backend, maps, rank, L):
    Lambda, P, _, C, dt = (t.requires_grad_() for t in random_pairs(2, 2, rank, maps))
    assert gradcheck(lambda *x: ops.truncate(*x, L), [Lambda, P, C, dt])


@in_pairs(backend=CPU_BACKENDS, sides=[1, 2], L=[1, 2, 7])
def test_gradcheck_of_the_convolution(backend, sides, L):
    assert gradcheck(ops.convolve, [t.requires_grad_() for t in signal(2, L, 9, sides)])


@pytest.mark.parametrize("name", ["spectrum", "truncate"])
def test_second_derivatives_are_refused_not_wrong(backend, name):
    Lambda, P, B, C, dt = (t.requires_grad_() for t in random_pairs())
    out = ops.spectrum(Lambda, P, B, C, dt, 8) if name == "spectrum" else ops.truncate(Lambda, P, C, dt, 8)
    (first,) = torch.autograd.grad(out.square().sum(), dt, create_graph=True)
    with pytest.raises(RuntimeError, match=f"{name}_backward"):
        first.sum().backward()


def test_gradients_can_be_watched_by_a_dispatch_mode(backend):
    """As a counter of operations does, or selective checkpointing."""
    inputs = random_pairs()
    expected = spectrum_and_gradients(inputs, 12) + truncation_and_gradients(inputs, 12)
    with FlopCounterMode(display=False):
        values = spectrum_and_gradients(inputs, 12) + truncation_and_gradients(inputs, 12)
    assert disagreement(values, expected) < 1e-14


@pytest.mark.parametrize("wanted", range(5))
def test_a_gradient_can_be_wanted_for_one_input_only(backend, wanted):
    inputs = list(random_pairs(rank=2))
    every = spectrum_and_gradients(inputs, 20)[1 + wanted]
    inputs[wanted].requires_grad_()
    K_hat = ops.spectrum(*inputs, 20)
    weights = torch.randn(K_hat.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (alone,) = torch.autograd.grad(K_hat, [inputs[wanted]], weights)
    torch.testing.assert_close(alone, every, rtol=1e-13, atol=1e-13)


def test_strided_inputs_give_the_same(backend):
    inputs = random_pairs(rank=2)
    strided = [torch.stack((t, t + 1), dim=-1)[..., 0] for t in inputs]
    assert not any(t.is_contiguous() for t in strided)
    assert disagreement(spectrum_and_gradients(strided, 30), spectrum_and_gradients(inputs, 30)) < 1e-13
    assert error(ops.truncate(*strided[:2], *strided[3:], 30), ops.truncate(*inputs[:2], *inputs[3:], 30)) < 1e-13


def test_inference_mode_gives_the_same(backend):
    inputs, convolved = random_pairs(), signal()
    expected = ops.spectrum(*inputs, 9), ops.truncate(*inputs[:2], *inputs[3:], 9), ops.convolve(*convolved)
    with torch.inference_mode():
        inside = [t.clone() for t in inputs]
        for given in (inputs, inside):
            values = (
                ops.spectrum(*given, 9),
                ops.truncate(*given[:2], *given[3:], 9),
                ops.convolve(*convolved),
            )
            assert all(torch.equal(value, true) for value, true in zip(values, expected, strict=True))
            assert all(value.is_inference() for value in values)


# The backends agree


@in_pairs(by="rank", maps=[1, 2], rank=[0, 1, 2], L=LENGTHS)
def test_the_backends_agree_on_the_spectrum_in_float64(compiled, monkeypatch, maps, rank, L):
    inputs = random_pairs(3, 5, rank, maps)
    results = {}
    for name in ("native", "reference"):
        monkeypatch.setenv("LONGWAVE_KERNEL", name)
        results[name] = spectrum_and_gradients(inputs, L)
    assert disagreement(results["native"], results["reference"]) < 1e-11


@in_pairs(by="rank", maps=[1, 2], rank=[0, 1, 2], L=[1, 2, 32, 33, 1000])
def test_the_backends_agree_on_the_truncation_in_float64(compiled, monkeypatch, maps, rank, L):
    inputs = random_pairs(3, 5, rank, maps)
    results = {}
    for name in ("native", "reference"):
        monkeypatch.setenv("LONGWAVE_KERNEL", name)
        results[name] = truncation_and_gradients(inputs, L)
    assert disagreement(results["native"], results["reference"]) < 1e-11


@in_pairs(init=["legs", "legt", "lagt"], N=[2, 6, 64], dtype=[torch.float32, torch.float64])
def test_the_backends_agree_on_the_initialisations(compiled, monkeypatch, init, N, dtype):
    inputs = pairs(hippo_system(init, N, log_uniform(4, seed=N)).to(dtype))
    bound = 1e-9 if dtype == torch.float64 else 1e-5
    for compute in (spectrum_and_gradients, truncation_and_gradients):
        results = {}
        for name in ("native", "reference"):
            monkeypatch.setenv("LONGWAVE_KERNEL", name)
            results[name] = compute(inputs, 333)
        assert disagreement(results["native"], results["reference"], loose=1) < bound


VECTOR_BITS = (128, 256, 512)


@in_pairs(dtype=[torch.float32, torch.float64], M=[1, 3, 32], maps=[1, 2], rank=[0, 1, 2])
def test_every_vector_width_agrees_with_the_reference(limit_vectors, dtype, M, maps, rank):
    Lambda, P, _, C, dt = inputs = random_pairs(2, M, rank, maps, dtype)
    exact = [t.double() for t in inputs]
    bound = 1e-12 if dtype == torch.float64 else 5e-6
    for L in (1, 37, 600):
        K_hat, C_tilde = reference.spectrum(*exact, L), reference.truncate(Lambda, P, C, dt, L)
        truth = reference.spectrum_backward(K_hat, *exact, L), reference.truncate_backward(C_tilde, Lambda, P, C, dt, L)
        for bits in VECTOR_BITS:
            limit_vectors(bits)
            assert disagreement([kernel.spectrum(*inputs, L)], [K_hat]) < bound
            values = kernel.spectrum_backward(K_hat.to(dtype), *inputs, L)
            assert disagreement(values, truth[0], loose=1) < bound
            assert disagreement([kernel.truncate(Lambda, P, C, dt, L)], [C_tilde]) < bound
            values = kernel.truncate_backward(C_tilde, Lambda, P, C, dt, L)
            assert disagreement(values, truth[1], loose=1) < bound


def test_the_reference_gives_the_same_in_one_block_and_in_many(monkeypatch):
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    inputs = random_pairs(3, 4, 2)
    whole = spectrum_and_gradients(inputs, 501)
    monkeypatch.setattr(algorithm_1, "CPU_BLOCK_NUMBERS", 256)
    assert disagreement(spectrum_and_gradients(inputs, 501), whole) < 1e-13


@pytest.mark.parametrize(("init", "dt"), [("legt", 0.03), ("lagt", 0.03), ("legs", 1e-9)])
def test_what_float32_cannot_do_is_evaluated_in_float64(backend, init, dt):
    """Undamped poles, and steps whose squares leave the range of float32."""
    inputs = pairs(hippo_system(init, 64, [dt]).to(torch.float32))
    values = spectrum_and_gradients(inputs, 600)
    truth = spectrum_and_gradients([t.double() for t in inputs], 600)
    assert all(torch.isfinite(value).all() for value in values)
    assert disagreement(values, truth, loose=1) < 2e-6


@in_pairs(
    by="dtype, sides",
    dtype=[torch.float32, torch.float64],
    sides=[1, 2],
    H=[5, 16, 40],
    L=[1, 2, 3, 25, 64, 301, 784, 1600],
)
def test_every_vector_width_convolves_like_the_reference(limit_vectors, monkeypatch, dtype, sides, H, L):
    """All radices, odd and even lengths, groups of features that do not fill a vector."""
    monkeypatch.setattr(convolution, "_has_few_features", lambda u: False)
    inputs = [t.to(dtype) for t in signal(3, L, H, sides)]
    exact = [t.double() for t in inputs]
    y = reference.convolve(*exact)
    truth = reference.convolve_backward(y, *exact)
    bound = 1e-13 if dtype == torch.float64 else 1e-6
    for bits in VECTOR_BITS:
        limit_vectors(bits)
        assert disagreement([convolution.convolve(*inputs)], [y]) < bound
        assert disagreement(convolution.convolve_backward(y.to(dtype), *inputs), truth) < bound


# A block has 64 steps up to a length of 4,096, then 128; rows of blocks go six at a time, then two, then one.
@pytest.mark.parametrize("rule", ["zoh", "bilinear"])
@pytest.mark.parametrize(("maps", "M", "L"), [(1, 1, 1), (2, 5, 64), (1, 5, 450), (2, 16, 577), (1, 33, 4097)])
def test_the_compiled_sum_of_powers_agrees_with_the_reference(limit_vectors, maps, M, L, rule):
    """In float32 the worst that was seen is 1.2e-6, of a gradient of dt."""
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        Lambda, _, *rest = random_pairs(3, M, 0, maps, dtype)
        inputs, grad = (Lambda, *rest), torch.randn(maps, 3, L, dtype=dtype)
        wide = [t.double() for t in inputs]
        truth = [reference.power_sum(*wide, L, rule), *reference.power_sum_backward(grad.double(), *wide, L, rule)]
        for bits in VECTOR_BITS:
            limit_vectors(bits)
            values = [kernel.power_sum(*inputs, L, rule), *kernel.power_sum_backward(grad, *inputs, L, rule)]
            assert all(error(value, true) < bound for value, true in zip(values, truth, strict=True))


@in_pairs(by="batch", batch=[1, 2, 5], threads=[1, 2, 3], H=[1, 4, 9, 24])
def test_the_split_of_the_work_changes_no_convolution(compiled, batch, threads, H):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        inputs = signal(batch, 50, H, 2)
        y = convolution.convolve(*inputs)
        assert disagreement([y], [reference.convolve(*inputs)]) < 1e-13
        truth = reference.convolve_backward(y, *inputs)
        assert disagreement(convolution.convolve_backward(y, *inputs), truth) < 1e-13
    finally:
        torch.set_num_threads(before)


@in_pairs(
    **{
        "bits": VECTOR_BITS,
        "dtype": [torch.float32, torch.float64],
        "rank": [0, 1, 2],
        "batch, H, M": [(1, 1, 1), (11, 37, 3), (2, 40, 32)],
    }
)
def test_the_compiled_step_agrees_with_the_plain_one(limit_vectors, bits, dtype, rank, batch, H, M):
    limit_vectors(bits)
    system = random_system(H, M, rank).to(dtype)
    discrete = dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    D, u, state = (
        torch.randn(H, dtype=dtype),
        torch.randn(batch, H, dtype=dtype),
        torch.randn(batch, H, M, 2, dtype=dtype),
    )
    state = torch.view_as_complex(state)
    C = system.C if system.C.ndim == 2 else system.C[0]
    y, after = step.step(step.pack_step(*discrete, C), D, u, state)
    truth = dplr_step(discrete, state, u)
    bound = 1e-14 if dtype == torch.float64 else 2e-6
    assert disagreement([torch.view_as_real(after)], [torch.view_as_real(truth)]) < bound
    assert disagreement([y], [2 * (C * truth).real.sum(-1) + D * u]) < bound


def test_another_default_device_does_not_reach_the_library(compiled):
    convolution._plan.cache_clear()
    inputs = signal(2, 41, 20)
    with torch.device("meta"):
        y = convolution.convolve(*inputs)
    assert disagreement([y], [reference.convolve(*inputs)]) < 1e-13


def test_lengths_of_transforms_are_short_and_made_of_small_primes():
    for L in range(1, 3000):
        n, radices = min(convolution._smooth_lengths(L))
        assert L <= n <= 1.12 * L + 2
        assert math.prod(radices) == n
        assert set(radices) <= {2, 3, 4, 5, 8}


# Threads and processes


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_are_the_same_to_the_bit_for_a_thread_count(compiled, monkeypatch, threads, dtype):
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    torch.set_num_threads(threads)
    first = everything(dtype)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(everything(dtype), first, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_reference_gives_the_same_bits_again(monkeypatch, dtype):
    monkeypatch.setenv("LONGWAVE_KERNEL", "reference")
    assert all(torch.equal(a, b) for a, b in zip(everything(dtype), everything(dtype), strict=True))


def test_python_threads_get_what_one_gets_alone(backend):
    # Without the convolution, whose signal comes from the global generator.
    expected = everything(torch.float64, 300)[:-4]
    systems = [random_system(5, 8, 2), hippo_system("legt", 16, log_uniform(3))]

    def work(_):
        results = []
        for system in systems:
            results += spectrum_and_gradients(pairs(system), 300) + truncation_and_gradients(pairs(system), 300)
            results += power_sum_and_gradients(pairs(system), 300, "zoh")
        return results

    with ThreadPoolExecutor(4) as pool:
        for results in pool.map(work, range(12)):
            assert all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


class Kernels(Dataset):
    """Each item is computed in the worker."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        inputs = random_pairs(4, 4, 1, seed=index)
        u, K = torch.ones(2, 50, 20), torch.ones(1, 20, 50)
        return torch.cat([t.flatten() for t in spectrum_and_gradients(inputs, 100)]), ops.convolve(u, K)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # more workers than this machine has cores
def test_dataloader_workers_get_what_the_parent_gets(backend):
    torch.set_num_threads(2)
    expected = [Kernels()[index] for index in range(6)]  # OpenMP has run in the parent before it forks
    loader = DataLoader(Kernels(), batch_size=None, num_workers=2, multiprocessing_context="fork", timeout=60)
    for results, true in zip(loader, expected, strict=True):
        for a, b in zip(results, true, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


# Errors: the compiled loops read raw memory


@pytest.mark.parametrize("wrong", range(5))
def test_a_wrong_shape_reaches_no_loop(backend, wrong):
    inputs = list(random_pairs(3, 4))
    inputs[wrong] = random_pairs(2, 3)[wrong]
    with pytest.raises(ValueError, match=r"expected .*got"):
        ops.spectrum(*inputs, 8)


@pytest.mark.parametrize("wrong", [0, 1, 3, 4])
def test_a_wrong_shape_reaches_no_truncation(backend, wrong):
    inputs = list(random_pairs(3, 4))
    inputs[wrong] = random_pairs(2, 3)[wrong]
    with pytest.raises(ValueError, match=r"expected .*got"):
        ops.truncate(*inputs[:2], *inputs[3:], 8)


@pytest.mark.parametrize(
    ("maps", "rank", "message"), [(3, 1, "^C: expected 1 or 2 along its first axis"), (1, 3, "^P: .* rank 0, 1 or 2")]
)
def test_too_many_maps_or_corrections_are_refused(backend, maps, rank, message):
    with pytest.raises(ValueError, match=rf"{message}.*, got torch\.float64 \(3, 2, 3, 2\)"):
        ops.spectrum(*random_pairs(2, 3, rank, maps), 8)


@pytest.mark.parametrize("L", [0, -1])
def test_a_length_below_1_is_refused(backend, L):
    with pytest.raises(ValueError, match=f"L: expected a length of at least 1, got {L}"):
        ops.spectrum(*random_pairs(), L)
