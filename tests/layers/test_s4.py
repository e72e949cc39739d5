import copy
import math
import pickle
from itertools import pairwise

import pytest
import safetensors.torch
import torch
from dense import LOW_RANK_INITS, System, dense_kernel, dense_recurrence, direct_convolution, error, full, gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from pairwise import CPU_BACKENDS, in_one_case, in_pairs
from torch import nn

from longwave import S4, S4Config, param_groups
from longwave.layers import seen
from longwave.ssm import dplr, dplr_kernel

SSM = ("log_dt", "Lambda_re", "Lambda_im", "P", "B")
# The layer does not know where its A comes from: kernel, powers and steps of all are tested in ssm and ops.
INITS = ["legs", "legt", "lagt"]
inits = pytest.mark.parametrize("init", INITS)


def make(d_model=3, d_state=8, seed=0, dtype=torch.float64, **options):
    """A layer in float64 whose step sizes make its memory about as long as the test's signals."""
    torch.default_generator.manual_seed(seed)
    torch.set_default_dtype(dtype)
    try:
        return S4(d_model, d_state, **{"dt_min": 0.01, "dt_max": 0.3} | options)
    finally:
        torch.set_default_dtype(torch.float32)


def signal(batch=2, L=20, H=3, seed=1, dtype=torch.float64):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def random_state(batch=2, H=3, M=4, seed=2):
    return torch.randn(batch, H, M, generator=torch.Generator().manual_seed(seed), dtype=torch.complex128)


def system_of(layer):
    Lambda, P, B, C, _, dt = layer.ssm()
    return System(Lambda, P, B, C, dt)


def truth(layer, u, state=None):
    """y and the last state by the dense recurrence."""
    y, state = dense_recurrence(system_of(layer), u, state)
    return y + layer.D * u, state


def by_steps(layer, u, state=None, **options):
    state, outputs = layer.initial_state(len(u)) if state is None else state, []
    for u_t in u.unbind(1):
        y_t, state = layer.step(u_t, state, **options)
        outputs.append(y_t)
    return torch.stack(outputs, dim=1), state


def by_chunks(layer, u, sizes, state=None, **options):
    outputs = []
    for chunk in u.split(sizes, dim=1):
        y, state = layer(chunk, state, **options)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


def exact(init, searched=False):
    """The kernel's promise in float64: undamped systems lose digits where a node is close to a pole.

    A search meets a node that is closer sooner or later, and then half the digits are left.
    """
    return 1e-10 if init == "legs" else 1e-6 if searched else 1e-8


def close(value, true, bound=1e-10):
    assert value.dtype == true.dtype
    assert error(value, true) < bound


# The contract


def test_shapes_and_dtypes_are_the_contracts():
    layer = S4(d_model=6, d_state=16)
    u = torch.randn(2, 9, 6)
    y, state = layer(u)
    assert (y.shape, y.dtype) == (u.shape, torch.float32)
    assert (state.shape, state.dtype) == ((2, 6, 8), torch.complex64)
    y_t, state = layer.step(u[:, 0], layer.initial_state(2))
    assert (y_t.shape, state.shape) == ((2, 6), (2, 6, 8))
    assert layer.kernel(5).shape == (6, 5)
    assert layer(u, need_state=False)[1] is None
    assert layer(u, state, need_state=False)[1] is None
    Lambda, P, B, C, D, dt = layer.ssm()
    assert [tuple(t.shape) for t in (Lambda, P, B, C, D, dt)] == [(6, 8), (1, 6, 8), (6, 8), (6, 8), (6,), (6,)]


def test_shapes_of_a_two_sided_layer_are_the_contracts():
    layer = S4(6, 16, init="legt", bidirectional=True)
    y, state = layer(torch.randn(2, 9, 6))
    assert (tuple(y.shape), state) == ((2, 9, 6), None)
    assert layer.kernel(5).shape == (2, 6, 5)
    assert layer.ssm().C.shape == (2, 6, 8)
    assert layer.ssm().P.shape == (2, 6, 8)


@inits
def test_a_new_layer_holds_the_initialisation(init):
    layer = make(init=init, d_state=16)
    Lambda, P, B, _ = dplr(init, 16)
    ssm = layer.ssm()
    for h in range(3):
        close(ssm.Lambda[h], Lambda, 1e-15)
        close(ssm.P[:, h], P, 1e-15)
        close(ssm.B[h], B, 1e-15)


@pytest.mark.parametrize("transform", ["exp", "softplus"])
def test_dt_starts_log_uniform_between_its_bounds(transform):
    dt = S4(4096, 2, dt_min=0.002, dt_max=0.05, dt_transform=transform).ssm().dt.log()
    low, high = math.log(0.002), math.log(0.05)
    assert dt.min() >= low - 1e-6
    assert dt.max() <= high + 1e-6
    # 4,096 draws: the mean and the quartiles of a uniform distribution, within five standard deviations
    quartiles = torch.quantile(dt, torch.tensor([0.25, 0.5, 0.75]))
    expected = low + (high - low) * torch.tensor([0.25, 0.5, 0.75])
    torch.testing.assert_close(quartiles, expected, rtol=0, atol=5 * (high - low) * math.sqrt(0.25 / 4096))


