"""Laws of a whole model, over norms, blocks, decoders, windows and directions; and its files."""

import itertools
import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from mixer_settings import sequence_config
from pairwise import grouped, in_one_case, in_pairs, rows
from safetensors.torch import load_file, save_file

import longwave
from longwave.layers import MIXERS, S4Config
from longwave.layers.block import MaskedBatchNorm, valid_steps
from longwave.models import ResNet, ResNetConfig, SequenceConfig, SequenceModel, Spec
from longwave.models.pretrained import FORMAT

L, HORIZON, CLOSE = 11, 3, 1e-9
TINY = {"d_model": 4, "n_layers": 2}
HEADS = {
    "mean": {"decoder": "mean", "input_size": 2, "output_size": 3},
    "last": {"decoder": "last", "input_size": 2, "output_size": 3},
    "sequence": {"decoder": "sequence", "input_size": 2, "output_size": 3},
    "tokens": {"decoder": "mean", "vocabulary": 5, "output_size": 3},
    "adaptive": {"decoder": "sequence", "vocabulary": 9, "output_size": 9, "cutoffs": (4,)},
    "time": {"decoder": "sequence", "input_size": 2, "time_size": 4, "output_size": 3},
    "forecast": {"decoder": "forecast", "horizon": HORIZON, "input_size": 2, "output_size": 2, "time_size": 4},
    "forecast-stamps": {
        "decoder": "forecast",
        "horizon": HORIZON,
        "input_size": 2,
        "output_size": 2,
        "time_size": 2,
        "stamps": (13, 7),
    },
    "forecast-last": {"decoder": "forecast", "horizon": HORIZON, "window": "last", "input_size": 2, "output_size": 2},
    "forecast-standard": {
        "decoder": "forecast",
        "horizon": HORIZON,
        "window": "standard",
        "input_size": 2,
        "output_size": 2,
    },
}
CHOICES = {
    "norm": ("layer", "batch", "scalar"),
    "prenorm": (True, False),
    "glu": (True, False),
    "feed_forward": (0, 6),
}


def block_name(norm, prenorm, glu, feed_forward):
    return f"{norm}-{'before' if prenorm else 'after'}{'-glu' * glu}{'-feedforward' * bool(feed_forward)}"


BLOCKS = {
    block_name(*choice): dict(zip(CHOICES, choice, strict=True)) for choice in itertools.product(*CHOICES.values())
}
BLOCKS["two-mixers"] = {**BLOCKS["layer-before-glu-feedforward"], "mixers_per_block": 2}
NORMS = ["layer-before-glu", "layer-after", "batch-before-glu", "batch-after"]
# Every two choices of a head, a block and a direction meet in a model; and two heads with two mixers per block.
MODELS = [
    (head, block_name(*choice), bidirectional)
    for head, *choice, bidirectional in rows(list(HEADS), *CHOICES.values(), (False, True))
] + list(itertools.product(("mean", "forecast-standard"), ["two-mixers"], (False, True)))
every_norm = in_one_case(block=NORMS)
every_model = grouped("head", "head, block", dict.fromkeys(model[:2] for model in MODELS))
every_model_both_ways = grouped("head", "head, block, bidirectional", MODELS)


@pytest.fixture
def _in_float64():
    torch.set_default_dtype(torch.float64)


in_float64 = pytest.mark.usefixtures("_in_float64")


def make(head, block="layer-before-glu", **more):
    model = SequenceModel(sequence_config(**TINY, **HEADS[head], **BLOCKS[block], **more))
    with torch.no_grad():  # a batch norm that has seen nothing would hide mistakes
        for module in model.modules():
            if isinstance(module, MaskedBatchNorm):
                for values in (module.running_mean, module.running_var, module.weight, module.bias):
                    values.copy_(torch.rand(len(values)) + 0.5)
    return model


