"""Laws of a residual block, over every norm, order, gate, feed-forward sublayer and mixer."""

import math

import pytest
import torch
from mixer_settings import SMALL, known
from pairwise import in_pairs, rows
from torch import nn

from longwave.layers import MIXERS, NORMS, S4, Block, Mixer, make_mixer
from longwave.layers.block import DROPOUT_PLACES, Dropout, MaskedBatchNorm, ScalarNorm, valid_steps

H, L, CLOSE = 4, 12, 1e-9
# Every two choices meet in a block.
SETTINGS = [
    {"norm": norm, "prenorm": prenorm, "glu": glu, "feed_forward": feed_forward}
    for norm, prenorm, glu, feed_forward in rows(sorted(NORMS), (True, False), (True, False), (0, 6))
]


def name(settings):
    parts = (
        settings["norm"],
        "before" if settings["prenorm"] else "after",
        "glu" if settings["glu"] else "",
        "feedforward" if settings["feed_forward"] else "",
        "" if settings.get("mix_features", True) else "bare",
    )
    return "-".join(part for part in parts if part)


def case(value):
    return name(value) if isinstance(value, dict) else value


every_block = pytest.mark.parametrize("settings", SETTINGS, ids=name)
# Every block with S4; two that differ in everything with every mixer, bare or with a mixing of features behind it.
OPPOSITE = (
    {"norm": "batch", "prenorm": True, "glu": True, "feed_forward": 0},
    {"norm": "layer", "prenorm": False, "glu": False, "feed_forward": 6},
)
every_mixer = pytest.mark.parametrize(
    ("settings", "mixer"),
    [(settings, "s4") for settings in SETTINGS]
    + [
        (settings | {"mix_features": mix_features}, mixer)
        for settings, mixer, mix_features in rows(OPPOSITE, [name for name in MIXERS if name != "s4"], (True, False))
    ],
    ids=case,
)
both_ways = pytest.mark.parametrize("bidirectional", [False, True], ids=["causal", "bidirectional"])


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)


def make(settings, mixer="s4", bidirectional=False, **more):
    layer = make_mixer(mixer, H, **known(mixer, **SMALL), bidirectional=bidirectional)
    block = Block(layer, H, **settings, **more)
    with torch.no_grad():  # a norm that has seen nothing would hide mistakes
        for module in block.modules():
            if isinstance(module, ScalarNorm):
                module.weight.fill_(1.5), module.shift.fill_(0.7)
            if isinstance(module, MaskedBatchNorm):
                for values in (module.running_mean, module.running_var, module.weight, module.bias):
                    values.copy_(torch.rand(H) + 0.5)
    return block


class Same(Mixer):
    """A mixer that passes on what it gets."""

    def forward(self, u, state=None, **_):
        return u, None


def gradients(block, x, **arguments):
    """Output, its state, and the gradients of x and of the parameters, for a loss over the steps that count."""
    x = x.clone().requires_grad_()
    y, state = block(x, **arguments)
    lengths = arguments.get("lengths")
    kept = y if lengths is None else torch.where(valid_steps(lengths, y), y, 0)
    weights = torch.linspace(-1, 1, H)
    loss = (kept * weights).square().sum()
    return y.detach(), state, torch.autograd.grad(loss, [x, *block.parameters()], materialize_grads=True)


# Both views