def test_parameters_are_real_tensors_of_the_default_dtype():
    for dtype in (torch.float32, torch.float64):
        for options in ({}, {"length": 16}, {"bidirectional": True}):
            assert {p.dtype for p in make(dtype=dtype, **options).parameters()} == {dtype}


# The ladder: convolution, recurrence, chunks


@in_pairs(by="backend, init", backend=CPU_BACKENDS, init=INITS, L=[1, 2, 3, 20, 65], batch=[1, 3], length=[None, 20])
def test_the_convolution_equals_the_dense_recurrence(backend, init, L, batch, length):
    layer, u = make(init=init, length=length), signal(batch, L)
    y, state = layer(u)
    y_true, state_true = truth(layer, u)
    close(y, y_true, exact(init))
    close(state, state_true, exact(init))


@in_pairs(by="backend, init", backend=CPU_BACKENDS, init=INITS, L=[1, 2, 3, 20, 65], length=[None, 20])
def test_step_equals_convolution(backend, init, L, length):
    layer, u = make(init=init, length=length), signal(2, L)
    y, state = layer(u)
    y_steps, state_steps = by_steps(layer, u)
    close(y_steps, y, exact(init))
    close(state_steps, state, exact(init))


@inits
@in_one_case(L=[1, 2, 64, 101])
def test_step_equals_convolution_in_float32(init, L):
    layer, u = (
        make(init=init, d_state=64, dtype=torch.float32, dt_min=0.001, dt_max=0.1),
        signal(2, L, dtype=torch.float32),
    )
    y, state = layer(u)
    y_steps, state_steps = by_steps(layer, u)
    close(y_steps, y, 2e-5)
    close(state_steps, state, 2e-5)


@given(
    st.sampled_from(LOW_RANK_INITS), st.lists(st.integers(1, 90), min_size=1, max_size=6), st.booleans(), st.booleans()
)
@settings(max_examples=25)
def test_chunks_of_any_size_equal_the_whole(init, sizes, started, with_length):
    layer, u = make(init=init, length=40 if with_length else None), signal(2, sum(sizes))
    state = random_state() if started else None
    y, after = layer(u, state)
    y_chunks, after_chunks = by_chunks(layer, u, sizes, state)
    close(y_chunks, y, exact(init, searched=True))
    close(after_chunks, after, exact(init, searched=True))


@given(st.sampled_from(LOW_RANK_INITS), st.integers(1, 80), st.integers(0, 1 << 30))
@settings(max_examples=25)
def test_a_start_from_any_state_equals_the_dense_recurrence(init, L, seed):
    layer, u, state = make(init=init, seed=seed), signal(2, L, seed=seed), random_state(seed=seed)
    y, after = layer(u, state)
    y_true, after_true = truth(layer, u, state)
    close(y, y_true, exact(init, searched=True))
    close(after, after_true, exact(init, searched=True))


@in_pairs(backend=CPU_BACKENDS, init=INITS, length=[None, 7])
def test_gradients_of_convolution_steps_and_chunks_equal_the_dense_ones(backend, init, length):
    layer = make(init=init, length=length)
    u, state = signal(2, 13).requires_grad_(), random_state().requires_grad_()
    inputs = [u, state, *layer.parameters()]

    def weighted(y, after):
        return gradients(torch.cat((y.flatten(), torch.view_as_real(after).flatten())), inputs)

    expected = weighted(*truth(layer, u, state))
    for y, after in (layer(u, state), by_steps(layer, u, state), by_chunks(layer, u, [4, 1, 8], state)):
        for value, true in zip(weighted(y, after), expected, strict=True):
            close(value, true, 1e-8)


def test_gradients_flow_through_the_state_from_chunk_to_chunk():
    layer, u = make(), signal(1, 30).requires_grad_()
    _, state = layer(u[:, :10])
    y, _ = layer(u[:, 10:].detach(), state)
    (du,) = torch.autograd.grad(y.sum(), u)
    whole = u.detach().clone().requires_grad_()
    (du_true,) = torch.autograd.grad(truth(layer, whole)[0][:, 10:].sum(), whole)
    close(du[:, :10], du_true[:, :10])
    assert du[:, :10].abs().min() > 0


def test_a_zero_state_is_no_state():
    layer, u = make(), signal()
    for a, b in zip(layer(u, layer.initial_state(2)), layer(u), strict=True):
        close(a, b, 1e-14)


def test_the_causal_layer_does_not_see_the_future():
    layer, u = make(), signal()
    u = u.requires_grad_()
    (du,) = torch.autograd.grad(layer(u)[0][:, 7].sum(), u)
    assert du[:, 8:].abs().max() < 1e-13
    assert du[:, :8].abs().min() > 0


@inits
def test_batch_rows_do_not_see_each_other(init):
    layer, u, state = make(init=init), signal(4, 33), random_state(4)
    y, after = layer(u, state)
    for row in range(4):
        y_row, after_row = layer(u[row : row + 1], state[row : row + 1])
        close(y[row : row + 1], y_row, 1e-13)
        close(after[row : row + 1], after_row, 1e-13)