def inputs(model, batch=3, length=L):
    """x and the other inputs of a model; what a forecast is to find out stands there as 0, as tasks give it."""
    config = model.config
    if config.vocabulary:
        x = torch.randint(config.vocabulary, (batch, length))
    else:
        x = 5 + 2 * torch.randn(batch, length, config.input_size)
    if config.decoder == "forecast":
        x[:, length - config.horizon :] = 0
    if config.stamps:
        return x, {"time": torch.stack([torch.randint(n, (batch, length)) for n in config.stamps], -1).to(x)}
    return x, {"time": torch.randn(batch, length, config.time_size)} if config.time_size else {}


def cut(more, *where):
    return {name: values[where] for name, values in more.items()}


def close(value, truth):
    torch.testing.assert_close(value, truth, rtol=CLOSE, atol=CLOSE)


# Both views


@in_float64
@every_model
def test_step_equals_forward(head, block):
    model = make(head, block).eval()
    x, more = inputs(model)
    y, after = model(x, **more, need_state=True)
    if model.config.decoder == "forecast":
        close(model.forecast_by_steps(x, **more), y)
        return
    state, steps = model.initial_state(3), []
    for k in range(L):
        y_k, state = model.step(x[:, k], state, **cut(more, slice(None), k))
        steps.append(y_k)
    close(state, after)
    if model.config.decoder == "sequence":
        close(torch.stack(steps, dim=1), y)
    else:
        close(steps[-1], y)
        # A step's output is what forward gives if the sequence ends there.
        close(steps[4], model(x[:, :5], **cut(more, slice(None), slice(5)))[0])


@in_float64
@pytest.mark.parametrize("head", [head for head in HEADS if HEADS[head]["decoder"] != "forecast"])
def test_a_step_without_a_state_is_the_first_of_a_sequence(head):
    model = make(head).eval()
    x, more = inputs(model)
    first = model.step(x[:, 0], **cut(more, slice(None), 0))
    close(first, model.step(x[:, 0], model.initial_state(3), **cut(more, slice(None), 0)))


@in_float64
@pytest.mark.parametrize("head", [head for head in HEADS if HEADS[head]["decoder"] != "forecast"])
@every_norm
def test_chunks_equal_the_whole_also_with_padding(head, block):
    """Rows that end in the first or second chunk have no step in the last."""
    model, lengths = make(head, block).eval(), torch.tensor([2, L, 7])
    x, more = inputs(model)
    for lengths_or_none in (None, lengths):
        whole, after = model(x, **more, lengths=lengths_or_none, need_state=True)
        state, outputs = None, []
        for start, end in ((0, 3), (3, 8), (8, L)):
            part = None if lengths_or_none is None else (lengths - start).clamp(0, end - start)
            piece = (slice(None), slice(start, end))
            y, state = model(x[piece], state, **cut(more, *piece), lengths=part, need_state=True)
            outputs.append(y)
        if model.config.decoder == "sequence":
            y, valid = torch.cat(outputs, dim=1), valid_steps(lengths, x)
            hide = lengths_or_none is not None
            close(torch.where(valid, y, 0) if hide else y, torch.where(valid, whole, 0) if hide else whole)
        else:
            close(outputs[-1], whole)
        close(state, after)


def test_a_forecast_refuses_chunks():
    model = make("forecast")
    x, more = inputs(model)
    with pytest.raises(ValueError, match=r"state: a forecast model takes a whole window.*forecast_by_steps"):
        model(x, model.initial_state(3), **more)


