"""The U-Net: causal at every step, and the same model whole, in chunks, by steps and compiled."""

import dataclasses
import itertools

import pytest
import torch
from pairwise import in_pairs

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.layers import MIXERS
from longwave.models import Recurrence, Spec, UNet, UNetConfig, load_model
from longwave.models.unet_levels import DownPool, UpPool
from longwave.ops.cpu import library

GROUP = 48  # steps that the centre of the paper's poolings sees as one
KINDS = {
    "paper": {"n_layers": 2},
    "one pool": {"poolings": (2,), "centre_feed_forward": True},
    "none at a level": {"poolings": (2, 1), "feed_forward": 0},
    "audio": {"poolings": (4, 2), "skips": "stages", "n_layers": 2, "glu": False, "norm": "scalar"},
}


def make(dtype=torch.float64, **settings):
    """A small U-Net in evaluation, whose weights no part could do without."""
    torch.manual_seed(0)
    mixer = settings.pop("mixer", longwave.S4Config(d_state=4))
    small = {"d_model": 4, "n_layers": 1, "vocabulary": 7, "output_size": 5, "mixer": mixer, **settings}
    model = UNet(**small).to(dtype).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" in name.split(".")[-2]:
                tensor.uniform_(0.5, 2)
    return model


def tokens(batch, length, seed=1):
    return torch.randint(7, (batch, length), generator=torch.Generator().manual_seed(seed))


def by_steps(model, x, state=None):
    outputs = []
    for k in range(x.shape[1]):
        y, state = model.step(x[:, k], state)
        outputs.append(y)
    return torch.stack(outputs, dim=1), state


def flat(state):
    if isinstance(state, torch.Tensor):
        return [state]
    return [tensor for part in state or () for tensor in flat(part)]


def assert_same_state(a, b, **tolerance):
    for one, other in zip(flat(a), flat(b), strict=True):
        torch.testing.assert_close(one, other, **tolerance)


def differ(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


# One model, however it is computed


@torch.no_grad()
def test_an_output_depends_on_no_later_input():
    """For every step of two groups of the centre: a change from t on moves the output at t, and none before."""
    model = make()
    x = tokens(1, 2 * GROUP)
    changed = x.repeat(2 * GROUP, 1)
    for t in range(2 * GROUP):
        changed[t, t:] = (changed[t, t:] + 1) % 7
    before, after = model(x)[0][0], model(changed)[0]
    for t in range(2 * GROUP):
        # Rounding of the FFT, over a whole row: outputs are about 1.
        torch.testing.assert_close(after[t, :t], before[:t], atol=1e-12, rtol=0)
        assert (after[t, t] - before[t]).abs().max() > 1e-6


@torch.no_grad()
def test_the_past_reaches_the_output_through_every_level():
    """An input changes outputs of later groups, by way of the pools alone, once the mixers have no memory."""
    model = make()
    for block in model.modules():
        if isinstance(block, longwave.S4):
            block.C.zero_()
    x = tokens(1, 3 * GROUP)
    other = x.clone()
    other[:, 0] = (other[:, 0] + 1) % 7
    moved = (model(x)[0] - model(other)[0])[0].abs().amax(-1) > 1e-9
    # The step itself; then each pool on the way up moves things on by a group of its own: 3 steps, 12 and 3, 48 and 15.
    expected = torch.zeros(3 * GROUP, dtype=torch.bool)
    for first, last in ((0, 1), (3, 6), (15, 27), (63, 111)):
        expected[first:last] = True
    torch.testing.assert_close(moved, expected)


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_steps_chunks_and_the_whole_agree(kind):
    model = make(length=37, **KINDS[kind])
    x = tokens(2, 2 * model.group + 5)
    whole, last = model(x, need_state=True)
    stepped, state = by_steps(model, x)
    torch.testing.assert_close(stepped, whole, atol=1e-10, rtol=0)  # measured 2e-14
    assert_same_state(state, last, atol=1e-10, rtol=0)
    parts, state, sizes = [], None, [1, 2, 1, 3]
    for part in x.split([*sizes, x.shape[1] - sum(sizes)], dim=1):
        y, state = model(part, state, need_state=True)
        parts.append(y)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-10, rtol=0)
    assert_same_state(state, last, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("poolings", "every"), [((3, 2), 1), ((3, 4, 4), 7)])
@torch.no_grad()
def test_a_prompt_of_any_length_is_gone_on_from_by_steps(poolings, every):
    """Of the paper's poolings one length in seven, which comes by every place in a group."""
    model = make(poolings=poolings, feed_forward=0)
    x = tokens(1, 2 * model.group + 4)
    whole, _ = model(x)
    for prompt in range(1, 2 * model.group + 2, every):
        y, state = model(x[:, :prompt], need_state=True)
        rest, _ = by_steps(model, x[:, prompt : prompt + 2], state)
        torch.testing.assert_close(torch.cat((y, rest), dim=1), whole[:, : prompt + 2], atol=1e-10, rtol=0)


