"""Off the CPU: no call waits for the device, memory is bounded, and calls are few.

The meta device stands for a GPU here: its tensors have no values, so that whatever reads one on the host raises.
"""

from functools import partial
from types import SimpleNamespace

import pytest
import torch
from dense import error, random_system
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import longwave
from longwave.layers import make_mixer
from longwave.layers.discretised import fixed_parameters
from longwave.models import SequenceModel
from longwave.models.recurrence import Recurrence
from longwave.ops import BACKENDS, reference, registration
from longwave.ops import backend as choice
from longwave.ops.table import OPS
from longwave.ssm import algebra, kernel, precision

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


@pytest.fixture
def disguised(monkeypatch):
    """The meta device says that it is a GPU: nothing is left out because its tensors have no values."""
    monkeypatch.setattr(Tensor, "is_meta", property(lambda t: False))
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda t: t.device.type == "meta"))
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda *device: False)  # the meta device has none


HEADS = {"mean": {}, "last": {}, "sequence": {}, "forecast": {"horizon": 5}}
HEADS |= {f"forecast {window}": {"horizon": 5, "window": window} for window in ("last", "standard")}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("mixer", ["s4", "s4d", "lssl"])
def test_a_model_trains_and_goes_on_without_waiting(mixer, head, disguised):
    """Nothing is read, nothing is copied from the host."""
    sizes = {"input_size": 3, "output_size": 3, "d_model": 4, "n_layers": 2}
    model = SequenceModel(**sizes, mixer=mixer, decoder=head.split()[0], dropout=0.1, **HEADS[head]).to("meta")
    x, goes_on = torch.empty(2, 40, 3, device="meta"), not head.startswith("forecast")
    for lengths in (None, torch.empty(2, dtype=torch.int64, device="meta")):
        model.zero_grad()
        with Called() as called:
            y, state = model(x, lengths=lengths, need_state=goes_on)
            y.sum().backward()
            if goes_on:
                model(x, state, lengths=lengths, need_state=True)
                model.eval().step(x[:, 0], state)
        assert all(p.grad is not None for p in model.parameters())
        assert not called.moved
        assert ("_assert_async" in called.names) == (lengths is not None)


def test_rows_at_irregular_times_are_taken_without_waiting(disguised):
    layer, u = longwave.S4D(4, 8).to("meta"), torch.empty(1, 40, 4, device="meta")
    _, state = layer(u, gaps=torch.empty(1, 40, device="meta"))
    layer(u, state, gaps=torch.empty(1, 40, device="meta"))[0].sum().backward()
    with torch.no_grad():
        layer.step(u[:, 0], state, gap=torch.empty(1, device="meta"))


class Called(TorchDispatchMode):
    """The names of torch's kernels that are called, and of those that copied something from or to the host."""

    def __init__(self):
        super().__init__()
        self.names, self.moved = [], []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._schema.name.split("::")[1])
        found = function(*args, **(kwargs or {}))
        devices = {t.device for t in tree_leaves((args, kwargs, found)) if isinstance(t, Tensor) and t.ndim}
        self.moved += self.names[-1:] if len(devices) > 1 else []
        return found


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