@pytest.mark.parametrize(("head", "steps"), [("forecast", 2), ("forecast-last", 3), ("forecast-standard", 3)])
def test_a_window_without_room_for_the_forecast_is_refused(head, steps):
    model = make(head)
    x, more = inputs(model)
    with pytest.raises(
        ValueError, match=rf"x: expected at least {steps + 1} steps, 3 of them to forecast, got {steps}"
    ):
        model(x[:, :steps], **cut(more, slice(None), slice(steps)))
    expected = f"^lengths: expected numbers from {steps + 1} to {L}, 3 of them to forecast, got"
    with pytest.raises(ValueError, match=f"{expected} {steps} to {L}$"):
        model(x, **more, lengths=torch.tensor([L, steps, L]))
    with pytest.raises(ValueError, match=f"{expected} {L} to {L + 1}$"):
        model(x, **more, lengths=torch.tensor([L, L + 1, L]))


@pytest.mark.parametrize(
    ("mixer", "message"),
    [
        (longwave.S4, r"the name 's4', or its settings, S4Config\(\.\.\.\), got the class S4"),
        (longwave.S4(4), r"the name 's4', or its settings, S4Config\(\.\.\.\), got S4\(d_model=4, .*"),
        (S4Config, r"the name 's4', or its settings, S4Config\(\.\.\.\), got the class S4Config"),
        (3, r"a name, one of .*s4, .*, or the settings of one, got 3"),
        (None, r"a name, one of .*s4, .*, or the settings of one, got None"),
    ],
)
def test_a_mixer_that_is_neither_a_name_nor_settings_is_refused_with_what_was_meant(mixer, message):
    with pytest.raises(ValueError, match=f"^mixer: expected {message}$"):
        SequenceModel(**TINY, mixer=mixer)
    with pytest.raises(ValueError, match=f"^mixer: expected {message}$"):
        SequenceModel(SequenceConfig(mixer=mixer))


def test_a_model_of_what_is_no_config_is_refused():
    with pytest.raises(ValueError, match=r"^config: expected SequenceConfig\(\.\.\.\), or keywords alone, got 64$"):
        SequenceModel(64)


def test_a_bidirectional_model_refuses_to_stream():
    with pytest.raises(ValueError, match="bidirectional"):
        make("mean", bidirectional=True).initial_state(2)


def test_step_refuses_batch_norm_in_training():
    model = make("mean", "batch-before-glu")
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        model.step(torch.randn(2, 2), model.initial_state(2))


@in_float64
@pytest.mark.parametrize("rate", [0.5, 2.0])
@pytest.mark.parametrize("head", ["mean", "time", "forecast-last"])
def test_rate_reaches_every_layer_in_both_views(head, rate):
    model = make(head).eval()
    x, more = inputs(model)
    y = model(x, **more, rate=rate)[0]
    step = model.step(x[:, 0], model.initial_state(3), **cut(more, slice(None), 0), rate=rate)
    with torch.no_grad():
        for layer in model.blocks:
            layer.mixer.log_dt += math.log(rate)
    close(y, model(x, **more)[0])
    close(step, model.step(x[:, 0], model.initial_state(3), **cut(more, slice(None), 0)))


# Padding and batches


def pad(values, lengths, padding, extra=0):
    """`padding` in place of what stands behind the lengths, and some more of it; -1, which is no token, for tokens."""
    padding = padding if values.is_floating_point() else -1
    valid = valid_steps(lengths, values)
    kept = torch.where(valid if values.ndim == 3 else valid.squeeze(-1), values, padding)
    return torch.cat((kept, kept.new_full((len(kept), extra, *kept.shape[2:]), padding)), dim=1)


def results(model, x, more, lengths):
    """Output where it counts, states, gradients and running statistics."""
    y, state = model(x, **more, lengths=lengths, need_state=True)
    if model.config.decoder == "sequence":
        y = torch.where(valid_steps(lengths, y), y, 0)
    weights = torch.linspace(-1, 2, y.shape[-1])
    grads = torch.autograd.grad((y * weights).square().sum(), list(model.parameters()), materialize_grads=True)
    rows = [y[i, : lengths[i]] if model.config.decoder == "sequence" else y[i] for i in range(len(x))]
    states = [s for s in state[0] if s is not None]
    return [v.detach().clone() for v in (*rows, *states, *grads, *model.buffers())]