@pytest.mark.parametrize("length", [1, 2, GROUP - 1, GROUP + 1])
def test_a_length_that_fills_no_group_is_that_of_padding_cut_off(length):
    """With the gradients."""
    model, x = make(), tokens(2, length)
    padded = torch.nn.functional.pad(x, (0, -length % GROUP))
    direction = torch.randn(2, length, 5, dtype=torch.float64)
    found = []
    for given in (x, padded):
        y = model(given)[0][:, :length]
        found.append((y, *torch.autograd.grad((y * direction).sum(), list(model.parameters()), allow_unused=True)))
    for one, other in zip(*found, strict=True):
        if one is not None:  # short sequences complete no group, and their pools are not asked
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(("batch", "norm"), [(1, "layer"), (3, "layer"), (1, "scalar")])
@torch.no_grad()
def test_float32_and_compiled_steps_agree_with_the_whole(backend, batch, norm):
    model = make(torch.float32, d_model=16, mixer=longwave.S4Config(d_state=16), norm=norm)
    x = tokens(batch, GROUP + 20)
    whole, _ = model(x)
    _, state = model(x[:, :13], need_state=True)
    kept = [tensor.clone() for tensor in flat(state)]
    steps = Recurrence(model, batch, state)
    assert steps.is_compiled == (backend == "native")
    outputs = torch.stack([steps(x[:, k]) for k in range(13, x.shape[1])], dim=1)
    # Outputs are about 1; measured 1.2e-6.
    torch.testing.assert_close(outputs, whole[:, 13:], atol=2e-5, rtol=0)
    for now, then in zip(flat(state), kept, strict=True):
        assert torch.equal(now, then)  # the state that was given stays as it was


COMPILED = {
    "paper": {"n_layers": 2, "d_model": 16},
    "a pool of one": {"poolings": (2, 1), "feed_forward": 0, "d_model": 32, "widening": 1},
    "audio": {"poolings": (4, 2), "skips": "stages", "n_layers": 2, "glu": False, "norm": "scalar", "d_model": 16},
}


def float32(kind, **settings):
    return make(torch.float32, mixer=longwave.S4Config(d_state=16), **{**COMPILED[kind], **settings})


@pytest.mark.parametrize("kind", COMPILED)
@torch.no_grad()
def test_the_compiled_steps_are_the_models(compiled, monkeypatch, kind):
    """With all states, from any place in the groups, at each width of vectors; of rows in groups, pairs and alone."""
    model, widths = float32(kind), [bits for bits in (128, 256, 512) if bits <= library.vector_bits()]
    for bits, batch in itertools.product(widths, (1, 2, 11)):
        monkeypatch.setattr(library, "vector_bits", lambda bits=bits: bits)
        x = tokens(batch, model.group + 5)
        _, begin = model(x[:, :3], need_state=True)
        steps = Recurrence(model, batch, begin)
        assert steps.is_compiled
        state = begin
        for k in range(3, x.shape[1]):
            expected, state = model.step(x[:, k], state)
            assert differ(steps(x[:, k]), expected) < 1e-5
            assert int(steps.states[0]) == int(state[0][0])
        for now, then in zip(flat(steps.state), flat(state), strict=True):
            torch.testing.assert_close(now, then, atol=1e-5, rtol=1e-5)


@in_pairs(by="kind", kind=list(COMPILED), batch=[1, 2, 40], threads=[1, 2, 3])
@torch.no_grad()
def test_threads_that_share_rows_or_features_change_nothing(compiled, kind, batch, threads):
    model = float32(kind, n_layers=1)
    x = tokens(batch, model.group + 2)
    expected = model(x)[0]
    torch.set_num_threads(threads)
    steps = Recurrence(model, batch)
    outputs = torch.stack([steps(x[:, k]) for k in range(x.shape[1])], dim=1)
    assert differ(outputs, expected) < 2e-5


@pytest.mark.parametrize("change", ["another layer", "a hook", "double", "an odd width", "another step"])
@torch.no_grad()
def test_what_the_library_does_not_know_goes_by_the_models_own_step(compiled, change):
    model = float32("paper", n_layers=1, **({"d_model": 18} if change == "an odd width" else {}))
    if change == "another layer":
        model.levels.up[1].widen = torch.nn.Sequential(model.levels.up[1].widen)
    if change == "a hook":
        model.levels.pool.register_forward_hook(lambda *_: None)
    if change == "another step":
        model.__class__ = type("Other", (UNet,), {"step": lambda self, *given, **named: UNet.step(self, *given)})
    model = (model.double() if change == "double" else model).eval()
    steps = Recurrence(model, 2)
    assert not steps.is_compiled
    assert torch.equal(steps(tokens(2, 1)[:, 0]), model.step(tokens(2, 1)[:, 0])[0])