@every_mixer
def test_step_equals_forward(settings, mixer):
    block, x = make(settings, mixer).eval(), torch.randn(3, L, H)
    y, after = block(x)
    state, steps = block.initial_state(3), []
    for k in range(L):
        y_k, state = block.step(x[:, k], state)
        steps.append(y_k)
    torch.testing.assert_close(torch.stack(steps, dim=1), y, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(state, after, rtol=CLOSE, atol=CLOSE)


@every_mixer
def test_chunks_equal_the_whole(settings, mixer):
    block, x = make(settings, mixer).eval(), torch.randn(2, L, H)
    y, after = block(x)
    state, chunks = None, []
    for part in x.split([1, 7, 4], dim=1):
        y_part, state = block(part, state)
        chunks.append(y_part)
    torch.testing.assert_close(torch.cat(chunks, dim=1), y, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(state, after, rtol=CLOSE, atol=CLOSE)


@every_mixer
def test_a_causal_block_does_not_see_the_future(settings, mixer):
    block, x = make(settings, mixer).eval(), torch.randn(2, L, H)
    changed = torch.cat((x[:, :7], torch.randn(2, L - 7, H)), dim=1)
    torch.testing.assert_close(block(changed)[0][:, :7], block(x)[0][:, :7], rtol=CLOSE, atol=CLOSE)


def test_a_bidirectional_block_has_no_state():
    block = make(SETTINGS[0], bidirectional=True)
    assert block(torch.randn(2, L, H))[1] is None
    with pytest.raises(ValueError, match="bidirectional"):
        block.initial_state(2)


@every_block
def test_rate_reaches_the_mixer_in_both_views(settings):
    """A rate is a factor on dt, so a block with that factor in its dt gives the same."""
    block, x, rate = make(settings).eval(), torch.randn(2, L, H), 2.0
    y, after = block(x, rate=rate)
    y_step, state_step = block.step(x[:, 0], block.initial_state(2), rate=rate)
    with torch.no_grad():
        block.mixer.log_dt += math.log(rate)
    truth, state = block(x)
    assert not torch.allclose(block(x, rate=1 / rate)[0], truth)
    torch.testing.assert_close(y, truth, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(after, state, rtol=CLOSE, atol=CLOSE)
    truth_step, state = block.step(x[:, 0], block.initial_state(2))
    torch.testing.assert_close(y_step, truth_step, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(state_step, state, rtol=CLOSE, atol=CLOSE)


# Padding and batches


@pytest.mark.parametrize(
    ("settings", "bidirectional", "training"), rows(SETTINGS, (False, True), (False, True)), ids=case
)
def test_padding_changes_nothing(settings, bidirectional, training):
    """NaN in more padding: the same outputs, states, gradients and running statistics, to the bit or to rounding."""
    block = make(settings, bidirectional=bidirectional).train(training)
    x, lengths = torch.randn(3, L, H), torch.tensor([L, 5, 1])
    before = {key: value.clone() for key, value in block.state_dict().items()}
    results = []
    for padding, more in ((0.0, 0), (math.nan, 0), (1e30, 5)):
        block.load_state_dict(before)
        padded = torch.full((3, L + more, H), padding)
        padded[:, :L] = torch.where(valid_steps(lengths, x), x, padding)
        y, state, grads = gradients(block, padded, lengths=lengths)
        rows = [y[i, :n] for i, n in enumerate(lengths.tolist())]
        buffers = [value.clone() for value in block.buffers()]
        results.append([*rows, *([] if state is None else [state]), grads[0][:, :L], *grads[1:], *buffers])
    for values in zip(*results, strict=True):
        assert all(torch.isfinite(torch.view_as_real(v) if v.is_complex() else v).all() for v in values)
        torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)
        torch.testing.assert_close(values[2], values[0], rtol=CLOSE, atol=CLOSE)


@both_ways
@every_block
def test_a_padded_row_is_as_if_it_stood_alone(settings, bidirectional):
    block = make(settings, bidirectional=bidirectional).eval()
    x, lengths = torch.randn(3, L, H), torch.tensor([5, L, 1])
    y, state = block(x, lengths=lengths)
    for i, n in enumerate(lengths.tolist()):
        alone, state_alone = block(x[i : i + 1, :n])
        torch.testing.assert_close(y[i : i + 1, :n], alone, rtol=CLOSE, atol=CLOSE)
        if state is not None:
            torch.testing.assert_close(state[i : i + 1], state_alone, rtol=CLOSE, atol=CLOSE)


def test_batch_norm_in_training_sees_the_rows_without_their_padding():
    """The first norm of a padded batch has the statistics of its steps laid end to end."""
    block, x, lengths = make(SETTINGS[0] | {"norm": "batch"}), torch.randn(3, L, H), torch.tensor([L, 5, 1])
    truth = nn.BatchNorm1d(H)
    truth.load_state_dict(block.norm.state_dict(), strict=False)
    block(x, lengths=lengths)
    truth(torch.cat([x[i, :n] for i, n in enumerate(lengths.tolist())]))
    torch.testing.assert_close(block.norm.running_mean, truth.running_mean, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(block.norm.running_var, truth.running_var, rtol=CLOSE, atol=CLOSE)


@both_ways
@every_block
def test_rows_of_a_batch_are_independent_in_evaluation(settings, bidirectional):
    block, x = make(settings, bidirectional=bidirectional).eval(), torch.randn(3, L, H)
    other = x.clone()
    other[1] = 100 * torch.randn(L, H)
    y, y_other = block(x)[0], block(other)[0]
    torch.testing.assert_close(y_other[[0, 2]], y[[0, 2]], rtol=CLOSE, atol=CLOSE)
    assert not torch.allclose(y_other[1], y[1])


# Masked batch norm


def both_norms():
    ours, truth = MaskedBatchNorm(H), nn.BatchNorm1d(H)
    with torch.no_grad():
        ours.weight.copy_(torch.rand(H)), ours.bias.copy_(torch.rand(H))
    truth.load_state_dict(ours.state_dict(), strict=False)
    return ours, truth


def run(norm, *inputs):
    x = inputs[0].clone().requires_grad_()
    y = norm(x, *inputs[1:])
    return y.detach(), torch.autograd.grad((y * torch.linspace(1, 2, H)).square().sum(), [x, norm.weight, norm.bias])


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_batch_norm_without_a_mask_equals_torchs(training):
    ours, truth = both_norms()
    for _ in range(3):
        x = 3 * torch.randn(2, L, H) + 1
        ours.train(), truth.train()
        ours(x), truth(x.mT)
    ours.train(training), truth.train(training)
    y, (dx, dw, db) = run(ours, x)
    y_true, (dx_true, dw_true, db_true) = run(truth, x.flatten(0, 1))
    for value, true in ((y, y_true.view_as(y)), (dx, dx_true.view_as(dx)), (dw, dw_true), (db, db_true)):
        torch.testing.assert_close(value, true, rtol=CLOSE, atol=CLOSE)
    for buffer in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, buffer), getattr(truth, buffer), rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_masked_batch_norm_equals_torchs_on_the_concatenation(training):
    ours, truth = both_norms()
    ours.train(training), truth.train(training)
    x, valid = torch.randn(3, L, H), torch.rand(3, L, 1) < 0.6
    hidden = torch.where(valid, x, math.nan).clone().requires_grad_()
    y = ours(hidden, valid)
    kept = torch.where(valid, y, 0) * torch.linspace(1, 2, H)
    grads = torch.autograd.grad(kept.square().sum(), [hidden, ours.weight, ours.bias])
    chosen = valid.squeeze(-1)
    y_true, grads_true = run(truth, x[chosen])
    torch.testing.assert_close(y[chosen], y_true, rtol=CLOSE, atol=CLOSE)
    torch.testing.assert_close(grads[0][chosen], grads_true[0], rtol=CLOSE, atol=CLOSE)
    assert (grads[0][~chosen] == 0).all()
    for value, true in zip(grads[1:], grads_true[1:], strict=True):
        torch.testing.assert_close(value, true, rtol=CLOSE, atol=CLOSE)
    for buffer in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, buffer), getattr(truth, buffer), rtol=CLOSE, atol=CLOSE)


def test_a_mask_that_hides_nothing_changes_nothing():
    norm, x = MaskedBatchNorm(H), torch.randn(2, L, H)
    y, grads = run(norm, x)
    y_masked, grads_masked = run(norm, x, torch.ones(2, L, 1, dtype=torch.bool))
    torch.testing.assert_close([y_masked, *grads_masked], [y, *grads], rtol=CLOSE, atol=CLOSE)


@pytest.mark.parametrize("count", [0, 1])
def test_masked_batch_norm_stays_finite_with_one_step_or_none(count):
    norm, x = MaskedBatchNorm(H), torch.randn(2, L, H)
    valid = valid_steps(torch.tensor([count, 0]), x)
    y, grads = run(norm, x, valid)
    assert all(torch.isfinite(values).all() for values in (y, *grads, norm.running_mean, norm.running_var))


def test_masked_batch_norm_takes_its_statistics_of_half_precision_in_float32():
    """As torch's own does: 4,096 steps in bfloat16 with a mean of 100 would otherwise lose their variance."""
    norm = MaskedBatchNorm(H).float()
    x = (100 + torch.randn(2, 2048, H)).to(torch.bfloat16)
    y = norm(x, torch.ones(2, 2048, 1, dtype=torch.bool))
    assert y.dtype == torch.bfloat16
    truth = nn.functional.batch_norm(x.double().flatten(0, 1), None, None, training=True).view_as(y)
    torch.testing.assert_close(y.double(), truth, rtol=0.01, atol=0.01)


# Scalar norm


def scalar_norm():
    norm = ScalarNorm(H)
    with torch.no_grad():
        norm.weight.fill_(1.5), norm.shift.fill_(0.7)
    return norm


def test_scalar_norm_is_a_layer_norm_whose_shift_is_divided_too():
    norm, x = scalar_norm(), 3 * torch.randn(2, L, H) + 1
    std = (x - x.mean(-1, keepdim=True)).square().mean(-1, keepdim=True).sqrt()
    truth = 1.5 * nn.functional.layer_norm(x, (H,), eps=0.0) + 1.5 * 0.7 / std
    torch.testing.assert_close(norm(x), truth, rtol=CLOSE, atol=CLOSE)


def test_features_that_are_all_equal_leave_a_scalar_norm_and_its_gradients_finite():
    norm, x = scalar_norm(), torch.randn(2, L, H)
    x[1, 5:] = 0
    y = norm(x.requires_grad_())
    torch.testing.assert_close(y[1, 5:], torch.full((L - 5, H), 1.5 * 0.7), rtol=CLOSE, atol=CLOSE)
    grads = torch.autograd.grad(y.square().sum(), [x, norm.weight, norm.shift])
    assert all(torch.isfinite(values).all() for values in grads)


def test_scalar_norm_takes_its_statistics_of_half_precision_in_float32():
    norm, x = scalar_norm().float(), (100 + torch.randn(2, L, H)).to(torch.bfloat16)
    y = norm(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.double(), norm.double()(x.double()), rtol=0.01, atol=0.01)


def test_scalar_norm_needs_two_features():
    with pytest.raises(
        ValueError, match="norm: scalar needs at least 2 features to take a standard deviation, got d_model 1"
    ):
        ScalarNorm(1)


def test_a_block_without_mixing_adds_the_mixers_output_as_it_is():
    """A Transformer's sublayer: x + dropout(attention(norm(x))), and nothing with weights in between."""
    block, x = make(SETTINGS[0] | {"norm": "layer"}, "attention", mix_features=False), torch.randn(2, L, H)
    torch.testing.assert_close(block(x)[0], x + block.mixer(block.norm(x))[0], rtol=CLOSE, atol=CLOSE)
    assert {name.split(".")[0] for name, _ in block.named_parameters()} == {"mixer", "norm"}
    dropped = make(SETTINGS[0] | {"norm": "layer"}, "attention", mix_features=False, dropout=0.5)
    changes = dropped(x)[0] - x
    assert (changes == 0).float().mean() > 0.2


# Dropout


def test_tied_dropout_has_one_mask_for_all_steps():
    y = Dropout(0.5, tied=True)(torch.ones(8, L, 16))
    torch.testing.assert_close(y, y[:, :1].expand_as(y), rtol=0, atol=0)
    masks = y[:, 0]
    assert set(masks.unique().tolist()) == {0.0, 2.0}
    assert len(masks.unique(dim=0)) == 8  # each row its own


def test_untied_dropout_has_a_mask_for_each_step():
    y = Dropout(0.5, tied=False)(torch.ones(1, 64, 16))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert len(y[0].unique(dim=0)) == 64


@pytest.mark.parametrize("tied", [False, True])
def test_dropout_keeps_the_mean_and_does_nothing_in_evaluation(tied):
    dropout, x = Dropout(0.25, tied), torch.ones(400, 4, 50)
    torch.testing.assert_close(dropout(x).mean(), torch.tensor(1.0), rtol=0, atol=0.02)
    torch.testing.assert_close(dropout.eval()(x), x, rtol=0, atol=0)


@pytest.mark.parametrize("feed_forward", [0, 6])
def test_tied_dropout_in_a_block_is_constant_over_length(feed_forward):
    """A constant input and a mixer that passes it on: with tied masks every step comes out alike."""
    x = torch.randn(2, 1, H).expand(2, L, H)
    tied = Block(Same(H), H, dropout=0.5, tie_dropout=True, feed_forward=feed_forward)
    untied = Block(Same(H), H, dropout=0.5, tie_dropout=False, feed_forward=feed_forward)
    y = tied(x)[0]
    torch.testing.assert_close(y, y[:, :1].expand_as(y), rtol=CLOSE, atol=CLOSE)
    y = untied(x)[0]
    assert not torch.allclose(y, y[:, :1].expand_as(y))


@in_pairs(
    by="glu",
    places=[(), ("mixer",), ("activation",), ("linear",), DROPOUT_PLACES],
    tied=[True, False],
    glu=[True, False],
)
def test_dropout_is_where_the_settings_say(places, tied, glu):
    """The block written out in plain torch with the masks of the same seed: one after each place, in this order."""
    block = Block(Same(H), H, dropout=0.5, dropout_after=places, tie_dropout=tied, glu=glu)
    x, steps = torch.randn(3, L, H), 1 if tied else L

    def dropped(z, place):
        if place not in places:
            return z
        return z * torch.nn.functional.dropout(torch.ones(3, steps, H), 0.5)

    torch.manual_seed(5)
    y = block(x)[0]
    torch.manual_seed(5)
    z = dropped(block.norm(x), "mixer")
    z = dropped(torch.nn.functional.gelu(z), "activation")
    z = block.linear(z)
    z = dropped(torch.nn.functional.glu(z) if glu else z, "linear")
    torch.testing.assert_close(y, x + z, rtol=CLOSE, atol=CLOSE)
    plain = Block(Same(H), H, glu=glu).eval()
    plain.load_state_dict(block.state_dict())
    assert torch.equal(block.eval()(x)[0], plain(x)[0])  # in evaluation nothing is dropped, by the same ops


def test_a_mixer_that_returns_no_state_is_refused():
    with pytest.raises(ValueError, match=r"^mixer: expected one with return_state=True, got False; "):
        Block(S4(H, 4, return_state=False), H)


def test_a_place_of_dropout_that_a_block_does_not_have_is_refused():
    for wrong in (("mixer", "glu"), "mixer"):
        with pytest.raises(ValueError, match=r"^dropout_after: expected some of mixer, activation, linear, as a tuple"):
            Block(Same(H), H, dropout_after=wrong)


# Gradients, weights, errors


@both_ways
@every_block
def test_every_parameter_has_a_finite_gradient_that_is_not_zero(settings, bidirectional):
    block = make(settings, bidirectional=bidirectional, dropout=0.1)
    _, _, grads = gradients(block, torch.randn(3, L, H))
    for parameter, grad in zip(["x", *(n for n, _ in block.named_parameters())], grads, strict=True):
        assert torch.isfinite(grad).all(), parameter
        assert grad.abs().max() > 0, parameter


@every_block
def test_state_dict_carries_a_block_over_to_the_bit(settings):
    block, x = make(settings), torch.randn(3, L, H)
    block(x)
    copy = make(settings)
    copy.load_state_dict(block.state_dict())
    torch.testing.assert_close(copy.eval()(x), block.eval()(x), rtol=0, atol=0)


def test_mistakes_are_refused():
    with pytest.raises(ValueError, match="norm: expected one of batch, layer, scalar, got 'group'"):
        Block(S4(H, 4), H, norm="group")
    with pytest.raises(ValueError, match=r"dropout: expected a probability in \[0, 1\), got 1"):
        Block(S4(H, 4), H, dropout=1.0)


class Doubled(torch.nn.Linear):
    """A linear layer that someone has put in the place of torch's."""

    def forward(self, x):
        return 2 * super().forward(x)


def test_what_was_put_in_place_of_the_linear_layer_is_called():
    """Adapters, quantisation and sharding replace it; hooks watch it."""
    block, x = Block(S4(8, 4), 8).eval(), torch.randn(2, 300, 8)
    plain, _ = block(x)
    seen = []
    handle = block.linear.register_forward_hook(lambda *_: seen.append(1))
    assert (block(x)[0] - plain).abs().max() < 1e-5
    handle.remove()
    assert seen == [1]
    other = Doubled(8, 16)
    other.load_state_dict(block.linear.state_dict())
    block.linear = other
    assert (block(x)[0] - plain).abs().max() > 1e-3


def test_dropout_of_the_language_model_is_behind_gelu_on_both_branches_and_within_the_feed_forward():
    """As in the paper's model of WikiText-103: a quarter of each in training, and nothing in evaluation."""
    block = Block(Same(H), 64, dropout=0.25, dropout_after=("activation", "linear"), feed_forward=128)
    seen = []
    for module in block.modules():
        if isinstance(module, Dropout):
            module.register_forward_hook(lambda _, args, out: seen.append((out.shape[-1], (out == 0).double().mean())))
    x = torch.randn(4, 100, 64)
    block(x)
    assert [width for width, _ in seen] == [64, 64, 128, 64]
    assert [float(share) for _, share in seen] == pytest.approx([0.25] * 4, abs=0.02)  # seven deviations
    seen.clear()
    block.eval()(x)
    assert all(share == 0 for _, share in seen)