@in_float64
@in_pairs(by="head", head=HEADS, block=NORMS, bidirectional=[False, True])
def test_padding_changes_nothing_in_training(head, block, bidirectional):
    """Whatever stands in the padding, NaN too, and however much there is of it: outputs, gradients and statistics."""
    model = make(head, block, bidirectional=bidirectional)
    (x, more), lengths = inputs(model), torch.tensor([L, 6, 4])
    if model.config.decoder == "forecast":  # each row's own horizon
        unknown = valid_steps(lengths, x) & ~valid_steps(lengths - HORIZON, x)
        x = torch.where(unknown, 0, 5 + 2 * torch.randn(x.shape))
    before = {name: values.clone() for name, values in model.state_dict().items()}
    got = []
    for padding, extra in ((0, 0), (math.nan, 0), (1e30, 5)):
        model.load_state_dict(before)
        padded = pad(x, lengths, padding, extra)
        padded_more = {name: pad(values, lengths, padding, extra) for name, values in more.items()}
        got.append(results(model, padded, padded_more, lengths))
    for values in zip(*got, strict=True):
        assert all(torch.isfinite(torch.view_as_real(v) if v.is_complex() else v).all() for v in values)
        torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)
        close(values[2], values[0])


@in_float64
@every_model_both_ways
def test_a_padded_row_is_as_if_it_stood_alone(head, block, bidirectional):
    model, lengths = make(head, block, bidirectional=bidirectional).eval(), torch.tensor([6, L, 4])
    x, more = inputs(model)
    rows = []
    for i, n in enumerate(lengths.tolist()):
        if model.config.decoder == "forecast":
            x[i, n - HORIZON : n] = 0
        rows.append(model(x[i : i + 1, :n], **cut(more, slice(i, i + 1), slice(n)))[0][0])
    hidden = {name: pad(values, lengths, math.nan) for name, values in more.items()}
    y, _ = model(pad(x, lengths, math.nan), **hidden, lengths=lengths)
    for i, row in enumerate(rows):
        close(y[i, : len(row)] if model.config.decoder == "sequence" else y[i], row)


@in_float64
@every_model
def test_rows_of_a_batch_are_independent_in_evaluation(head, block):
    model = make(head, block).eval()
    (x, more), (other, _) = inputs(model), inputs(model)
    changed = torch.stack((x[0], other[1], x[2]))
    y, y_changed = model(x, **more)[0], model(changed, **more)[0]
    close(y_changed[[0, 2]], y[[0, 2]])
    assert not torch.allclose(y_changed[1], y[1])


def test_pooling_in_half_precision_counts_steps_in_float32():
    """1,001 is no bfloat16; the mean of a long sequence must not round the count or the sum."""
    model = make("mean")
    x = torch.randn(1, 1001, 4).to(torch.bfloat16)
    _, (total, count) = model.decoder.bfloat16()(x)
    assert total.dtype == count.dtype == torch.float32
    assert count.item() == 1001
    torch.testing.assert_close(total, x.float().sum(1))


# Windows


@in_float64
@pytest.mark.parametrize("head", ["forecast-last", "forecast-standard"])
def test_a_forecast_moves_with_the_level_of_its_window(head):
    model = make(head).eval()
    x, _ = inputs(model)
    moved = torch.cat((x[:, :-HORIZON] + 1000, x[:, -HORIZON:]), dim=1)
    torch.testing.assert_close(model(moved)[0], model(x)[0] + 1000, rtol=0, atol=1e-6)
    if head == "forecast-standard":
        stretched = torch.cat((3 * x[:, :-HORIZON], x[:, -HORIZON:]), dim=1)
        close(model(stretched)[0], 3 * model(x)[0])