class WithoutFloat64(TorchDispatchMode):
    """The meta device as one without double precision, where the ops of longwave run as on a device with values."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "longwave":
            name = function._schema.name.split("::")[1]
            run = registration._run_backward if name.endswith("_backward") else registration._run
            args += tuple(argument.default_value for argument in function._schema.arguments[len(args) :])
            with self:
                return run(OPS[name.removesuffix("_backward")], *args)
        found = function(*args, **(kwargs or {}))
        if any(isinstance(t, Tensor) and t.is_meta and t.dtype in WIDE for t in tree_leaves(found)):
            raise TypeError("the device has no float64")
        return found


WIDE = (torch.float64, torch.complex128)
REFUSED = r"^device: expected one with float64, .* got meta; use device='cpu' \(--device cpu\)$"
LAYERS = {
    "s4": {},
    "s4 of a length": {"length": 30},
    "s4 pq": {"low_rank": "pq"},
    "s4 legt": {"init": "legt"},
    "s4 two-sided": {"bidirectional": True},
    "s4d": {},
    "s4d bilinear": {"rule": "bilinear"},
    "lssl": {},
    "lssl diagonal": {"structure": "diagonal", "init": "gaussian"},
    "attention": {"heads": 2},
}


@pytest.fixture
def without_float64(monkeypatch):
    monkeypatch.setattr(precision, "has_float64", lambda device: device.type != "meta")
    with WithoutFloat64():
        yield


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "s4 two-sided"])
def test_a_layer_steps_in_float32_or_is_refused_where_there_is_no_float64(name, without_float64):
    layer, u = make_mixer(name.split()[0], 4, **LAYERS[name]).to("meta"), torch.empty(2, 4, device="meta")
    with torch.no_grad():
        if name in ("s4 of a length", "attention"):
            with pytest.raises(ValueError, match=REFUSED):
                layer.step(u)
        else:
            y, state = layer.step(u)
            y, _ = layer.step(u, state)
            assert (y.shape, y.dtype) == ((2, 4), torch.float32)


@pytest.mark.parametrize("need_state", [True, False])
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_trains_in_float32_or_is_refused_where_there_is_no_float64(name, need_state, without_float64):
    layer, u = make_mixer(name.split()[0], 4, **LAYERS[name]).to("meta"), torch.empty(2, 30, 4, device="meta")
    if name.startswith("lssl") and not need_state:
        layer(u, need_state=False)[0].sum().backward()
        assert all(p.grad.dtype == torch.float32 for p in layer.parameters())
    else:
        with pytest.raises(ValueError, match=REFUSED):
            layer(u, need_state=need_state)


@pytest.mark.parametrize("what", ["chunk_constants", "states", "gaps", "state"])
def test_states_and_gaps_are_refused_where_there_is_no_float64(what, without_float64):
    layer, u = longwave.S4D(4, 8).to("meta"), torch.empty(2, 30, 4, device="meta")
    calls = {
        "chunk_constants": lambda: layer.chunk_constants(30),
        "states": lambda: layer.states(u),
        "gaps": lambda: layer(u, gaps=torch.empty(2, 30, device="meta")),
        "state": lambda: layer(u, layer.initial_state(2)),
    }
    with pytest.raises(ValueError, match=REFUSED):
        calls[what]()


@pytest.mark.parametrize("name", ["s4", "s4 legt", "s4 two-sided", "s4d"])
def test_a_backend_of_a_device_without_float64_serves_it(name, without_float64, monkeypatch):
    """What it lacks goes to the reference, in float32: the transforms."""
    monkeypatch.delenv(choice.VARIABLE)
    functions = {}
    for op in ("spectrum", "truncate", "power_sum"):
        functions[op] = partial(registration._fake, OPS[op])
        functions[f"{op}_backward"] = partial(registration._fake_backward, OPS[op])
    BACKENDS.register("toy")(choice.Backend("toy", functions, description=str, devices=("meta",)))
    try:
        layer, u = make_mixer(name.split()[0], 4, **LAYERS[name]).to("meta"), torch.empty(2, 30, 4, device="meta")
        layer(u, need_state=False)[0].sum().backward()
        assert all(p.grad.dtype == torch.float32 for p in layer.parameters())
    finally:
        BACKENDS.unregister("toy")


def test_devices_of_apple_and_some_of_intel_have_no_float64(monkeypatch):
    assert not precision.has_float64(torch.device("mps"))
    assert precision.has_float64(torch.device("cuda", 1))
    monkeypatch.setattr(torch.xpu, "is_available", lambda: True)
    for has in (True, False):
        monkeypatch.setattr(torch.xpu, "get_device_properties", lambda device, has=has: SimpleNamespace(has_fp64=has))
        assert precision.has_float64(torch.device("xpu")) is has
