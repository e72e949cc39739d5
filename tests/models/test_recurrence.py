"""A model's steps with fixed weights: those of `model.step`, whoever takes them."""

import copy
import itertools

import pytest
import torch
from mixer_settings import sequence_config
from pairwise import in_one_case, in_pairs

from longwave.models import Recurrence, SequenceModel
from longwave.ops.cpu import library
from longwave.ops.cpu.step_weights import whole_numbers

TOKENS = {"decoder": "sequence", "vocabulary": 7, "output_size": 7}
KINDS = {
    "layer norm": {},
    "batch norm": {"norm": "batch"},
    "scalar norm": {"norm": "scalar"},
    "feed-forward, scalar norm after": {"feed_forward": 32, "norm": "scalar", "prenorm": False},
    "norm after": {"prenorm": False},
    "without glu": {"glu": False},
    "an odd number of panels": {"glu": False, "d_model": 48},
    "feed-forward": {"feed_forward": 80},
    "feed-forward, batch norm after": {"feed_forward": 32, "norm": "batch", "prenorm": False},
    "two mixers and a feed-forward": {"feed_forward": 80, "mixers_per_block": 2},
    "adaptive softmax": {"vocabulary": 9, "output_size": 9, "cutoffs": (4, 7)},
    "legt": {"init": "legt"},
    "s4d": {"mixer": "s4d"},
    "shared systems": {"n_ssm": 2},
    "truncated": {"length": 9},
    "softplus": {"dt_transform": "softplus"},
    "dropout everywhere": {"dropout": 0.5, "dropout_after": ("mixer", "activation", "linear")},
    "few states": {"d_state": 6},
    "one vector of states": {"d_state": 16},
    "mean of numbers": {"decoder": "mean", "vocabulary": 0, "input_size": 3, "output_size": 2},
    "last of numbers": {"decoder": "last", "vocabulary": 0, "input_size": 3, "output_size": 2},
}


def make(**settings):
    """A model in evaluation, with weights and statistics that no part of it could do without."""
    model = SequenceModel(sequence_config(small={}, **{"d_model": 32, "n_layers": 2, **TOKENS, **settings})).eval()
    with torch.no_grad():
        for name, tensor in itertools.chain(model.named_parameters(), model.named_buffers()):
            if "norm" in name:
                tensor.uniform_(0.5, 2)
    return model


def inputs(model, batch, steps):
    if model.config.vocabulary:
        return torch.randint(model.config.vocabulary, (steps, batch))
    return torch.randn(steps, batch, model.config.input_size)


def by_steps(model, x, state):
    outputs = []
    for one in x:
        y, state = model.step(one, state)
        outputs.append(y)
    return torch.stack(outputs), state