@pytest.mark.parametrize("head", ["forecast", "forecast-last", "forecast-standard"])
def test_a_constant_window_gives_finite_forecasts_and_gradients(head):
    model = make(head)
    x, more = inputs(model)
    x[:, :-HORIZON] = 7
    x.requires_grad_()
    y, _ = model(x, **more)
    y.square().sum().backward()
    assert torch.isfinite(y).all()
    assert torch.isfinite(x.grad).all()


def test_a_forecast_tells_a_zero_from_a_step_to_forecast():
    model = make("forecast-last").eval()
    x = torch.zeros(1, L, 2)
    marks = model.window.unknown(x)
    assert marks.squeeze(-1).tolist() == [0.0] * (L - HORIZON) + [1.0] * HORIZON
    y = model(x)[0]
    with torch.no_grad():
        model.encoder.unknown += torch.randn(4)
    assert not torch.allclose(model(x)[0], y)


# Mixers


@in_float64
@pytest.mark.parametrize("mixer", MIXERS)
def test_a_model_of_any_mixer_streams_trains_and_comes_back(mixer, tmp_path):
    model = make("sequence", "layer-before-glu-feedforward", mixer=mixer).eval()
    (x, _), lengths = inputs(model), torch.tensor([L, 4, 1])
    y, _ = model(x)
    state, steps = model.initial_state(3), []
    for x_t in x.unbind(1):
        y_t, state = model.step(x_t, state)
        steps.append(y_t)
    close(torch.stack(steps, dim=1), y)
    padded, _ = model(pad(x, lengths, math.nan), lengths=lengths)
    for i, n in enumerate(lengths.tolist()):
        close(padded[i, :n], y[i, :n])
    padded.square().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())
    model.save_pretrained(tmp_path)
    assert torch.equal(SequenceModel.from_pretrained(tmp_path).eval()(x)[0], y)


def test_attention_and_a_feed_forward_sublayer_are_a_transformer():
    """As torch's encoder layer is one: the same weights give the same output."""
    model = make("sequence", "layer-before-glu-feedforward", mixer="attention-stored", heads=2, rotary=False)
    block, x = model.blocks[0], torch.randn(2, L, 4)
    truth = torch.nn.TransformerEncoderLayer(4, 2, 6, 0.0, "gelu", batch_first=True, norm_first=True)
    attention, feed_forward = block.mixer.heads, block.feed_forward
    truth.self_attn.in_proj_weight, truth.self_attn.in_proj_bias = attention.project.weight, attention.project.bias
    truth.self_attn.out_proj = attention.output
    truth.norm1, truth.norm2, truth.linear1, truth.linear2 = (
        block.norm, block.feed_forward_norm, feed_forward[0], feed_forward[3],
    )  # fmt: skip
    expected = truth(x, src_mask=torch.ones(L, L, dtype=torch.bool).triu(1))
    torch.testing.assert_close(block(x)[0], expected, rtol=1e-5, atol=1e-5)
    assert sum(p.numel() for p in block.parameters()) == sum(p.numel() for p in truth.parameters())


# Gradients and mistakes


@every_model
def test_every_parameter_has_a_finite_gradient(head, block):
    model = make(head, block, dropout=0.1, tie_dropout=True)
    x, more = inputs(model)
    y, _ = model(x, **more)
    (y * torch.linspace(-1, 2, y.shape[-1])).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder": "first"}, "decoder: expected one of mean, last, sequence, forecast, got 'first'"),
        ({"window": "first"}, "window: expected one of none, last, standard, got 'first'"),
        ({"norm": "group"}, "norm: expected one of .*got 'group'"),
        ({"decoder": "forecast"}, "horizon: a forecast decoder needs at least 1 step, got 0"),
        ({"window": "last"}, "window: 'last' needs a forecast of the input channels"),
        ({"dropout": -0.1}, "dropout: expected a probability"),
        ({"d_state": 3}, "d_state: expected an even number"),
    ],
)
def test_settings_that_make_no_model_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        SequenceModel(sequence_config(**TINY, **change))