def test_compiled_steps_refuse_states_that_do_not_fit(compiled):
    model = float32("paper", n_layers=1)
    for wrong, name in ((model.initial_state(3), "state"), (model.double().initial_state(2), None)):
        steps = Recurrence(model.float(), 2, wrong)
        if name is None:  # other numbers are converted
            steps(tokens(2, 1)[:, 0])
            continue
        with pytest.raises(ValueError, match=rf"^{name}: expected torch\.complex64 \(2, 16, 8\)"):
            steps(tokens(2, 1)[:, 0])
    state = model.initial_state(2)
    state[0][0].fill_(-1)  # no place in a group, which must not be a place in memory either
    Recurrence(model, 2, state)(tokens(2, 1)[:, 0])


@pytest.mark.parametrize("kind", [kind for kind in MIXERS if MIXERS[kind]().is_causal])
@torch.no_grad()
def test_every_causal_mixer_serves(kind):
    model = make(mixer=MIXERS[kind](), d_model=8, poolings=(2, 2))
    x = tokens(2, 11)
    whole, _ = model(x)
    # Float64 throughout; measured 1e-13 at most.
    torch.testing.assert_close(by_steps(model, x)[0], whole, atol=1e-9, rtol=0)


@torch.no_grad()
def test_a_stream_gives_what_the_whole_gives_and_its_state_can_be_saved(tmp_path):
    model = make(torch.float32)
    x = tokens(1, 260)
    whole, _ = model(x)
    live = longwave.stream(model)
    outputs = [live.push(x[:, :5]), live.push(x[:, 5:120])]
    live.save(tmp_path / "state.safetensors")
    again = longwave.stream(model).load(tmp_path / "state.safetensors")
    outputs.append(again.push(x[:, 120:]))
    torch.testing.assert_close(torch.cat(outputs, dim=1), whole, atol=2e-5, rtol=0)
    torch.testing.assert_close(live.push(x[:, 120:]), outputs[-1])


# Its parts


def test_the_first_group_comes_up_as_zeros_and_later_ones_a_group_late():
    torch.manual_seed(0)
    pool, low = UpPool(3, 4, 2), torch.randn(1, 2, 4)
    z, waiting = pool(low, torch.zeros(1, 3, 2), 0, 8)
    assert torch.equal(z[:, :3], torch.zeros(1, 3, 2))
    for group in range(2):
        for offset in range(3):
            for feature in range(2):
                expected = pool.linear(low)[0, group, feature * 3 + offset]
                found = torch.cat((z, waiting[:, -1:]), dim=1)[0, 3 * (group + 1) + offset, feature]
                torch.testing.assert_close(found, expected)


def test_a_group_is_read_feature_by_feature():
    torch.manual_seed(0)
    pool, z = DownPool(3, 2, 4), torch.randn(1, 7, 2)
    low, begun = pool(z, None, 0)
    vector = torch.stack([z[0, 3 + offset, feature] for feature in range(2) for offset in range(3)])
    torch.testing.assert_close(low[0, 1], pool.linear(vector))
    assert torch.equal(begun, torch.stack((z[:, 6], torch.zeros(1, 2)), dim=1))


def test_the_linear_layers_of_pools_are_weight_normalised():
    linear = make().levels.pool.linear
    g, v = linear.parametrizations.weight.original0, linear.parametrizations.weight.original1
    assert g.shape == (8, 1)
    torch.testing.assert_close(linear.weight, g * v / v.norm(dim=1, keepdim=True))


@pytest.mark.parametrize(
    ("name", "count", "millions", "with_centre"),
    [("cifar-density", 61_363_072, 61.3, 94.9), ("cifar-density-large", 254_507_200, 254.3, 405.4)],
)
def test_the_paper_s_models_have_as_many_parameters_as_were_worked_out(name, count, millions, with_centre):
    """With a vocabulary of 769, 256 classes, and state spaces that are not shared.

    The authors' first code had norms of two numbers each, but for the last: then it is 61.3 and 254.3 million.
    """
    spec = Spec(1, 256, vocabulary=769, length=3072, decoders=("sequence",), is_causal=True)
    config = EXPERIMENTS[name].model.resolve(spec)
    assert size(config) == count
    scalar = dataclasses.replace(config, norm="scalar")
    assert round(size(scalar) / 1e6, 1) == millions
    assert round(size(dataclasses.replace(scalar, centre_feed_forward=True)) / 1e6, 1) == with_centre