def differ(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_the_compiled_steps_are_the_models(compiled, monkeypatch, kind):
    """At each width of vectors that this CPU has, of rows in groups, pairs and alone."""
    model, widths = make(**KINDS[kind]), [bits for bits in (128, 256, 512) if bits <= library.vector_bits()]
    for bits, batch in itertools.product(widths, (1, 2, 11)):
        monkeypatch.setattr(library, "vector_bits", lambda bits=bits: bits)
        x = inputs(model, batch, 5)
        expected, after = by_steps(model, x, model.initial_state(batch))
        steps = Recurrence(model, batch)
        assert steps.is_compiled
        assert differ(torch.stack([steps(one) for one in x]), expected) < 1e-5
        for now, then in zip(steps.state[0], after[0], strict=True):
            assert differ(now, then) < 1e-5


@in_pairs(
    by="kind",
    kind=["layer norm", "feed-forward", "feed-forward, batch norm after"],
    batch=[1, 2, 3, 40, 101],
    threads=[1, 2, 3],
)
@torch.no_grad()
def test_threads_that_share_rows_or_features_change_nothing(compiled, kind, batch, threads):
    model = make(**{"d_model": 128, **KINDS[kind]})  # wide enough for threads that do not wait to be found out
    x = inputs(model, batch, 3)
    expected, _ = by_steps(model, x, model.initial_state(batch))
    torch.set_num_threads(threads)
    steps = Recurrence(model, batch)
    assert differ(torch.stack([steps(one) for one in x]), expected) < 1e-5


@torch.no_grad()
def test_so_do_more_threads_than_rows_that_fit_side_by_side(compiled):
    model = make(n_layers=1)
    x = inputs(model, 33, 2)
    expected, _ = by_steps(model, x, model.initial_state(33))
    torch.set_num_threads(34)
    steps = Recurrence(model, 33)
    assert differ(torch.stack([steps(one) for one in x]), expected) < 1e-5


@pytest.mark.parametrize("rate", [1.0, 0.5])
@torch.no_grad()
def test_steps_go_on_where_the_convolution_left_off(backend, rate):
    model = make()
    x = inputs(model, 3, 12)
    whole, _ = model(x.mT, rate=rate)
    _, state = model(x[:8].mT, need_state=True, rate=rate)
    before = copy.deepcopy(state)
    steps = Recurrence(model, 3, state, rate=rate)
    assert differ(torch.stack([steps(one) for one in x[8:]], dim=1), whole[:, 8:]) < 1e-4
    assert all(torch.equal(a, b) for a, b in zip(state[0], before[0], strict=True))  # the caller's own stays as it was


@torch.no_grad()
def test_the_weights_are_those_of_the_beginning(compiled):
    model = make()
    x = inputs(model, 2, 3)
    expected, _ = by_steps(model, x, model.initial_state(2))
    steps = Recurrence(model, 2)
    for parameter in model.blocks.parameters():
        parameter.fill_(torch.nan)
    assert differ(torch.stack([steps(one) for one in x]), expected) < 1e-5


class Subclass(SequenceModel):
    def step(self, x, state, **options):
        y, state = super().step(x, state, **options)
        return y + 1, state


def patch_forward(model):
    whole = model.decoder.forward
    model.decoder.forward = lambda *given, **named: whole(*given, **named)


def replace(module, name, other):
    setattr(module, name, other)


# What may be done to a model (with layer norm and a feed-forward sublayer) before it takes steps.
NOT_COMPILED = {
    "double": lambda model: model.double(),
    "a hook": lambda model: model.blocks[1].register_forward_hook(lambda *_: None),
    "a patched method": patch_forward,
    "dropout left on": lambda model: model.blocks[0].dropout.train(),
    "another linear layer": lambda model: replace(
        model.blocks[0], "linear", torch.nn.Sequential(model.blocks[0].linear)
    ),
    "a linear layer without bias": lambda model: replace(
        model.blocks[1].feed_forward, "0", torch.nn.Linear(32, 16, bias=False).eval()
    ),
    "another GELU": lambda model: replace(model.blocks[0].feed_forward, "1", torch.nn.GELU("tanh").eval()),
    "another norm": lambda model: replace(model.blocks[0].norm, "bias", None),
    "another dropout": lambda model: replace(model.blocks[1].feed_forward, "2", torch.nn.Dropout(0.5).eval()),
    "a subclass with its own step": lambda model: replace(model, "__class__", Subclass),
    "no blocks": lambda model: replace(model, "blocks", torch.nn.ModuleList()),
}


@pytest.mark.parametrize("change", NOT_COMPILED)
def test_what_the_library_does_not_know_goes_by_the_models_own_step(compiled, change):
    model = make(feed_forward=16)
    NOT_COMPILED[change](model)
    check_plain(model)


@torch.no_grad()
def test_the_input_stays_as_it_was(compiled):
    model = make(vocabulary=0, input_size=32)
    model.encoder.values = torch.nn.Identity().eval()
    x = torch.randn(2, 32)
    before = x.clone()
    steps = Recurrence(model, 2)
    assert steps.is_compiled
    steps(x)
    assert torch.equal(x, before)


@pytest.mark.parametrize("settings", [{"mixer": "attention"}, {"mixer": "gru"}, {"d_model": 18}], ids=str)
def test_so_do_other_mixers_and_odd_widths(compiled, settings):
    check_plain(make(**settings))


@torch.no_grad()
def check_plain(model):
    x = inputs(model, 2, 4)
    steps = Recurrence(model, 2)
    assert not steps.is_compiled
    expected, _ = by_steps(model, x, model.initial_state(2))
    assert torch.equal(torch.stack([steps(one) for one in x]), expected)


def test_wrong_rows_and_states_are_refused(compiled):
    model = make()
    for shape in ((3,), (2, 3)):
        with pytest.raises(ValueError, match="x: expected 2 rows of tokens, as the state has, got"):
            Recurrence(model, 2)(torch.zeros(shape, dtype=torch.long))
    with pytest.raises(ValueError, match="forecast_by_steps"):
        Recurrence(make(decoder="forecast", horizon=3, vocabulary=0, output_size=1), 2)
    with pytest.raises(ValueError, match="state"):
        Recurrence(model, 2, model.initial_state(3))
    with pytest.raises(ValueError, match="rate"):
        Recurrence(model, 2, rate=0.0)
    with pytest.raises(ValueError, match="batch"):
        Recurrence(model, 0)


ERRORS = {"float32": 1e-5, "bfloat16": 1e-5, "float16": 1e-5, "int8": 1e-3}  # int8: inputs have 14 bits


@pytest.mark.parametrize("kind", ["feed-forward", "without glu", "adaptive softmax", "s4d"])
@torch.no_grad()
@in_one_case(weights=ERRORS)
def test_weights_in_fewer_bytes_are_those_of_a_model_that_has_them_rounded(compiled, kind, weights):
    """The model itself stays as it is; states, too, and what a state goes on from."""
    model = make(**KINDS[kind])
    x = inputs(model, 3, 8)
    steps = Recurrence(model, 3, weights=weights)
    outputs = torch.stack([steps(one) for one in x])
    plain, _ = by_steps(model, x, model.initial_state(3))
    assert (weights == "float32") == (differ(outputs, plain) < 1e-5)
    round_products(model, weights)
    expected, after = by_steps(model, x, model.initial_state(3))
    assert differ(outputs, expected) < ERRORS[weights]
    for now, then in zip(steps.states, after[0], strict=True):
        assert differ(now, then) < ERRORS[weights]


def round_products(model, weights):
    """Round the weights of a model's linear layers, but for what encodes its input."""
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    found = [module.weight for module in linear if module is not model.encoder.values]
    if model.config.cutoffs:
        found += [model.decoder.projection]
        embedding = model.decoder.embedding  # whose vectors are those of the softmax, too
        model.encoder.values = copy.deepcopy(embedding)
        found += list(embedding.vectors)
        for projection in embedding.projections:
            projection.copy_(rounded(projection.T, weights).T)
    for weight in found:
        weight.copy_(rounded(weight, weights))


def rounded(weight, weights):
    if weights == "int8":
        scale, whole = whole_numbers(weight)
        return whole * scale.unsqueeze(1)
    return weight.to(getattr(torch, weights)).float()


@pytest.mark.parametrize("settings", [{"mixer": "attention"}, {"d_model": 18}, {"decoder": "mean"}], ids=str)
def test_weights_in_fewer_bytes_are_refused_where_nothing_is_compiled(compiled, settings):
    model = make(**settings)
    with pytest.raises(ValueError, match=r"^(weights: int8 needs the compiled steps|decoder: expected an output at)"):
        Recurrence(model, 2, weights="int8")
    with pytest.raises(ValueError, match=r"^weights: "):
        Recurrence(model, 2, weights="int4")


def test_no_gradient_is_kept():
    model = make()
    assert not Recurrence(model, 2)(torch.zeros(2, dtype=torch.long)).requires_grad