def test_a_model_takes_over_the_sizes_of_a_task_that_it_has_settings_for():
    spec = Spec(input_size=3, output_size=5, vocabulary=7, time_size=2)
    assert SequenceConfig().with_sizes(spec) == SequenceConfig(input_size=3, output_size=5, vocabulary=7, time_size=2)
    assert ResNetConfig().with_sizes(spec) == ResNetConfig(input_size=3, output_size=5)


def test_a_model_is_built_from_keywords_as_from_settings():
    settings = {"d_model": 8, "n_layers": 1, "input_size": 3, "output_size": 5}
    assert SequenceModel(**settings).config == SequenceConfig(**settings)
    assert SequenceModel(**settings)(torch.randn(2, 4, 3))[0].shape == (2, 5)
    config = SequenceConfig(**settings)
    assert SequenceModel(config, n_layers=2).config == replace(config, n_layers=2)
    assert SequenceModel(**settings, mixer="lstm").config.mixer == MIXERS["lstm"]()
    assert SequenceModel(**settings, mixer=S4Config(d_state=4)).config.mixer == S4Config(d_state=4)
    assert ResNet(width=2, output_size=4).config == ResNetConfig(width=2, output_size=4)
    assert longwave.SequenceModel is SequenceModel


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"d_modle": 8}, "SequenceConfig: unknown setting 'd_modle'; expected one of .*did you mean 'd_model'"),
        ({"mixer": "lsmt"}, "unknown mixer 'lsmt'; .*did you mean 'lstm'"),
    ],
)
def test_a_wrong_keyword_is_refused_with_the_nearest(settings, message):
    with pytest.raises(ValueError, match=message):
        SequenceModel(**settings)


def test_a_numpy_array_is_refused_with_what_to_call_and_without_its_numbers():
    came = r"got a numpy array float64 \(2, 4, 1\); call torch.from_numpy\(x\).float\(\)$"
    with pytest.raises(ValueError, match=rf"^x: expected a tensor \(batch, length, channels\), .*{came}"):
        SequenceModel(d_model=4, n_layers=1)(np.zeros((2, 4, 1)))
    with pytest.raises(ValueError, match=r"got a numpy array int64 \(2, 4\); call torch.from_numpy\(x\)$"):
        SequenceModel(d_model=4, n_layers=1, vocabulary=5)(np.zeros((2, 4), np.int64))


def test_a_model_that_wants_time_says_so():
    with pytest.raises(ValueError, match="time: this model needs 4 time features per step, got none"):
        make("time")(torch.randn(1, L, 2))


# Files


@pytest.fixture
def folder(tmp_path):
    """A saved model."""
    make("forecast-last", "batch-before-glu").save_pretrained(tmp_path)
    return tmp_path


@in_pairs(
    by="head",
    head=HEADS,
    block=["layer-after", "batch-before-glu-feedforward"],
    dtype=[torch.float32, torch.float64, torch.bfloat16],
)
def test_a_saved_model_comes_back_to_the_bit(head, block, dtype, tmp_path):
    places = {"dropout": 0.1, "dropout_after": ("mixer", "linear")}
    model = make(head, block, n_ssm=2, length=L, trainable=False, dt_transform="softplus", **places).to(dtype)
    model.save_pretrained(tmp_path)
    back = SequenceModel.from_pretrained(tmp_path)
    assert back.config == model.config
    assert [(n, p.requires_grad) for n, p in back.named_parameters()] == [
        (n, p.requires_grad) for n, p in model.named_parameters()
    ]
    states = model.state_dict(), back.state_dict()
    assert list(states[0]) == list(states[1])
    for name in states[0]:
        assert states[1][name].dtype == dtype, name
        assert torch.equal(states[0][name], states[1][name]), name
    if dtype != torch.bfloat16:
        x, more = inputs(model)
        x, more = (x.to(dtype) if x.is_floating_point() else x), {n: v.to(dtype) for n, v in more.items()}
        assert torch.equal(back.eval()(x, **more)[0], model.eval()(x, **more)[0])


