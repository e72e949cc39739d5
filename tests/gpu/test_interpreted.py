"""The kernels of the backend `triton`, run by Triton's interpreter on the CPU: values and gradients.

In a process of its own, with TRITON_INTERPRET=1 (`make test-gpu`). The interpreter takes seconds for what a GPU does in
microseconds: most cases have N 8 and L up to 300. What it cannot show is said in docs/gpu.md.
"""

import math
import os

import pytest
import torch
from dense import System, dense_kernel, error, gradients, hippo_system, log_uniform, random_system

pytest.importorskip("triton", reason="Triton is not installed: make test-gpu")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("runs with TRITON_INTERPRET=1: make test-gpu", allow_module_level=True)

import longwave
from longwave import ops
from longwave.ops import BACKENDS, dplr_kernel, reference
from longwave.ops import backend as choice
from longwave.ops.gpu import spectrum as launcher
from longwave.ops.gpu import step
from longwave.ssm import dplr, dplr_step

SINGLE, DOUBLE = torch.float32, torch.float64
BOUNDS = {SINGLE: (2e-6, 1e-5), DOUBLE: (1e-10, 1e-10)}  # of values and of gradients, over the largest number
INITS = ("legs", "legt", "lagt", "fout", "random-nplr")


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "triton")


def check(system, L, dtype):
    """Kernel and gradients against dense matrices in float64, from the same rounded numbers."""
    rounded = system.to(SINGLE)
    exact, given = rounded.to(DOUBLE).leaves(), rounded.to(dtype).leaves()
    K, truth = dplr_kernel(*given, L), dense_kernel(exact, L)
    value_bound, gradient_bound = BOUNDS[dtype]
    assert error(K, truth) < value_bound
    found, expected = gradients(K, given), gradients(truth, exact)
    for name, value, true in zip(System._fields, found, expected, strict=True):
        assert error(value, true) < gradient_bound, name
    assert ((found[-1] - expected[-1]).abs() / _contributions(exact, expected)).max() < gradient_bound


@torch.no_grad()
def _contributions(system, expected):
    """The absolute values of what each feature's gradient of dt adds up, in sum.

    K is dt times a function of Lambda dt and P sqrt(dt), and linear in C. So dt times the derivative by dt is
    <C, dC> + <Lambda, dLambda> + <P, dP> / 2, numbers of both signs.
    """
    Lambda, P, _, C = (
        torch.view_as_real(v) * torch.view_as_real(d) for v, d in zip(system[:4], expected, strict=False)
    )
    return (C.sum((-1, -2)).abs() + Lambda.abs().sum((-1, -2)) + P.abs().sum((0, -1, -2)) / 2) / system.dt


# The kernel and its gradients


def test_the_backend_is_interpreted_here():
    assert ops.backend_name() == "triton"
    assert "interpreted" in BACKENDS["triton"].description()
    assert choice.find("spectrum", "cpu", SINGLE) is BACKENDS["triton"]
    assert choice.find("spectrum", "cpu", torch.bfloat16) is BACKENDS["reference"]


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(("init", "L"), [*zip(INITS, (300, 65, 64, 65, 33), strict=True), ("legt", 299), ("legs", 2)])
def test_kernels_and_gradients_of_the_initialisations(init, L, dtype):
    check(hippo_system(init, 8, log_uniform(2, seed=L)), L, dtype)


@pytest.mark.parametrize("init", ["legt", "fout"])
def test_kernels_and_gradients_of_the_papers_size(init, monkeypatch):
    """N 64 and L 1,023. With all nodes in one program the interpreter takes seconds for it, not minutes."""
    monkeypatch.setattr(launcher, "NODES", 512)
    check(hippo_system(init, 64, log_uniform(3, seed=1023)), 1023, SINGLE)


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(("rank", "maps", "L"), [(0, 1, 40), (0, 2, 1), (1, 1, 1), (1, 2, 41), (2, 1, 40), (2, 2, 2)])
def test_every_rank_and_both_directions_agree_with_the_reference(rank, maps, L, dtype):
    system = random_system(3, 3, rank, maps=maps, seed=rank)
    C = system.C if maps == 2 else system.C.unsqueeze(0)
    given = [torch.view_as_real(t) for t in (system.Lambda, system.P, system.B, C)] + [system.dt]
    given = [t.to(dtype) for t in given]
    exact = [t.double() for t in given]
    truth = reference.spectrum(*exact, L)
    assert error(launcher.spectrum(*given, L), truth) < BOUNDS[dtype][0]
    grad = torch.randn(truth.shape, dtype=dtype)
    for value, true in zip(
        launcher.spectrum_backward(grad, *given, L),
        reference.spectrum_backward(grad.double(), *exact, L),
        strict=True,
    ):
        assert value.dtype == dtype
        assert value.shape == true.shape
        if true.numel():  # there is no P of rank 0
            # Where L is 1, the spectrum does not depend on dt: its gradient is rounding.
            assert (value - true).abs().max() < BOUNDS[dtype][1] * max(1, true.abs().max())


