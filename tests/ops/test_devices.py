"""Off the CPU: no call waits for the device, memory is bounded, and calls are few.

The meta device stands for a GPU here: its tensors have no values, so that whatever reads one on the host raises.
"""

import pytest
import torch
from dense import error, random_system
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import longwave
from longwave.layers import make_mixer
from longwave.layers.discretised import fixed_parameters
from longwave.models import SequenceModel
from longwave.models.recurrence import Recurrence
from longwave.ops import backend as choice
from longwave.ops import checks, reference
from longwave.ops.table import OPS
from longwave.ssm import algebra, kernel

H, M, T = 3, 4, 8
SIZES = {"batch": 2, "L": 40, "H": H, "M": M, "N": 2 * M, "D": 1, "T": T, "r": 1, "out": 5, "2": 2, "2H": 2 * H}
SIZES |= {"N|1": 2 * M, "2M": 2 * M, "L//2+1": 21}
OPTIONS = {"L": 40, "nodes": "all", "rule": "zoh", "count": 5, "transposed": False, "T": T, "every": 4, "keep": True}


@pytest.fixture(autouse=True)
def _on_the_reference(monkeypatch):
    monkeypatch.setenv(choice.VARIABLE, "reference")


# Nothing waits for the device


@pytest.mark.parametrize("name", OPS)
def test_an_op_of_the_reference_and_its_gradients_read_nothing_on_the_host(name):
    op, functions = OPS[name], {**reference.__dict__}
    given = [_empty(axes, op, i) for i, axes in enumerate(op.tensors.values())]
    options = [OPTIONS[option] for option in op.forward.names[len(given) :]]
    results = functions[name](*given, *options)
    results = results if isinstance(results, tuple) else (results,)
    known = dict(zip((*op.forward.names, *op.results), (*given, *options, *results), strict=True))
    known |= {"grad": torch.empty_like(results[0])} | dict.fromkeys((op.flags or {}).values(), True)
    gradients = functions[f"{name}_backward"](*[known[argument] for argument in op.backward.names])
    gradients = [gradients] if isinstance(gradients, Tensor) else gradients
    assert len(gradients) == len(op.wanted(known))
    assert all(t.is_meta for t in (*results, *gradients))


def _empty(axes, op, place):
    shape, dtype = [SIZES[axis] for axis in axes.split()], op.forward._stated[place].dtype or op.dtypes[0]
    return torch.empty(shape, dtype=dtype, device="meta")


@pytest.mark.parametrize("layer", [longwave.S4, longwave.S4D, lambda *sizes: longwave.S4(*sizes, length=30)])
def test_a_layer_trains_goes_on_from_a_state_and_steps_without_waiting(layer):
    layer, u = layer(4, 8).to("meta"), torch.empty(2, 300, 4, device="meta", requires_grad=True)
    y, state = layer(u)
    again, state = layer(u, state)
    (y.sum() + again.sum() + state.abs().sum()).backward()
    assert all(p.grad is not None for p in layer.parameters())
    with torch.no_grad():
        y, state = layer.step(u[:, 0], state)
    assert y.shape == (2, 4)


@pytest.mark.parametrize("name", ["s4", "s4d", "lssl"])
def test_a_second_step_computes_what_a_step_with_fixed_parameters_does(name):
    """It derives nothing, and compares no parameters."""
    layer, u = make_mixer(name, 4).to("meta").requires_grad_(False), torch.empty(2, 4, device="meta")
    _, state = layer.step(u)
    with Called() as again:
        layer.step(u, state)
    with fixed_parameters({}):
        layer.step(u, state)
        with Called() as fixed:
            layer.step(u, state)
    assert again.names == fixed.names
    assert not {"equal", "eq", "all", "_local_scalar_dense", "is_nonzero"} & set(again.names)


def test_an_output_map_is_kept_without_waiting():
    layer, u = longwave.S4(4, 8, length=30).to("meta").requires_grad_(False), torch.empty(2, 20, 4, device="meta")
    calls = []
    for _ in range(3):
        with Called() as called:
            layer(u, layer.initial_state(2))
        calls.append("linalg_lu_factor_ex" in called.names or "_linalg_solve_ex" in called.names)
    assert calls == [True, False, False]