def test_a_saved_model_is_two_files_with_a_version(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    content = json.loads((folder / "config.json").read_text())
    assert content["format"] == FORMAT
    assert content["config"]["d_model"] == 4


def test_a_model_that_was_saved_before_there_were_choices_has_the_first_of_them(folder):
    """dt was stored as its logarithm, and dropout came after GELU alone."""
    content = json.loads((folder / "config.json").read_text())
    del content["config"]["mixer"]["dt_transform"], content["config"]["dropout_after"]
    before = SequenceModel.from_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(content))
    model = SequenceModel.from_pretrained(folder)
    assert model.config == before.config
    assert (model.config.mixer.dt_transform, model.config.dropout_after) == ("exp", ("activation",))


@pytest.mark.parametrize("wrong", ["mixer", ["glu"], 3], ids=repr)
def test_places_of_dropout_in_a_file_are_checked(folder, wrong):
    content = json.loads((folder / "config.json").read_text())
    content["config"]["dropout_after"] = wrong
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(
        ValueError, match=r'dropout_after: expected a list, each "mixer" or "activation" or "linear", got'
    ):
        SequenceModel.from_pretrained(folder)


def test_the_same_weights_are_the_same_bytes(folder, tmp_path):
    before = (folder / "model.safetensors").read_bytes()
    for _ in range(5):
        SequenceModel.from_pretrained(folder).save_pretrained(tmp_path)
        assert (tmp_path / "model.safetensors").read_bytes() == before


def test_writing_over_the_file_leaves_a_loaded_model_as_it_was(folder):
    """The weights of a loaded model are its own, not a view of the file."""
    model = SequenceModel.from_pretrained(folder)
    before = {name: values.clone() for name, values in model.state_dict().items()}
    size = (folder / "model.safetensors").stat().st_size
    with open(folder / "model.safetensors", "r+b") as file:  # in place, as cp would
        file.write(b"\0" * size)
    assert all(torch.equal(values, before[name]) for name, values in model.state_dict().items())


def replace_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    weights = {name: values.clone() for name, values in weights.items()}
    change(weights)
    save_file(weights, folder / "model.safetensors")


def replace_config(folder, change):
    path = folder / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def truncate(folder, size):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])