def hits(init, L, off=0.0):
    """Steps at which a node falls on an undamped pole."""
    poles = dplr(init, 8)[0].imag[:2]
    return 2 * math.tan(math.pi * 5 / L) / poles * (1 + off)


@pytest.mark.parametrize("off", [0.0, 1e-7, 1e-5])
@pytest.mark.parametrize("init", ["legt", "lagt", "fout"])
def test_a_node_on_an_undamped_pole_costs_nothing(init, off):
    check(hippo_system(init, 8, hits(init, 64, off)), 64, SINGLE)


@pytest.mark.parametrize("distance", [0.0, 1e-7, 1e-5, 1e-3, 1.9e-2, 2.5e-2])
def test_two_undamped_poles_close_to_each_other(distance):
    """By the float64 instance up to a distance: on both sides of it the bounds hold. Of two features one has twins."""
    system = hippo_system("legt", 8, hits("legt", 64)[:1].repeat(2))
    Lambda = system.Lambda.clone()
    Lambda[0, 1] = Lambda[0, 0] * (1 + distance)
    check(system._replace(Lambda=Lambda), 64, SINGLE)


def test_twins_are_computed_in_float64_and_others_are_not():
    system = hippo_system("legt", 8, [0.05, 0.05, 1e-9])
    Lambda = torch.view_as_real(system.Lambda).clone()
    Lambda[0, 1] = Lambda[0, 0] * (1 + 1e-5)
    given = [
        t.float() for t in (Lambda, *map(torch.view_as_real, (system.P, system.B, system.C.unsqueeze(0))), system.dt)
    ]
    shared = launcher.System.of(*given, 64)
    launcher.run(shared.flagging(), Lambda.device)
    assert shared.flags.tolist() == [1, 0, 1]
    damped = [hippo_system("legs", N, log_uniform(1)) for N in (64, 256)]
    for system in damped:
        given = [torch.view_as_real(t).float() for t in (system.Lambda, system.P, system.B, system.C.unsqueeze(0))]
        shared = launcher.System.of(*given, system.dt.float(), 64)
        launcher.run(shared.flagging(), Lambda.device)
        assert shared.flags.tolist() == [0]


@pytest.mark.parametrize("dt", [1e-12, 1e-9, 1e-7])
def test_tiny_steps(dt):
    given = hippo_system("legs", 8, [dt]).to(SINGLE)
    C = given.C.unsqueeze(0)
    given = [*map(torch.view_as_real, (given.Lambda, given.P, given.B, C)), given.dt]
    exact = [t.double() for t in given]
    truth, grad = reference.spectrum(*exact, 64), torch.randn(1, 1, 33, 2)
    assert error(launcher.spectrum(*given, 64), truth) < 2e-6
    expected = reference.spectrum_backward(grad.double(), *exact, 64)
    for value, true in zip(launcher.spectrum_backward(grad, *given, 64), expected, strict=True):
        assert error(value, true) < 1e-5


def test_a_pole_that_nothing_couples_or_damps_gives_finite_numbers():
    Lambda, zero = torch.tensor([[[0.0, 1.0], [0.0, -3.0]]]), torch.zeros(1, 1, 2, 2)
    dt = torch.tensor([2 * math.tan(math.pi / 4)])  # node L/2 of L, on the first pole
    given = (Lambda, zero, torch.ones(1, 2, 2), torch.ones(1, 1, 2, 2), dt)
    values = [launcher.spectrum(*given, 8), *launcher.spectrum_backward(torch.ones(1, 1, 5, 2), *given, 8)]
    assert all(torch.isfinite(value).all() for value in values)