class Called(TorchDispatchMode):
    """The names of torch's kernels that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._schema.name.split("::")[1])
        return function(*args, **(kwargs or {}))


def test_a_recurrence_derives_its_constants_once_and_looks_at_no_parameters(monkeypatch):
    model = SequenceModel(input_size=2, output_size=3, d_model=4, n_layers=2, decoder="sequence").eval()
    x, calls = torch.randn(5, 2, 2), []
    with torch.no_grad():
        state, expected = model.initial_state(2), []
        for x_t in x:
            y, state = model.step(x_t, state)
            expected.append(y)
    monkeypatch.setattr("longwave.ops.same", lambda *tensors: pytest.fail("the parameters were compared"))
    derive = longwave.S4.step_constants
    monkeypatch.setattr(longwave.S4, "step_constants", lambda *given: calls.append(1) or derive(*given))
    steps = Recurrence(model, 2)
    assert not steps.is_compiled
    calls.clear()
    assert all(torch.equal(steps(x_t), y) for x_t, y in zip(x, expected, strict=True))
    assert len(calls) == 2  # once per layer


def test_a_recurrence_sees_weights_that_changed_before_it_was_made(monkeypatch):
    model = SequenceModel(input_size=2, output_size=3, d_model=4, n_layers=1, decoder="sequence").eval()
    x = torch.randn(2, 2)
    before = Recurrence(model, 2)(x)
    with torch.no_grad():
        model.blocks[0].mixer.C.data.mul_(3)
        fresh, _ = model.step(x, model.initial_state(2))
    assert torch.equal(Recurrence(model, 2)(x), fresh)
    assert not torch.equal(before, fresh)


# The same numbers in another order of work


def test_one_solve_for_all_features_is_that_of_each():
    A = torch.randn(5, 8, 8, dtype=torch.float64) + 4 * torch.eye(8, dtype=torch.float64)
    b = torch.randn(5, 8, 2, dtype=torch.float64)
    assert error(kernel._solved_at_once(A, b), kernel._solved_one_by_one(A, b)) < 1e-13


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize(("limit", "groups"), [(1, 7), (10_000, 4), (20_000, 2)])
def test_a_convolution_in_groups_of_features_is_that_of_all_at_once(sides, limit, groups, monkeypatch):
    u, dy = torch.randn(2, 2, 50, 7, dtype=torch.float64)
    K, D = torch.randn(sides, 7, 50, dtype=torch.float64), torch.randn(7, dtype=torch.float64)
    whole = [reference.convolve(u, K, D), *reference.convolve_backward(dy, u, K, D)]
    monkeypatch.setattr(reference, "CONVOLUTION_BYTES", limit)
    assert len(reference._groups(u, 3)) == groups
    parts = [reference.convolve(u, K, D), *reference.convolve_backward(dy, u, K, D)]
    assert max(error(part, all_) for part, all_ in zip(parts, whole, strict=True)) < 1e-13


def test_the_groups_of_a_convolution_cover_all_features_within_the_bound(monkeypatch):
    u = torch.empty(16, 16384, 256, device="meta")
    for limit in (1, 1 << 26, 1 << 30, 1 << 40):
        monkeypatch.setattr(reference, "CONVOLUTION_BYTES", limit)
        groups = reference._groups(u, 5)
        assert [h for group in groups for h in range(256)[group]] == list(range(256))
        widest = max(group.stop - group.start for group in groups)
        assert widest == 1 or widest * 5 * 16 * 32768 * 4 <= limit


@pytest.mark.parametrize("L", [1, 2, 3, 12, 37, 64])
def test_the_truncation_and_its_gradients_are_those_of_plain_powers(L):
    system = random_system(2, 3, 1, maps=2)
    E = algebra.minus_identity(*(torch.view_as_real(t) for t in (system.Lambda, system.P)), system.dt)
    E, rows = E.detach().requires_grad_(), torch.randn(2, 2, 6, dtype=torch.float64, requires_grad=True)
    found = algebra._ChangeOfRows.apply(E, rows, L)
    truth = rows @ torch.linalg.matrix_power(torch.eye(6, dtype=torch.float64) + E, L) - rows
    assert error(found, truth) < 1e-12
    grad = torch.randn_like(truth)
    for value, true in zip(*(torch.autograd.grad(t, (E, rows), grad) for t in (found, truth)), strict=True):
        assert error(value, true) < 1e-12
    assert torch.autograd.gradgradcheck(lambda E, rows: algebra._ChangeOfRows.apply(E, rows, L), (E, rows))


# Devices without double precision


def test_a_device_without_float64_is_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(choice, "has_float64", lambda device: False)
    with pytest.raises(ValueError, match=r"device: expected one with float64, .* got meta; use device='cpu'"):
        choice.function("spectrum", torch.empty(1, device="meta"))


def test_apples_devices_have_no_float64():
    assert not checks.has_float64(torch.device("mps"))
    assert checks.has_float64(torch.device("cuda", 1))