DAMAGES = {
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "model.safetensors: expected the weights"),
    "empty weights": (lambda f: truncate(f, 0), "model.safetensors: expected the weights"),
    "header cut off": (lambda f: truncate(f, 20), "model.safetensors: expected the weights"),
    "last byte cut off": (lambda f: truncate(f, -1), "model.safetensors: expected the weights"),
    "other bytes": (lambda f: (f / "model.safetensors").write_bytes(b"\xff" * 4096), "expected the weights"),
    "foreign weights": (
        lambda f: save_file({"transformer.wte": torch.zeros(2, 2)}, f / "model.safetensors"),
        "the weights do not fit the config.json.*transformer.wte",
    ),
    "a weight missing": (lambda f: replace_weights(f, lambda w: w.pop("decoder.linear.bias")), "decoder.linear.bias"),
    "a wrong shape": (
        lambda f: replace_weights(f, lambda w: w.update({"decoder.linear.bias": torch.zeros(7)})),
        "the weights do not fit.*size mismatch for decoder.linear.bias",
    ),
    "whole numbers": (
        lambda f: replace_weights(f, lambda w: w.update({"decoder.linear.bias": torch.zeros(2, dtype=torch.int64)})),
        "decoder.linear.bias",
    ),
    "no config": (lambda f: (f / "config.json").unlink(), "config.json: expected the config.json of a longwave model"),
    "broken JSON": (lambda f: (f / "config.json").write_text('{"format": 1,'), "config.json: expected"),
    "no text": (lambda f: (f / "config.json").write_bytes(b"\xff\xfe\x00"), "config.json: expected"),
    "foreign JSON": (
        lambda f: (f / "config.json").write_text('{"model_type": "bert", "hidden_size": 768}'),
        "got another JSON file",
    ),
    "a list": (lambda f: (f / "config.json").write_text("[1, 2]"), "got another JSON file"),
    "a newer format": (
        lambda f: replace_config(f, lambda c: c.update(format=FORMAT + 1)),
        f"format {FORMAT + 1}, but this version of longwave reads format {FORMAT}; update longwave",
    ),
    "no settings": (lambda f: replace_config(f, lambda c: c.pop("config")), 'expected the settings.*"config"'),
    "settings of another kind": (lambda f: replace_config(f, lambda c: c.update(config=[])), "expected the settings"),
    "an unknown setting": (
        lambda f: replace_config(f, lambda c: c["config"].update(depth=8)),
        "config.json: unknown setting 'depth'; expected one of .*; written by a newer version of longwave",
    ),
    "a text for a number": (
        lambda f: replace_config(f, lambda c: c["config"].update(d_model="four")),
        "config.json: d_model: expected a whole number, got 'four'",
    ),
    "a number for a text": (
        lambda f: replace_config(f, lambda c: c["config"].update(decoder=3)),
        "config.json: decoder: expected .*, got 3",
    ),
    "a width of 0": (
        lambda f: replace_config(f, lambda c: c["config"].update(d_model=0)),
        "config.json: its settings do not make a model: d_model",
    ),
    "an unknown mixer": (
        lambda f: replace_config(f, lambda c: c["config"]["mixer"].update(kind="s9")),
        "config.json: mixer: unknown kind 's9'; expected one of .*s4",
    ),
    "an unknown setting of its mixer": (
        lambda f: replace_config(f, lambda c: c["config"]["mixer"].update(heads=2)),
        "config.json: mixer: unknown setting 'heads'; expected one of d_state",
    ),
    "another size": (lambda f: replace_config(f, lambda c: c["config"].update(d_model=8)), "size mismatch"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_or_foreign_file_is_refused_by_name(damage, folder):
    change, message = DAMAGES[damage]
    change(folder)
    with pytest.raises(ValueError, match=f"(?s){message}") as caught:
        SequenceModel.from_pretrained(folder)
    assert str(folder) in str(caught.value)


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("writer", [pickle.dumps, None], ids=["pickle", "torch.save"])
def test_nothing_is_unpickled(writer, folder):
    trap = Trap(folder / "sprung")
    path = folder / "model.safetensors"
    path.write_bytes(writer(trap)) if writer else torch.save({"weight": trap}, path)
    with pytest.raises(ValueError, match="expected the weights"):
        SequenceModel.from_pretrained(folder)
    assert not (folder / "sprung").exists()


# Settings


def test_a_model_takes_its_sizes_from_the_task():
    spec = Spec(input_size=2, output_size=3, time_size=4, horizon=5, length=20, decoders=("sequence",))
    config = SequenceConfig(decoder="sequence").resolve(spec)
    assert (config.input_size, config.output_size, config.time_size, config.horizon) == (2, 3, 4, 5)
    assert config.mixer.length == 20
    assert SequenceConfig(vocabulary=9).resolve(Spec(input_size=1, output_size=2)).vocabulary == 0


def test_a_model_that_a_task_cannot_use_is_refused():
    spec = Spec(input_size=1, output_size=7, vocabulary=7, decoders=("sequence",), is_causal=True)
    with pytest.raises(ValueError, match="decoder: this task needs sequence, got mean"):
        SequenceConfig(decoder="mean").resolve(spec)
    with pytest.raises(ValueError, match=r"bidirectional: this task needs a causal model.*mixer.no-bidirectional"):
        sequence_config(decoder="sequence", bidirectional=True).resolve(spec)
