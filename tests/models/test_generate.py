"""Generation: the draws, the state behind them, and what is refused."""

import itertools
import math

import pytest
import torch
from mixer_settings import sequence_config

import longwave
from longwave.layers import MIXERS
from longwave.models import Recurrence, ResNet, ResNetConfig, SequenceModel
from longwave.models import generate as generation
from longwave.models.generate import MOST_LOGITS, draw, generate, probabilities, stream
from longwave.tasks import autoregressive

pytestmark = pytest.mark.usefixtures("own_folder")

VOCABULARY = 11
SMALL = {"d_state": 4, "heads": 2, "features": 16}


def make_model(**settings) -> SequenceModel:
    sizes = {"d_model": 16, "n_layers": 2, "vocabulary": VOCABULARY, "output_size": VOCABULARY}
    return SequenceModel(sequence_config(small=SMALL, **{**sizes, "decoder": "sequence", **settings})).eval()


def some_prompt(batch: int = 3, length: int = 7) -> torch.Tensor:
    return torch.randint(VOCABULARY, (batch, length))


# What is drawn


@pytest.mark.parametrize(
    ("mixer", "settings"),
    [*((name, {}) for name in MIXERS), ("s4", {"length": 20}), ("s4", {"cutoffs": (4, 8), "mixers_per_block": 2})],
)
def test_probabilities_are_those_of_the_full_forward_pass(mixer, settings):
    torch.set_default_dtype(torch.float64)
    model, prompt = make_model(mixer=mixer, **settings), some_prompt()
    steps = list(stream(model, prompt, 9, seed=1))
    tokens = torch.stack([tokens for tokens, _ in steps], dim=1)
    chances = torch.stack([chances for _, chances in steps], dim=1)
    with torch.no_grad():
        logits, _ = model(torch.cat((prompt, tokens), dim=1))
    expected = logits.softmax(-1)[:, prompt.shape[1] - 1 : -1]
    torch.testing.assert_close(chances, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("mixer", MIXERS)
def test_probabilities_in_float32_are_those_of_the_exact_model(mixer):
    """By the compiled steps, where they serve."""
    model, prompt = make_model(mixer=mixer), some_prompt()
    steps = list(stream(model, prompt, 9, seed=1))
    tokens = torch.stack([tokens for tokens, _ in steps], dim=1)
    with torch.no_grad():
        logits, _ = model.double()(torch.cat((prompt, tokens), dim=1))
    expected = logits.softmax(-1)[:, prompt.shape[1] - 1 : -1].float()
    torch.testing.assert_close(torch.stack([c for _, c in steps], dim=1), expected, rtol=2e-5, atol=1e-7)


def test_temperature_0_is_the_likeliest_continuation():
    model, prompt = make_model(), some_prompt()
    tokens = generate(model, prompt, 6, temperature=0)
    with torch.no_grad():
        for _ in range(6):
            prompt = torch.cat((prompt, model(prompt)[0][:, -1:].argmax(-1)), dim=1)
    assert torch.equal(tokens, prompt[:, -6:])


def test_draws_have_the_frequencies_of_the_probabilities():
    """20,000 rows of one prompt: each frequency within 5 deviations of its probability."""
    model, rows = make_model(), 20_000
    tokens, chances = next(stream(model, some_prompt(1).expand(rows, -1), 1, temperature=0.7, seed=3))
    found = torch.bincount(tokens, minlength=VOCABULARY) / rows
    assert ((found - chances[0]).abs() <= 5 * (chances[0] / rows).sqrt() + 1e-9).all()


def test_a_token_without_probability_is_never_drawn():
    chances = torch.tensor([0.0, 0.3, 0.0, 0.0, 0.7, 0.0])
    assert set(draw(chances.expand(100_000, -1)).tolist()) == {1, 4}


def test_the_largest_random_number_draws_the_last_token_that_has_a_probability(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *size, **_: torch.full(size, 1 - 2**-53, dtype=torch.float64))
    chances = torch.rand(1) * torch.tensor([[0.2, 0.5, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert draw(chances).tolist() == [2, 0]


def test_the_same_seed_gives_the_same_tokens_and_leaves_torch_s_generator_alone():
    model, prompt = make_model(), some_prompt(4)
    before = torch.get_rng_state()
    first = generate(model, prompt, 30, seed=5)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, generate(model, prompt, 30, seed=5))
    assert not torch.equal(first, generate(model, prompt, 30, seed=6))
    torch.manual_seed(7)
    unseeded = generate(model, prompt, 30)
    torch.manual_seed(7)
    assert torch.equal(unseeded, generate(model, prompt, 30))


def test_rows_of_a_batch_do_not_see_each_other():
    model, prompt = make_model(), some_prompt(3)
    together = generate(model, prompt, 8, temperature=0)
    assert torch.equal(together, torch.cat([generate(model, row[None], 8, temperature=0) for row in prompt]))


def test_an_empty_prompt_is_token_0():
    model = make_model()
    expected = generate(model, torch.zeros(2, 1, dtype=torch.long), 5, seed=0)
    for empty in (torch.empty(2, 0), torch.empty(2, 0, dtype=torch.long)):
        assert torch.equal(generate(model, empty, 5, seed=0), expected)


def test_temperature_top_k_and_top_p_choose_what_is_left():
    chances = torch.tensor([[0.5, 0.05, 0.3, 0.15]], dtype=torch.float64)
    logits = chances.log() + 3

    def close(found, expected):
        torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64))

    close(probabilities(logits), chances[0].tolist())
    squares = (chances**2 / (chances**2).sum())[0].tolist()
    close(probabilities(logits, temperature=0.5), squares)
    close(probabilities(logits, temperature=0), [1, 0, 0, 0])
    close(probabilities(logits, temperature=1e-30), [1, 0, 0, 0])
    close(probabilities(logits, temperature=1e-60), [1, 0, 0, 0])
    close(probabilities(logits, top_k=2), [0.625, 0, 0.375, 0])
    close(probabilities(logits, top_k=9), chances[0].tolist())
    close(probabilities(logits, top_p=0.6), [0.625, 0, 0.375, 0])
    close(probabilities(logits, top_p=0.9), [0.5 / 0.95, 0, 0.3 / 0.95, 0.15 / 0.95])
    close(probabilities(logits, top_p=1e-9), [1, 0, 0, 0])
    close(probabilities(logits, top_p=1.0), chances[0].tolist())
    # Of the two that top_k leaves, 0.625 and 0.375, the first alone has 0.6.
    close(probabilities(logits, top_k=2, top_p=0.6), [1, 0, 0, 0])


def test_logits_of_half_precision_are_divided_in_float32():
    logits = torch.randn(2, 50, dtype=torch.bfloat16)
    torch.testing.assert_close(probabilities(logits), logits.float().softmax(-1))


# The state


def test_the_prompt_is_read_in_one_pass_and_each_token_after_it_in_one_step(monkeypatch):
    model, calls = make_model(), []
    features, step = SequenceModel.features, Recurrence.__call__
    monkeypatch.setattr(
        SequenceModel, "features", lambda self, x, *a, **k: calls.append(tuple(x.shape)) or features(self, x, *a, **k)
    )
    monkeypatch.setattr(Recurrence, "__call__", lambda self, x: calls.append("step") or step(self, x))
    generate(model, some_prompt(2, 50), 4)
    assert calls == [(2, 50), "step", "step", "step"]  # nothing is computed for a token after the last


def test_the_state_does_not_grow(monkeypatch):
    model, sizes, step = make_model(), [], Recurrence.__call__

    def measured(self, x):
        sizes.append([(s.shape, s.dtype) for s in self.state[0]])
        return step(self, x)

    monkeypatch.setattr(Recurrence, "__call__", measured)
    generate(model, some_prompt(2, 3), 200)
    expected = [(s.shape, s.dtype) for s in model.initial_state(2)[0]]
    assert len(sizes) == 199
    assert all(size == expected for size in sizes)


def test_of_a_prompt_only_the_last_logits_are_worked_out(monkeypatch):
    model, prompt = make_model(cutoffs=(4, 8)), some_prompt(2, 23)
    seen = []
    model.decoder.register_forward_pre_hook(lambda _, args: seen.append(tuple(args[0].shape)))
    generate(model, prompt, 3, seed=0)
    assert seen == [(2, 16)] * 3


def test_without_features_a_prompt_whose_logits_would_fill_the_memory_is_read_in_parts(monkeypatch):
    model, prompt = make_model().double(), some_prompt(2, 23)
    whole = next(stream(model, prompt, 1, seed=0))[1]
    monkeypatch.setattr(SequenceModel, "gives_features", False)
    assert MOST_LOGITS * 4 <= 2**30
    monkeypatch.setattr(generation, "MOST_LOGITS", 2 * VOCABULARY * 5)
    lengths, forward = [], SequenceModel.forward
    monkeypatch.setattr(
        SequenceModel, "forward", lambda self, x, *a, **k: lengths.append(x.shape[1]) or forward(self, x, *a, **k)
    )
    torch.testing.assert_close(next(stream(model, prompt, 1, seed=0))[1], whole, rtol=1e-9, atol=1e-12)
    assert lengths == [5, 5, 5, 5, 3]


@pytest.mark.parametrize("cutoffs", [(), (4, 8)])  # an adaptive embedding has dropout of its own
def test_the_model_keeps_its_mode_and_is_used_without_dropout(cutoffs):
    model, prompt = make_model(dropout=0.5, norm="batch", cutoffs=cutoffs), some_prompt()
    quiet = generate(model, prompt, 5, seed=0)
    model.train()
    model.blocks[1].eval()  # a part that its owner froze
    modes = [module.training for module in model.modules()]
    steps = stream(model, prompt, 5, seed=0)
    tokens = []
    for drawn, chances in steps:
        assert [module.training for module in model.modules()] == modes  # between the steps, too
        assert not chances.requires_grad
        tokens.append(drawn)
    assert torch.equal(torch.stack(tokens, dim=1), quiet)
    assert torch.is_grad_enabled()


def test_a_mode_comes_back_after_an_error(monkeypatch):
    model = make_model().train()
    monkeypatch.setattr(Recurrence, "__call__", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        generate(model, some_prompt(), 5)
    assert model.training
    assert model.blocks[0].training


# The interface


def test_generate_is_what_stream_gives():
    model, prompt = make_model(), some_prompt()
    tokens = generate(model, prompt, 6, 0.8, 5, 0.9, 2)
    assert tokens.shape == (3, 6)
    assert tokens.dtype == torch.long
    steps = stream(model, prompt, 60, 0.8, 5, 0.9, 2)
    assert torch.equal(torch.stack([t for t, _ in itertools.islice(steps, 6)], dim=1), tokens)


def test_the_package_has_the_function_by_its_name():
    from longwave import generate as imported

    assert imported is longwave.generate is generate


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 0}, "length: expected a whole number, at least 1, got 0"),
        ({"length": 2.5}, "length: expected a whole number, at least 1, got 2.5"),
        ({"temperature": -0.1}, "temperature: expected a finite number of at least 0 .*, got -0.1"),
        ({"temperature": math.nan}, "temperature: .* got nan"),
        ({"temperature": math.inf}, "temperature: .* got inf"),
        ({"top_k": 0}, "top_k: expected a whole number, at least 1, got 0"),
        ({"top_p": 0.0}, "top_p: expected a probability above 0 and up to 1, or None for all tokens, got 0.0"),
        ({"top_p": 1.1}, "top_p: .* got 1.1"),
        ({"top_p": math.nan}, "top_p: .* got nan"),
        ({"prompt": torch.tensor([[3, VOCABULARY]])}, "prompt: expected tokens from 0 to 10, got 11"),
        ({"prompt": torch.tensor([[3, -1]])}, "prompt: expected tokens from 0 to 10, got -1"),
        ({"prompt": torch.tensor([1, 2])}, r"prompt: expected tokens \(batch, length\), at least one row, got \(2,\)"),
        ({"prompt": torch.empty(0, 3, dtype=torch.long)}, r"at least one row, got \(0, 3\)"),
        ({"prompt": torch.zeros(1, 3)}, "prompt: expected whole numbers, got torch.float32"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_when_stream_is_called_and_not_at_its_first_step(settings, message):
    with pytest.raises(ValueError, match=message):
        stream(make_model(), **{"prompt": some_prompt(), "length": 3, **settings})


def test_logits_that_are_no_numbers_are_refused_and_not_drawn_from():
    model = make_model()
    model.decoder.linear.bias.data[3] = math.nan
    for temperature in (0, 1):
        with pytest.raises(ValueError, match="model: its logits are NaN or infinite; did training"):
            generate(model, some_prompt(), 2, temperature)


def test_an_empty_prompt_is_where_the_tasks_begin():
    assert generation.START == autoregressive.START


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: make_model(bidirectional=True), "model: a bidirectional model sees future tokens"),
        (lambda: make_model(vocabulary=0), "model: expected one with a vocabulary .* got a SequenceModel"),
        (lambda: ResNet(ResNetConfig(width=2)), "got a ResNet"),
        (lambda: make_model(decoder="mean"), 'expected decoder "sequence" .* got decoder "mean"'),
        (lambda: make_model(output_size=5), "a logit for each of 11 tokens at every step, .* output_size 5"),
    ],
    ids=["bidirectional", "numbers", "resnet", "mean", "outputs"],
)
def test_a_model_that_cannot_generate_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        generate(make(), some_prompt(), 3)