def size(config):
    """Parameters of the model of some settings."""
    with torch.device("meta"):
        return sum(p.numel() for p in config.build().parameters())


@torch.no_grad()
def test_skips_around_stages_are_those_of_the_audio_models_of_the_authors():
    """Down by pools alone; the centre and each way up add their own input, and a pool's input what comes up to it.

    With 64 features, 8 layers, poolings 4 and 4, and norms of two numbers there are 4.1 million parameters.
    """
    model = make(poolings=(2, 2), skips="stages", feed_forward=0)
    x = tokens(1, 8)
    z0 = model.encoder(x)
    top, low = model.levels, model.levels.below
    z1 = top.pool(z0, None, 0)[0]
    z2 = low.pool(z1, None, 0)[0]
    centre = low.below.layers[0](z2)[0] + z2
    up1 = low.unpool(centre, torch.zeros(1, 2, 8, dtype=torch.float64), 0, 4)[0] + z1
    up1 = low.up[0](up1)[0] + up1
    up0 = top.unpool(up1, torch.zeros(1, 2, 4, dtype=torch.float64), 0, 8)[0] + z0
    up0 = top.up[0](up0)[0] + up0
    torch.testing.assert_close(model(x)[0], model.decoder.linear(model.norm(up0)))
    large = EXPERIMENTS["sc09-waveform"].model.resolve(Spec(1, 256, vocabulary=256, length=16_000))
    assert size(dataclasses.replace(large, norm="scalar")) == 4_059_360


def test_each_level_has_an_output_map_of_its_own_length():
    model = make(length=3072)
    lengths = [layer.length for layer in model.modules() if isinstance(layer, longwave.S4)]
    assert lengths == [3072, 1024, 256, 64, 256, 1024, 3072]


# What a model owes its callers


def test_it_is_saved_and_loaded(tmp_path):
    model, x = make(torch.float32, length=96), tokens(1, 10)
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path).eval()
    assert again.config == model.config
    assert torch.equal(again(x)[0], model(x)[0])


@torch.no_grad()
def test_padding_changes_no_output_before_it():
    model = make(vocabulary=0, input_size=2)
    x = torch.randn(2, 20, 2, dtype=torch.float64)
    padded = x.clone()
    padded[0, 13:] = torch.nan
    y, _ = model(padded, lengths=torch.tensor([13, 20]))
    torch.testing.assert_close(y[0, :13], model(x[:1, :13])[0][0], atol=1e-12, rtol=0)
    torch.testing.assert_close(y[1], model(x[1:])[0][0], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"poolings": ()}, "poolings: expected at least one pooling, such as 4 4, got none"),
        ({"poolings": (3, 0)}, "poolings: expected a whole number, at least 1, got 0"),
        ({"n_layers": 0}, "n_layers: expected a whole number, at least 1, got 0"),
        ({"skips": "none"}, "skips: expected one of layers, stages, got 'none'"),
        ({"norm": "batch"}, "norm: expected one of layer, scalar, got 'batch'"),
        ({"feed_forward": -1}, "feed_forward: expected at least 0, got -1"),
        ({"mixer": longwave.S4Config(bidirectional=True)}, "mixer: a UNet needs a causal one"),
    ],
)
def test_settings_that_make_no_model_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        UNet(**settings)


def test_what_it_cannot_do_is_refused():
    config = UNetConfig()
    with pytest.raises(ValueError, match="a UNet has an output at every step, and this task needs mean or last"):
        config.resolve(Spec(1, 10, decoders=("mean", "last")))
    with pytest.raises(ValueError, match="this task needs a forecast"):
        config.resolve(Spec(1, 10, horizon=3))
    model, x = make(), tokens(2, 4)
    for message, arguments in (
        ("rate: expected 1.0, because a UNet has no notion of the time", {"rate": 2.0}),
        ("time: a UNet takes no time features", {"time": torch.zeros(2, 4, 1)}),
        ("lengths: all rows of a state are at the same step", {"lengths": torch.tensor([2, 4]), "need_state": True}),
    ):
        with pytest.raises(ValueError, match=message):
            model(x, **arguments)


def test_dropout_is_on_in_training_alone():
    model = make(dropout=0.5)
    x = tokens(1, 20)
    assert torch.equal(model(x)[0], model(x)[0])
    model.train()
    assert not torch.equal(model(x)[0], model(x)[0])
    assert dataclasses.replace(model.config, dropout=0.0) != model.config