def test_a_nan_in_one_row_stays_there():
    layer, u = make(), signal(3)
    expected, _ = layer(u)
    u = u.clone()
    u[1, 5] = math.nan
    y, state = layer(u)
    close(y[[0, 2]], expected[[0, 2]], 1e-13)
    assert torch.isfinite(torch.view_as_real(state[[0, 2]])).all()


def test_features_do_not_see_each_other():
    layer, u = make(), signal().requires_grad_()
    (du,) = torch.autograd.grad(layer(u)[0][..., 1].sum(), u)
    assert du[..., [0, 2]].abs().max() == 0


# The kernel


@in_pairs(
    by="backend, init", backend=CPU_BACKENDS, init=INITS, L=[1, 2, 17, 64], rate=[1.0, 0.37, 2.5], length=[None, 17]
)
def test_the_kernel_is_that_of_the_system_at_rate_times_dt(backend, init, L, rate, length):
    layer = make(init=init, length=length)
    Lambda, P, B, C, _, dt = layer.ssm()
    K = layer.kernel(L, rate=rate)
    close(K, dplr_kernel(Lambda, P, B, C, rate * dt, L), exact(init))
    close(K, dense_kernel(System(Lambda, P, B, C, rate * dt), L), exact(init))


def test_the_output_is_the_convolution_with_the_kernel_plus_d_u():
    layer, u = make(), signal()
    close(layer(u)[0], direct_convolution(u, layer.kernel(20)) + layer.D * u, 1e-12)


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_every_view_takes_a_rate(rate):
    layer, u = make(), signal(2, 24)
    slowed = copy.deepcopy(layer)
    with torch.no_grad():
        slowed.log_dt += math.log(rate)
    y, state = layer(u, rate=rate)
    for other in (slowed(u), by_steps(layer, u, rate=rate), by_chunks(layer, u, [10, 3, 11], rate=rate)):
        close(other[0], y)
        close(other[1], state)


def test_outputs_at_two_rates_converge_at_second_order():
    """The same smooth signal, sampled at the middle of each step, at 1, 1/2, 1/4 ... of the layer's step."""
    layer = make(1, 4, dt_min=0.05, dt_max=0.05)
    with torch.no_grad():
        layer.D.zero_()
    duration = 64

    def output(rate):
        t = (torch.arange(round(duration / rate), dtype=torch.float64) + 0.5) * rate
        u = torch.sin(2 * math.pi * t / duration) ** 4 + torch.sin(math.pi * t / duration) ** 2
        y, _ = layer(u.view(1, -1, 1), rate=rate)
        return y[0, round(1 / rate) - 1 :: round(1 / rate), 0]  # at the times 1, 2, 3 ...

    outputs = [output(0.5**j) for j in range(5)]
    differences = [(a - b).abs().max().item() for a, b in pairwise(outputs)]
    assert differences[0] < 0.03 * outputs[-1].abs().max()
    for coarse, fine in pairwise(differences):
        assert coarse / fine == pytest.approx(4, rel=0.1)


# Two-sided


@in_pairs(by="backend, init", backend=CPU_BACKENDS, init=INITS, L=[1, 2, 3, 30], length=[None, 3])
def test_two_sided_has_no_off_by_one(backend, init, L, length):
    layer, u = make(init=init, bidirectional=True, length=length), signal(2, L)
    y, state = layer(u)
    close(y, direct_convolution(u, *layer.kernel(L)) + layer.D * u, 1e-12)
    assert state is None
    close(layer.kernel(L), dense_kernel(system_of(layer), L), exact(init))


def test_the_backward_direction_is_the_forward_one_on_the_reversed_signal():
    """With the forward kernel and D at zero, position k hears what comes after it, from k + 1 on."""
    layer, u = make(bidirectional=True), signal(1, 12)
    with torch.no_grad():
        layer.D.zero_()
        layer.C[0].zero_()
    forward = make()
    forward.load_state_dict({**layer.state_dict(), "C": layer.C[1]})
    y, heard = layer(u)[0], forward(u.flip(1))[0].flip(1)
    close(y[:, :-1], heard[:, 1:], 1e-12)
    assert y[:, -1].abs().max() < 1e-13


def test_gradients_of_two_sided_layers_equal_those_of_the_direct_sum():
    layer, u = make(bidirectional=True), signal(2, 9).requires_grad_()
    inputs = [u, *layer.parameters()]
    K = dense_kernel(system_of(layer), 9)
    expected = gradients(direct_convolution(u, *K) + layer.D * u, inputs)
    for value, true in zip(gradients(layer(u)[0], inputs), expected, strict=True):
        close(value, true, 1e-9)


# Padding


@given(st.data(), st.sampled_from(LOW_RANK_INITS), st.integers(1, 50), st.booleans(), st.sampled_from([None, 16]))
@settings(max_examples=25)
def test_padding_changes_nothing(data, init, L, started, length):
    lengths = data.draw(st.lists(st.integers(0, L), min_size=1, max_size=4))
    layer, u = make(init=init, length=length), signal(len(lengths), L)
    state = random_state(len(lengths)) if started else None
    for row, count in enumerate(lengths):
        u[row, count:] = [math.nan, math.inf, -1e30, 5.0][row]
    y, after = layer(u, state, lengths=torch.tensor(lengths))
    for row, count in enumerate(lengths):
        start = layer.initial_state(1) if state is None else state[row : row + 1]
        if count:
            y_row, after_row = layer(u[row : row + 1, :count], start)
            close(y[row : row + 1, :count], y_row, exact(init, searched=True))
        else:
            after_row = start
        torch.testing.assert_close(after[row : row + 1], after_row, rtol=1e-10, atol=1e-11)
        assert (y[row, count:] == 0).all()


