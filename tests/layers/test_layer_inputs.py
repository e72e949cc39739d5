"""Tensors of another device, dtype or layout, with bits set or strided, in every mixer, block and model."""

import pytest
import torch
from mixer_settings import known, sequence_config
from pairwise import in_one_case
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_flatten, tree_map_only

from longwave import generate
from longwave.layers import MIXERS, Block, make_mixer
from longwave.models import Recurrence, SequenceModel

pytestmark = pytest.mark.usefixtures("unchecked")

H, L = 16, 6
every_mixer = pytest.mark.parametrize("name", MIXERS)
SETTINGS = {"d_state": 6, "heads": 2, "features": 8}
ELSEWHERE = r"expected .*on (cpu|meta), where .*parameters are, got .* on (cpu|meta); (call \w+\.to|move )"


def mixer(name):
    return make_mixer(name, H, **known(name, **SETTINGS)).requires_grad_(False)


def block(name, **options):
    layer = mixer(name)
    return Block(layer, H, mix_features=not getattr(layer, "mixes_features", False), **options).requires_grad_(False)


def model(name="s4", **options):
    kind = {"decoder": "mean", "input_size": 3, "output_size": 2} | options
    config = sequence_config(name, SETTINGS, d_model=H, n_layers=2, **kind)
    return SequenceModel(config).eval().requires_grad_(False)


MODULES = {f"mixer {name}": (mixer, name) for name in MIXERS}
MODULES |= {f"{kind.__name__} {name}": (kind, name) for kind in (block, model) for name in ("s4", "attention", "gru")}
every_module = pytest.mark.parametrize("what", MODULES)


def make(what):
    """A module and a signal for it."""
    kind, name = MODULES[what]
    return kind(name), torch.randn(2, L, 3 if kind is model else H)


def tensors(state):
    return [part for part in tree_flatten(state)[0] if isinstance(part, torch.Tensor)]


def with_tensors(state, change):
    return tree_map_only(torch.Tensor, change, state)


def spread(t):
    """The same numbers with others between them."""
    return torch.stack((t, t), dim=-1)[..., 0]


def negated(t):
    """The same numbers, negated twice, once by the bit."""
    return torch._neg_view(-t) if t.is_floating_point() or t.is_complex() else t


def conjugated(t):
    """The same numbers, conjugated twice, once by the bit."""
    return t.conj().resolve_conj().conj() if t.is_complex() else t