def test_few_features_at_a_time_give_the_same_bits(monkeypatch):
    system = random_system(3, 2, 2, maps=2).to(SINGLE)
    given = [*map(torch.view_as_real, (system.Lambda, system.P, system.B, system.C)), system.dt]
    grad = torch.randn(2, 3, 11, 2)
    whole = launcher.spectrum_backward(grad, *given, 20)
    monkeypatch.setattr(launcher, "PARTIAL_BYTES", 1)
    for value, true in zip(launcher.spectrum_backward(grad, *given, 20), whole, strict=True):
        assert torch.equal(value, true)


def test_strides_and_repeated_calls_change_no_bit():
    system = random_system(3, 3, 1).to(SINGLE)
    given = [*map(torch.view_as_real, (system.Lambda, system.P, system.B, system.C.unsqueeze(0))), system.dt]
    spread = [torch.stack((t, t), dim=-1)[..., 0] for t in given]
    assert not spread[0].is_contiguous()
    first = launcher.spectrum(*given, 33)
    assert torch.equal(launcher.spectrum(*spread, 33), first)
    assert torch.equal(launcher.spectrum(*given, 33), first)


def test_a_layer_trains_by_the_kernels_as_by_the_reference(monkeypatch):
    layer, u = longwave.S4(3, 8, bidirectional=True), torch.randn(2, 50, 3)
    found = {}
    for name in ("triton", "reference"):
        monkeypatch.setenv(choice.VARIABLE, name)
        layer.zero_grad()
        y, _ = layer(u)
        y.square().sum().backward()
        found[name] = [y.detach(), *(p.grad.clone() for p in layer.parameters())]
    for value, true in zip(*found.values(), strict=True):
        assert error(value, true) < 1e-5


# A step


@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=str)
@pytest.mark.parametrize(
    ("init", "batch", "d_state"), [("legs", 1, 2), ("legt", 7, 6), ("s4d-lin", 3, 8), ("legs", 130, 64)]
)
def test_a_step_is_that_of_the_recurrence(init, batch, d_state, dtype):
    kind = longwave.S4D if init.startswith("s4d") else longwave.S4
    layer = kind(3, d_state, init=init).to(dtype)
    u, state = torch.randn(batch, 3, dtype=dtype), torch.randn(batch, 3, d_state // 2, dtype=dtype.to_complex())
    with torch.no_grad():
        discrete, C, D = layer.step_constants()[:3]
        y, after = ops.layer_steps(discrete, C, D)(u, state)
        truth = dplr_step(discrete, state, u)
        expected = 2 * (C.real * truth.real - C.imag * truth.imag).sum(-1) + D * u
        bound = 1e-6 if dtype == SINGLE else 1e-14
        assert error(torch.view_as_real(after), torch.view_as_real(truth)) < bound
        assert error(y, expected) < 10 * bound
        for value, true in zip(layer.step(u, state), (y, after), strict=True):
            assert torch.equal(value, true)


def test_a_step_leaves_the_state_it_was_given_and_refuses_others():
    layer, u = longwave.S4(3, 4), torch.randn(2, 3)
    with torch.no_grad():
        steps, state = ops.layer_steps(*layer.step_constants()[:3]), layer.initial_state(2) + 1j
        before = state.clone()
        steps(u, state.conj())
        assert torch.equal(state, before)
        for wrong in (state[:, :2], state.to(torch.complex128), state[:1]):
            with pytest.raises(ValueError, match=r"^state: expected torch\.complex64 \(2, 3, 2\) on cpu, got"):
                steps(u, wrong)
        with pytest.raises(ValueError, match=r"^u: expected torch\.float32 \(2, 3\) on cpu, got"):
            steps(u[:, :2], state)


def test_a_state_that_no_program_can_hold_has_no_step(monkeypatch):
    monkeypatch.setattr(step, "MOST_PAIRS", 1)
    layer = longwave.S4(3, 4)
    with torch.no_grad():
        assert ops.layer_steps(*layer.step_constants()[:3]) is None
        layer.step(torch.randn(2, 3))