@given(st.data(), st.integers(1, 40))
@settings(max_examples=25)
def test_padding_changes_nothing_in_a_two_sided_layer(data, L):
    lengths = data.draw(st.lists(st.integers(0, L), min_size=1, max_size=4))
    layer, u = make(bidirectional=True), signal(len(lengths), L)
    for row, count in enumerate(lengths):
        u[row, count:] = math.nan
    y, _ = layer(u, lengths=torch.tensor(lengths))
    for row, count in enumerate(lengths):
        if count:
            close(y[row : row + 1, :count], layer(u[row : row + 1, :count])[0])
        assert (y[row, count:] == 0).all()


@pytest.mark.parametrize("bidirectional", [False, True])
def test_nan_in_the_padding_reaches_no_gradient(bidirectional):
    layer, u = make(bidirectional=bidirectional), signal(2, 10)
    u[0, 4:] = math.nan
    u = u.requires_grad_()
    y, state = layer(u, lengths=torch.tensor([4, 10]))
    (y.square().sum() + (0 if state is None else state.abs().sum())).backward()
    assert all(torch.isfinite(p.grad).all() for p in (u, *layer.parameters()))
    assert (u.grad[0, 4:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_lengths_of_any_integer_type_mean_the_same(dtype):
    layer, u, state = make(), signal(2, 600), random_state()
    expected = layer(u, state, lengths=torch.tensor([100, 3]))
    for a, b in zip(layer(u, state, lengths=torch.tensor([100, 3], dtype=dtype)), expected, strict=True):
        close(a, b, 1e-13)


@pytest.mark.usefixtures("unchecked")
def test_lengths_may_be_a_list():
    layer, u = make(), signal(2, 6)
    for a, b in zip(layer(u, lengths=[6, 2]), layer(u, lengths=torch.tensor([6, 2])), strict=True):
        assert torch.equal(a, b)


# C~ as the parameter


@inits
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_fixed_length_is_the_same_layer(init, bidirectional):
    free = make(init=init, bidirectional=bidirectional)
    fixed = make(init=init, bidirectional=bidirectional, length=32)
    close(fixed.ssm().C, free.ssm().C, 1e-6)  # C starts from the same draw of complex64
    for L in (1, 5, 31, 32, 33, 100):
        for rate in (1.0, 0.7):
            close(fixed.kernel(L, rate), free.kernel(L, rate), 1e-6)


def test_a_fixed_length_holds_c_tilde_of_that_length_and_no_c():
    layer = make(length=32)
    names = {name for name, _ in layer.named_parameters()}
    assert names == {*SSM, "C_tilde", "D"}
    Lambda, P, B, _, _, dt = layer.ssm()
    C_tilde = torch.view_as_complex(layer.C_tilde)
    close(layer.kernel(32), dplr_kernel(Lambda, P, B, C_tilde, dt, 32, C_is_truncated=True), 1e-14)
    assert {name for name, _ in make().named_parameters()} == {*SSM, "C", "D"}


@inits
@pytest.mark.parametrize("length", [1, 16, 1024])
def test_a_fixed_length_serves_other_lengths_in_float32(init, length):
    """I - A_bar^L is well enough conditioned to go back from C~ to C."""
    layer = make(4, 64, init=init, length=length, dtype=torch.float32, dt_min=0.001, dt_max=0.1)
    exact = copy.deepcopy(layer).double()
    for L in (1, 7, 16, 300):
        assert error(layer.kernel(L).double(), exact.kernel(L)) < 2e-5


# Sharing, freezing


@inits
@pytest.mark.parametrize(("n_ssm", "sharing"), [(1, "neighbours"), (2, "neighbours"), (2, "turns"), (6, "turns")])
def test_shared_systems_are_copies(init, n_ssm, sharing):
    """Feature h has the system h // (H / n_ssm) of neighbours, or h mod n_ssm where features take turns."""
    shared = make(6, init=init, n_ssm=n_ssm, sharing=sharing)
    owner = torch.tensor([h % n_ssm if sharing == "turns" else h * n_ssm // 6 for h in range(6)])
    own = make(6, init=init)
    with torch.no_grad():
        for name in ("Lambda_re", "Lambda_im", "B", "P"):
            shared.get_parameter(name).add_(0.1 * torch.randn_like(shared.get_parameter(name)))
    repeated = {
        name: value.index_select(1 if name == "P" else 0, owner)
        if name in ("Lambda_re", "Lambda_im", "P", "B")
        else value
        for name, value in shared.state_dict().items()
    }
    own.load_state_dict(repeated)
    u = signal(2, 25, 6)
    for a, b in zip(shared(u), own(u), strict=True):
        close(a, b, 1e-13)
    for a, b in zip(by_steps(shared, u), by_steps(own, u), strict=True):
        close(a, b, 1e-13)
    assert shared.Lambda_re.shape == (n_ssm, 4)
    assert (shared.log_dt.shape, shared.D.shape, shared.C.shape[0]) == ((6,), (6,), 6)


@pytest.mark.parametrize("length", [None, 20])
def test_frozen_parameters_get_no_gradient_and_the_rest_does(length):
    layer = make(trainable=False, length=length)
    layer(signal())[0].sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.requires_grad == (name not in SSM)
        assert (parameter.grad is None) == (name in SSM)


# Stability


@inits
@given(st.integers(0, 1 << 30), st.floats(-3, 3))
def test_re_lambda_is_never_positive_whatever_the_parameters(init, seed, log_scale):
    layer = make(init=init, seed=seed)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(10**log_scale * torch.randn_like(parameter))
    Lambda, P, *_ = layer.ssm()
    assert (Lambda.real <= 0).all()
    for h in range(3):
        P_full = full(P[:, h])
        eigenvalues = torch.linalg.eigvals(torch.diag(full(Lambda[h])) - P_full.mT @ P_full.conj())
        assert eigenvalues.real.max() <= 1e-9 * max(1, eigenvalues.abs().max())


@pytest.mark.parametrize("init", ["legt", "lagt"])
def test_undamped_systems_start_at_exactly_0_and_can_leave_it(init):
    layer = make(init=init, d_state=16, dtype=torch.float32)
    assert (layer.ssm().Lambda.real == 0).all()
    layer(signal(dtype=torch.float32))[0].square().sum().backward()
    assert (layer.Lambda_re.grad != 0).all()
    torch.optim.SGD(param_groups(layer, lr=1e-3)).step()
    assert (layer.ssm().Lambda.real < 0).all()


def test_a_damping_that_crosses_0_stays_a_damping():
    layer = make()
    with torch.no_grad():
        layer.Lambda_re.fill_(-0.2)
    assert torch.equal(layer.ssm().Lambda.real, torch.full((3, 4), -0.2, dtype=torch.float64))
    layer.kernel(8)[:, -1].sum().backward()
    assert (layer.Lambda_re.grad != 0).all()


def test_the_real_part_can_be_an_exponential_which_starts_alike_and_is_never_0():
    layer, other = make(re_transform="exp"), make()
    torch.testing.assert_close(layer.kernel(40), other.kernel(40), rtol=0, atol=1e-13)
    assert layer.SSM_PARAMETERS == ("log_dt", "log_Lambda_re", "Lambda_im", "P", "B")
    for one in (layer, other):
        one.kernel(40).square().sum().backward()
    # x = log(-Re Lambda): dK/dx = dK/d(-Re Lambda) times -Re Lambda
    expected = other.Lambda_re.grad * other.Lambda_re.detach()
    torch.testing.assert_close(layer.log_Lambda_re.grad, expected, rtol=1e-11, atol=1e-13)
    with torch.no_grad():
        layer.log_Lambda_re.fill_(-60)
    assert (layer.ssm().Lambda.real < 0).all()
    with pytest.raises(ValueError, match="re_transform: expected abs with init 'fout', as exp has no Re"):
        make(init="fout", re_transform="exp")


def test_laguerre_parameters_reach_the_layer():
    layer = S4(3, 8, init="lagt", alpha=0.4, beta=1.5).double()
    for found, true in zip(layer.ssm()[:3], dplr("lagt", 8, alpha=0.4, beta=1.5), strict=False):
        torch.testing.assert_close(found, true.unsqueeze(-2).expand(found.shape), rtol=1e-6, atol=1e-6)
    assert S4Config(init="lagt", beta=1.5).build(3).beta == 1.5
    with pytest.raises(ValueError, match="alpha: expected none, as the initialisation 'legs' has no such parameter"):
        S4(3, 8, alpha=0.4)


@in_pairs(
    by="backend, init",
    backend=CPU_BACKENDS,
    init=INITS,
    dtype=[torch.float32, torch.float64],
    L=[1, 2, 1023, 1024],
    length=[None, 1024],
)
def test_gradients_are_finite(backend, init, dtype, L, length):
    layer = make(4, 64, init=init, dtype=dtype, length=length, dt_min=0.001, dt_max=0.1)
    u = signal(2, L, 4, dtype=dtype).requires_grad_()
    y, state = layer(u)
    (y.square().sum() + state.abs().square().sum()).backward()
    for name, parameter in [("u", u), *layer.named_parameters()]:
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.abs().max() > 0, name


def test_a_large_step_does_not_blow_up():
    layer = make(4, 16, dt_min=100.0, dt_max=1e4)
    y, state = layer(signal(1, 200, 4))
    close(y, truth(layer, signal(1, 200, 4))[0], 1e-8)
    assert torch.isfinite(torch.view_as_real(state)).all()


# Precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_y_has_the_dtype_of_u_and_the_state_stays_complex64(dtype):
    layer = S4(3, 8)
    u = signal(dtype=dtype)
    y, state = layer(u)
    y_t, state_t = layer.step(u[:, 0], layer.initial_state(2))
    y_more, _ = layer(u, state)
    assert (y.dtype, y_t.dtype, y_more.dtype) == (dtype, dtype, dtype)
    assert (state.dtype, state_t.dtype) == (torch.complex64, torch.complex64)
    exact, _ = layer(u.float())
    assert torch.equal(y, exact.to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_layer_in_half_precision_computes_in_float32(dtype):
    layer = make(dtype=torch.float32).to(dtype)
    same = copy.deepcopy(layer).float()
    u = signal(dtype=dtype)
    y, state = layer(u)
    y_true, state_true = same(u.float())
    assert y.dtype == dtype
    assert torch.equal(y, y_true.to(dtype))
    assert torch.equal(state, state_true)
    y.sum().backward()
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in layer.parameters())


def test_autocast_leaves_the_layer_in_float32():
    layer, u = make(dtype=torch.float32), signal(2, 40, dtype=torch.float32)
    y, state = layer(u)
    y_t, _ = layer.step(u[:, 0], state)
    with torch.autocast("cpu", torch.bfloat16):
        y_cast, state_cast = layer(u)
        y_t_cast, _ = layer.step(u[:, 0], state)
        K = layer.kernel(40)
        narrow, _ = layer(u.bfloat16())
        more, after = layer(u, state)
    assert torch.equal(y_cast, y)
    assert torch.equal(state_cast, state)
    assert torch.equal(y_t_cast, y_t)
    assert torch.equal(K, layer.kernel(40))
    assert torch.equal(more, layer(u, state)[0])
    assert narrow.dtype == torch.bfloat16
    assert (K.dtype, after.dtype, layer.initial_state(1).dtype) == (torch.float32, torch.complex64, torch.complex64)
    (narrow.float().sum() + more.sum()).backward()
    assert all(p.grad.dtype == torch.float32 and torch.isfinite(p.grad).all() for p in layer.parameters())


def test_inference_mode_gives_the_same():
    layer, u = make(), signal()
    y, state = layer(u)
    y_t, _ = layer.step(u[:, 0], state.detach())
    with torch.inference_mode():
        for value, true in zip(layer(u), (y, state), strict=True):
            assert torch.equal(value, true)
        assert error(layer.step(u[:, 0], state.detach())[0], y_t) < 1e-13  # the compiled step, which gradients rule out
    layer(u)[0].sum().backward()  # nothing made in inference mode was kept
    layer.step(u[:, 0].requires_grad_(), state)[0].sum().backward()
    with torch.no_grad():
        close(layer.step(u[:, 0], state)[0], y_t, 1e-14)


def test_a_layer_made_in_inference_mode_works_there():
    with torch.inference_mode():
        layer, u = make(), signal()
        y, state = layer(u)
        y_steps, state_steps = by_steps(layer, u)
        layer.log_dt.add_(0.1)
        changed, _ = by_steps(layer, u)
        close(changed, layer(u)[0])
    close(y_steps, y)
    close(state_steps, state)


# Seeds, copies, files


@pytest.mark.parametrize("options", [{}, {"length": 30}, {"bidirectional": True}, {"init": "legt", "n_ssm": 1}])
def test_the_same_seed_gives_the_same_bits(options):
    layers = [make(dtype=torch.float32, **options) for _ in range(2)]
    u = signal(2, 30, dtype=torch.float32)
    for layer in layers:
        layer(u)[0].square().sum().backward()
    for a, b in zip(*(layer.parameters() for layer in layers), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a.grad, b.grad)
    assert torch.equal(layers[0](u)[0], layers[1](u)[0])
    assert not torch.equal(layers[0].D, make(dtype=torch.float32, seed=1, **options).D)


@pytest.mark.parametrize("options", [{}, {"length": 30}, {"bidirectional": True}])
def test_a_state_dict_restores_the_layer(options):
    layer, other, u = make(**options), make(seed=7, **options), signal()
    assert not torch.equal(layer(u)[0], other(u)[0])
    other.load_state_dict(layer.state_dict())
    assert torch.equal(layer(u)[0], other(u)[0])
    assert layer.state_dict().keys() == dict(layer.named_parameters()).keys()


@pytest.mark.parametrize("options", [{}, {"length": 30}, {"bidirectional": True, "n_ssm": 1}])
def test_safetensors_restore_the_layer(options, tmp_path):
    layer, other, u = make(**options), make(seed=7, **options), signal()
    safetensors.torch.save_model(layer, str(tmp_path / "layer.safetensors"))
    safetensors.torch.load_model(other, str(tmp_path / "layer.safetensors"))
    assert torch.equal(layer(u)[0], other(u)[0])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_is_a_layer_of_its_own(duplicate):
    layer, u = make(), signal()
    with torch.no_grad():
        by_steps(layer, u)  # fills the cache
        other = duplicate(layer)
        assert torch.equal(layer(u)[0], other(u)[0])
        other.log_dt += 1
        y, y_other = by_steps(layer, u)[0], by_steps(other, u)[0]
        close(y, layer(u)[0])
        close(y_other, other(u)[0])
        assert (y - y_other).abs().max() > 1e-3


def test_c_that_was_solved_for_is_kept_until_a_parameter_changes_and_is_the_caller_s_own():
    layer, u = make(length=30), signal()
    with torch.no_grad():
        kept = layer.ssm().C
        assert layer._derived["C"][1].data_ptr() != kept.data_ptr()
        kept.zero_()  # changes nothing for the layer
        close(layer(u, layer.initial_state(len(u)))[0], by_steps(layer, u)[0])
        for name, parameter in layer.named_parameters():
            if name != "D":
                before = layer.ssm().C
                parameter.data.mul_(1.01)  # which leaves no trace in its version
                changed = (layer.ssm().C - before).abs().max() > 1e-6
                assert changed == (name != "B"), name  # C~ is that of A, dt and C
        close(layer(u)[0], by_steps(layer, u)[0])
    C = layer.ssm().C  # with a gradient it is solved for anew
    assert C.requires_grad
    close(C.detach(), layer._derived["C"][1])


# What dt is stored through


@pytest.mark.parametrize("options", [{}, {"length": 20, "n_ssm": 1}, {"bidirectional": True}])
def test_layers_of_one_seed_compute_the_same_whatever_dt_is_stored_through(options):
    """Both start from the same dt, so that kernel, outputs and the gradients of all but dt agree."""
    plain, soft, u = make(**options), make(dt_transform="softplus", **options), signal()
    close(soft.ssm().dt, plain.ssm().dt, 1e-14)
    close(soft.kernel(20), plain.kernel(20), 1e-11)
    for layer in (plain, soft):
        layer(u)[0].square().sum().backward()
    shared = [name for name, _ in plain.named_parameters() if name != "log_dt"]
    for name in shared:
        close(soft.get_parameter(name).grad, plain.get_parameter(name).grad, 1e-9)
    # d dt/d log dt = dt, and d dt/d x = sigmoid(x) = 1 - exp(-dt) where dt = softplus(x).
    dt = plain.ssm().dt
    close(soft.softplus_inverse_dt.grad / -torch.expm1(-dt), plain.log_dt.grad / dt, 1e-9)


def test_float32_keeps_the_smallest_steps_through_softplus():
    """The inverse is taken in float64: log(expm1(dt)) of a small dt would lose what float32 has of it."""
    plain, soft = (
        make(64, 2, dtype=torch.float32, dt_min=1e-4, dt_max=1e-3, dt_transform=transform)
        for transform in ("exp", "softplus")
    )
    close(soft.ssm().dt, plain.ssm().dt, 1e-5)


def test_a_parameter_is_named_for_what_it_holds_and_refused_under_another_transform():
    """An old checkpoint has log_dt, and loads as it did; it is never read as something else."""
    plain, soft = make(), make(dt_transform="softplus")
    assert set(plain.state_dict()) ^ set(soft.state_dict()) == {"log_dt", "softplus_inverse_dt"}
    with pytest.raises(RuntimeError, match=r'Missing key.*"softplus_inverse_dt"(.|\n)*Unexpected key.*"log_dt"'):
        soft.load_state_dict(plain.state_dict())


def test_torch_save_of_a_stepped_layer_is_as_small_as_a_fresh_one(tmp_path):
    layer = S4(64, 64)
    torch.save(layer, tmp_path / "fresh")
    with torch.no_grad():
        layer.step(torch.randn(1, 64), layer.initial_state(1))
    torch.save(layer, tmp_path / "stepped")
    assert (tmp_path / "stepped").stat().st_size < 1.1 * (tmp_path / "fresh").stat().st_size


# What a step derives from the parameters is never stale


def add(layer):
    with torch.no_grad():
        layer.get_parameter(*layer.DT_PARAMETERS).add_(0.5)


def add_to_data(layer):
    layer.get_parameter(*layer.DT_PARAMETERS).data.add_(0.5)


def optimise(layer):
    torch.manual_seed(3)
    for parameter in layer.parameters():
        parameter.grad = torch.randn_like(parameter)
    torch.optim.AdamW(param_groups(layer, lr=0.1, ssm_lr=0.1)).step()


def optimise_fused(layer):
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    torch.optim.AdamW(param_groups(layer, lr=0.1, ssm_lr=0.1), fused=True).step()


def load(layer):
    layer.load_state_dict(make(seed=11).state_dict())


def load_by_assignment(layer):
    layer.load_state_dict(make(seed=12).state_dict(), assign=True)


def replace_data(layer):
    layer.C.data = torch.randn_like(layer.C)


def replace_parameter(layer):
    layer.D = nn.Parameter(torch.randn_like(layer.D))


def to_vector_and_back(layer):
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(vector * 1.1, layer.parameters())


CHANGES = [add, add_to_data, optimise, optimise_fused, load, load_by_assignment, replace_data, replace_parameter]
CHANGES += [to_vector_and_back]


@pytest.mark.parametrize("change", CHANGES)
def test_a_step_is_never_stale(change):
    layer, u = make(), signal(2, 5)
    before = None
    for _ in range(3):  # more than once: a freed tensor's address may come back
        with torch.no_grad():
            y, _ = by_steps(layer, u)
            close(y, layer(u)[0])
        assert before is None or change in (load, load_by_assignment) or (y - before).abs().max() > 1e-6
        before = y
        change(layer)


@pytest.mark.parametrize("change", [change for change in CHANGES if change is not add_to_data])
def test_off_the_cpu_a_step_is_not_stale_and_reads_no_parameter(change, monkeypatch):
    """Nothing on the host tells that numbers were written to `p.data` in place."""
    monkeypatch.setattr(seen, "_can_read", lambda parameters: False)
    monkeypatch.setattr("longwave.ops.same", lambda *tensors: pytest.fail("the parameters were read"))
    layer, u, derived = make(), signal(2, 5), []
    constants = layer.step_constants
    monkeypatch.setattr(layer, "step_constants", lambda rate: derived.append(rate) or constants(rate))
    for turn in range(3):
        with torch.no_grad():
            for _ in range(2):
                close(by_steps(layer, u)[0], layer(u)[0])
        assert len(derived) == turn + 1
        change(layer)


def test_a_step_follows_a_change_of_precision():
    layer, u = make(dtype=torch.float32), signal(2, 5)
    with torch.no_grad():
        y, state = by_steps(layer, u.float())
        assert (y.dtype, state.dtype) == (torch.float32, torch.complex64)
        layer.double()
        y, state = by_steps(layer, u)
        assert (y.dtype, state.dtype) == (torch.float64, torch.complex128)
        close(y, layer(u)[0])
        layer.float()
        close(by_steps(layer, u.float())[0], layer(u.float())[0], 2e-5)


def test_a_step_at_many_rates_is_never_stale():
    layer, u = make(), signal(2, 4)
    with torch.no_grad():
        for _ in range(2):
            for rate in [0.5 + 0.1 * j for j in range(12)]:
                close(by_steps(layer, u, rate=rate)[0], layer(u, rate=rate)[0])
            layer.log_dt += 0.3


def test_a_step_with_gradients_after_one_without_has_gradients():
    layer, u = make(), signal(2, 6)
    with torch.no_grad():
        by_steps(layer, u)
    expected = gradients(layer(u)[0], list(layer.parameters()))
    for value, true in zip(gradients(by_steps(layer, u)[0], list(layer.parameters())), expected, strict=True):
        close(value, true, 1e-9)


def test_a_step_of_a_frozen_layer_passes_gradients_to_its_input_and_state():
    layer = make()
    layer.requires_grad_(False)
    u, state = signal(2, 1)[:, 0].requires_grad_(), random_state().requires_grad_()
    y, after = layer.step(u, state)
    du, dstate = torch.autograd.grad(y.sum() + after.abs().sum(), (u, state))
    u_true, state_true = u.detach().clone().requires_grad_(), state.detach().clone().requires_grad_()
    y, after = truth(layer, u_true.unsqueeze(1), state_true)
    true = torch.autograd.grad(y.sum() + after.abs().sum(), (u_true, state_true))
    close(du, true[0])
    close(dstate, true[1])


def test_a_step_changes_neither_its_state_nor_the_layer():
    layer, u, state = make(), signal(2, 1)[:, 0], random_state()
    kept, parameters = state.clone(), [p.clone() for p in layer.parameters()]
    layer.step(u, state)
    layer(u.unsqueeze(1), state)
    assert torch.equal(state, kept)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), parameters, strict=True))
    assert layer.state_dict().keys() == {*SSM, "C", "D"}


# A user's view


def test_a_layer_learns():
    """A shift by 5 steps, by gradient descent from the first seed."""
    torch.manual_seed(0)
    layer = S4(1, 16, dt_min=0.05, dt_max=0.2)
    optimiser = torch.optim.Adam(param_groups(layer, lr=0.01, ssm_lr=0.01))
    losses = []
    for _ in range(200):
        u = torch.randn(8, 40, 1)
        loss = (layer(u, need_state=False)[0][:, 5:] - u[:, :-5]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def test_the_printed_layer_shows_its_settings():
    shown = repr(S4(6, 16, init="legt", bidirectional=True, length=32, n_ssm=2))
    assert "d_model=6, d_state=16, init='legt', bidirectional=True, n_ssm=2, " in shown
    assert "length=32" in shown


@pytest.mark.parametrize("length", [None, 64])
def test_a_layer_is_built_on_the_default_device_whatever_was_built_before(length):
    """An initialisation is kept for later layers; from the meta device it would be kept without numbers."""
    with torch.device("meta"):
        layer = S4(4, 14, length=length)
    assert all(p.is_meta for p in layer.parameters())
    layer = S4(4, 14, length=length)
    assert all(p.device.type == "cpu" and p.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("length", [None, 20])
def test_kept_constants_give_the_same_chunks(length):
    """To rounding, for any chunk up to the longest; other lengths and rates are refused."""
    layer = S4(4, 6, length=length).double()
    u = torch.randn(2, 200, 4, dtype=torch.float64)
    kept = layer.chunk_constants(150, rate=1.3)
    _, state = layer(u[:, :9], rate=1.3)
    for L in (1, 2, 63, 64, 65, 150):
        expected, after = layer(u[:, 9 : 9 + L], state, rate=1.3)
        y, kept_after = layer(u[:, 9 : 9 + L], state, rate=1.3, constants=kept)
        torch.testing.assert_close(y, expected, rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(kept_after, after, rtol=1e-10, atol=1e-12)
    for L, rate in ((151, 1.3), (5, 1.0)):
        with pytest.raises(ValueError, match=r"^constants: made for up to 150 steps and the rate 1.3, got"):
            layer(u[:, :L], state, rate=rate, constants=kept)
    with pytest.raises(ValueError, match="chunk_constants: a bidirectional layer has no state"):
        S4(4, 6, bidirectional=True).chunk_constants(10)