def same(results, expected):
    """But for the last digits: strides may lead torch another way."""
    for a, b in zip(tensors(results), tensors(expected), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


# Devices


@every_module
def test_an_input_on_another_device_is_refused(what):
    module, u = make(what)
    state = module(u, need_state=True)[1]
    with pytest.raises(ValueError, match=rf"^[ux]: {ELSEWHERE}"):
        module(u.to("meta"))
    with pytest.raises(ValueError, match=rf"^[ux]: {ELSEWHERE}"):
        module.step(u[:, 0].to("meta"), state)


@every_module
def test_a_module_on_another_device_is_refused(what):
    module, u = make(what)
    state = module(u, need_state=True)[1]
    module.step(u[:, 0], state)  # what is kept of the parameters is no reason to take the step
    module.to("meta")
    with pytest.raises(ValueError, match=rf"^[ux]: {ELSEWHERE}"):
        module(u)
    with pytest.raises(ValueError, match=rf"^[ux]: {ELSEWHERE}"):
        module.step(u[:, 0], state)


@every_module
def test_a_state_on_another_device_is_refused(what):
    module, u = make(what)
    state = with_tensors(module(u, need_state=True)[1], lambda t: t.to("meta"))
    with pytest.raises(ValueError, match=f"^state: {ELSEWHERE}"):
        module(u, state)
    with pytest.raises(ValueError, match=f"^state: {ELSEWHERE}"):
        module.step(u[:, 0], state)


@every_module
def test_a_module_and_an_input_without_numbers_give_shapes(what):
    module, u = make(what)
    expected, after = module(u, need_state=True)
    expected_step, _ = module.step(u[:, 0], after)
    module.to("meta")
    y, state = module(u.to("meta"), need_state=True)
    for _ in range(2):
        y_step, state = module.step(u[:, 0].to("meta"), state)
    assert y.is_meta
    assert y_step.is_meta
    assert (y.shape, y_step.shape) == (expected.shape, expected_step.shape)
    assert [t.shape for t in tensors(state)] == [t.shape for t in tensors(after)]


@every_module
def test_lengths_without_numbers_are_refused(what):
    module, u = make(what)
    with pytest.raises(ValueError, match=r"^lengths: expected numbers, got torch\.int64 \(2,\) on meta"):
        module(u, lengths=torch.ones(2, dtype=torch.int64, device="meta"))


@pytest.mark.parametrize("name", ["s4", "s4d", "lssl"])
def test_a_step_can_be_traced_with_tensors_that_have_no_memory(name):
    layer, u = mixer(name), torch.randn(2, H)
    state = layer.initial_state(2)
    expected = layer.step(u, state)
    fresh = mixer(name)
    for traced in (layer, fresh):
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            for _ in range(2):
                y, _ = traced.step(mode.from_tensor(u), mode.from_tensor(state))
        assert y.shape == u.shape
    same(layer.step(u, state), expected)
    same(fresh.step(u, state)[0], fresh(u.unsqueeze(1))[0][:, 0])  # nothing of the trace was kept
    with FakeTensorMode(allow_non_fake_inputs=True):
        layer = mixer(name)
        for _ in range(2):
            y, _ = layer.step(torch.zeros(2, H), layer.initial_state(2))
        assert y.shape == u.shape


# Bits and strides


@every_module
@in_one_case(change=[negated, conjugated, spread])
def test_bits_and_strides_change_nothing(what, change):
    module, u = make(what)
    state = module(u, need_state=True)[1]
    expected, expected_step = module(u, state, need_state=True), module.step(u[:, 0], state)
    other = with_tensors(state, change)
    for given in ((change(u), state), (u, other), (change(u), other)):
        same(module(*given, need_state=True), expected)
        same(module.step(given[0][:, 0], given[1]), expected_step)


@pytest.mark.parametrize("name", ["s4", "s4d", "lssl"])
def test_a_parameter_may_be_negated_by_its_bit(name):
    """What is kept for the steps does not stay behind: the bytes of the parameters are what they were."""
    layer, u = mixer(name), torch.randn(2, 1, H)
    before = layer.step(u[:, 0], layer.initial_state(2))[0]
    for parameter in (layer.B, layer.D):
        parameter.data = torch._neg_view(parameter.data)
    for _ in range(2):
        y = layer.step(u[:, 0], layer.initial_state(2))[0]
        same(y, layer(u)[0][:, 0])
    assert (y - before).abs().max() > 0.1


# Dtypes and layouts


@every_module
def test_another_layout_is_refused(what):
    module, u = make(what)
    state = module(u, need_state=True)[1]
    if not what.startswith("block"):  # whose norm is torch's own
        for call in (lambda: module(u.to_sparse()), lambda: module.step(u[:, 0].to_sparse(), state)):
            with pytest.raises(ValueError, match=r"^[ux]: expected a strided tensor, got .*sparse.*; call .\.to_dense"):
                call()
    if what.startswith("mixer"):
        with pytest.raises(ValueError, match=r"^state: expected a strided tensor, got .*sparse"):
            module.step(u[:, 0], with_tensors(state, lambda t: t.to_sparse()))


@every_mixer
@in_one_case(dtype=[torch.int32, torch.bool, torch.complex64, torch.float32])
def test_a_state_of_another_dtype_is_refused(name, dtype):
    layer, u = mixer(name), torch.randn(2, H)
    kept = torch.complex64 if name in ("s4", "s4d") else torch.float32
    if dtype == kept:
        return
    state = with_tensors(layer.initial_state(2), lambda t: torch.zeros_like(t, dtype=dtype))
    for call in (lambda: layer.step(u, state), lambda: layer(u.unsqueeze(1), state)):
        with pytest.raises(
            ValueError, match=r"^state: expected .* as returned by initial_state or an earlier call, got"
        ):
            call()


@pytest.mark.parametrize("vocabulary", [0, 7])
def test_a_model_refuses_what_are_no_tokens_or_no_numbers(vocabulary):
    net = model(vocabulary=vocabulary)
    shape = (2, L) if vocabulary else (2, L, 3)
    expected = "whole numbers, the tokens" if vocabulary else "floating-point numbers"
    for dtype in (torch.bool, torch.complex64, torch.float32 if vocabulary else torch.int64):
        x = torch.zeros(shape, dtype=dtype)
        for call in (lambda x=x: net(x), lambda x=x: net.step(x[:, 0], net.initial_state(2))):
            with pytest.raises(ValueError, match=rf"^x: expected {expected}, got {dtype} \(2, {L}|^x: .*{dtype}"):
                call()


@every_module
@in_one_case(empty=[0, 1])
def test_an_empty_input_is_refused(what, empty):
    module, u = make(what)
    with pytest.raises(ValueError, match=r"^u: expected at least one row and one step"):
        module(u.narrow(empty, 0, 0))
    with pytest.raises(ValueError, match=r"^u: expected at least one row and one step"):
        module.step(u[:0, 0], module.initial_state(2))


# Models and their steps


TOKENS = {"decoder": "sequence", "vocabulary": 7, "output_size": 7}


@pytest.mark.parametrize("name", ["s4", "attention"])
def test_the_steps_of_a_model_refuse_other_devices(name):
    net = model(name)
    steps, x = Recurrence(net, 2), torch.randn(2, 3)
    steps(x)
    with pytest.raises(ValueError, match=f"^x: {ELSEWHERE}"):
        steps(x.to("meta"))
    state = net.step(x, net.initial_state(2))[1]
    blocks, ends = with_tensors(state, lambda t: t.to("meta"))
    for given in ((blocks, state[1]), (state[0], ends)):
        with pytest.raises(ValueError, match=f"^state: {ELSEWHERE}"):
            Recurrence(net, 2, given)(x)
    net.to("meta")
    with pytest.raises(ValueError, match=f"^[ux]: {ELSEWHERE}"):
        Recurrence(net, 2)(x)


@pytest.mark.parametrize("name", ["s4", "attention"])
@pytest.mark.parametrize("change", [negated, conjugated, spread], ids=lambda change: change.__name__)
def test_bits_and_strides_change_no_step_of_a_model(name, change):
    net, x = model(name), torch.randn(2, 3)
    state = net.step(x, net.initial_state(2))[1]
    expected = Recurrence(net, 2, state)(x)
    same(Recurrence(net, 2, with_tensors(state, change))(change(x)), expected)


def test_a_model_of_tokens_refuses_other_devices():
    net, tokens = model(**TOKENS), torch.zeros(2, L, dtype=torch.long)
    with pytest.raises(ValueError, match=f"^x: {ELSEWHERE}"):
        net(tokens.to("meta"))
    with pytest.raises(ValueError, match=f"^x: {ELSEWHERE}"):
        Recurrence(net, 2)(tokens[:, 0].to("meta"))
    with pytest.raises(ValueError, match=r"^prompt: expected numbers, got tensors on the meta device"):
        generate(net, tokens.to("meta"), 2)
    net.to("meta")
    with pytest.raises(ValueError, match=f"^x: {ELSEWHERE}"):
        net(tokens)
    with pytest.raises(ValueError, match=r"^model: expected numbers, got tensors on the meta device"):
        generate(net, tokens, 2)


def test_features_of_time_on_another_device_are_refused():
    net, x, time = model(time_size=4), torch.randn(2, L, 3), torch.randn(2, L, 4)
    for lengths in (None, [2, L]):
        with pytest.raises(ValueError, match=f"^time: {ELSEWHERE}"):
            net(x, time=time.to("meta"), lengths=lengths)


def test_weights_that_are_fetched_when_a_layer_is_called_are_no_reason_to_refuse():
    """As those of an offloaded model are: on the meta device until then."""
    layer, u = mixer("attention"), torch.randn(2, L, H)
    expected = layer(u, need_state=False)[0]
    project, weights = layer.heads.project, layer.heads.project.state_dict()
    project.to("meta")
    project.forward = lambda x: torch.nn.functional.linear(x, weights["weight"], weights["bias"])
    same(layer(u, need_state=False)[0], expected)
