"""Generation with min_p, a penalty on repetition, and stop tokens, against numbers worked out by hand.

tests/interop compares them with transformers.
"""

import math

import pytest
import torch
from mixer_settings import sequence_config

from longwave.models.generate import generate, probabilities, stream
from longwave.models.rows import Rows

V = 7


def make(**settings):
    sizes = {"d_model": 8, "n_layers": 1, "vocabulary": V, "output_size": V, "decoder": "sequence"}
    return sequence_config(**sizes | settings).build().eval()


def some_prompt(batch=3, length=4):
    return torch.randint(V, (batch, length))


# min_p


def test_min_p_leaves_tokens_by_their_share_of_the_likeliest():
    chances = torch.tensor([[0.5, 0.05, 0.3, 0.15]], dtype=torch.float64)

    def close(found, expected):
        torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64))

    close(probabilities(chances.log(), min_p=0), chances[0].tolist())
    close(probabilities(chances.log(), min_p=0.2), [0.5 / 0.95, 0, 0.3 / 0.95, 0.15 / 0.95])
    close(probabilities(chances.log(), min_p=0.55), [0.625, 0, 0.375, 0])
    close(probabilities(chances.log(), min_p=1), [1, 0, 0, 0])
    # After the temperature: squares are 0.25, 0.0025, 0.09, 0.0225, of which 0.0225 is less than 0.1 x 0.25.
    close(probabilities(chances.log(), temperature=0.5, min_p=0.1), [0.25 / 0.34, 0, 0.09 / 0.34, 0])
    close(probabilities(chances.log(), top_k=2, min_p=0.2), [0.625, 0, 0.375, 0])
    close(probabilities(chances.log(), top_p=0.9, min_p=0.55), [0.625, 0, 0.375, 0])


# The penalty


def test_the_penalty_divides_positive_logits_and_multiplies_negative_ones():
    rows = Rows(torch.tensor([[0, 1, 1], [3, 3, 3]]), 4, 2.0, [])
    logits = torch.tensor([[4.0, -4.0, 4.0, -4.0]] * 2)
    assert rows.penalised(logits).tolist() == [[2, -8, 4, -4], [4, -4, 4, -8]]
    rows.add(torch.tensor([2, 3]))  # what is drawn counts too, and once only
    assert rows.penalised(logits).tolist() == [[2, -8, 2, -4], [4, -4, 4, -8]]
    assert rows.penalised(logits.bfloat16()).dtype == torch.float32


def test_a_large_penalty_never_repeats_a_token_while_there_are_others():
    model = make()
    model.decoder.linear.bias.data += 50  # positive, so that all of a penalised logit goes
    tokens = generate(model, torch.zeros(2, 1, dtype=torch.long), V - 1, 0, repetition_penalty=1e6)
    assert [sorted(row) for row in tokens.tolist()] == [list(range(1, V))] * 2


def test_the_penalty_comes_before_the_temperature():
    model, prompt = make(), some_prompt()
    _, chances = next(stream(model, prompt, 1, temperature=0.5, repetition_penalty=1.5))
    with torch.no_grad():
        logits = model(prompt)[0][:, -1]
    for row, tokens, found in zip(logits, prompt, chances, strict=True):
        had = torch.tensor([token in tokens for token in range(V)])
        penalised = torch.where(had, torch.where(row < 0, row * 1.5, row / 1.5), row)
        torch.testing.assert_close(found, (penalised / 0.5).softmax(-1), rtol=1e-4, atol=1e-6)


def test_a_penalty_of_1_changes_nothing():
    model, prompt = make(), some_prompt()
    plain = generate(model, prompt, 20, seed=0)
    assert torch.equal(generate(model, prompt, 20, seed=0, repetition_penalty=1.0, min_p=0.0), plain)


# Stop tokens


@pytest.mark.parametrize("stop", [2, [2], (2, 5)], ids=str)
def test_a_row_repeats_the_token_that_ended_it_and_the_others_do_not_notice(stop):
    model, prompt = make(), some_prompt(6)
    plain = generate(model, prompt, 40, seed=1)
    found = generate(model, prompt, 40, seed=1, stop=stop)
    stops = [stop] if isinstance(stop, int) else stop
    ends = [next((k for k, token in enumerate(row) if token in stops), 40) for row in plain.tolist()]
    assert min(ends) < max(ends) < 39
    assert found.shape == (6, max(ends) + 1)  # where the last row has ended
    for row, before, end in zip(found, plain, ends, strict=True):
        assert torch.equal(row[: end + 1], before[: end + 1])
        assert (row[end:] == row[end]).all()


def test_a_row_that_has_ended_has_one_token_to_draw_from():
    model = make()
    model.decoder.linear.bias.data[3] = 100  # all others are as good as impossible
    steps = list(stream(model, some_prompt(2), 5, stop=3))
    assert len(steps) == 1
    rows = Rows(torch.tensor([[3], [0]]), V, None, [3])
    assert not rows.ended.any()  # the prompt's own tokens end nothing
    assert not rows.add(torch.tensor([3, 1]))
    chances = torch.full((2, V), 1 / V)
    found = rows.limited(chances)
    assert found[0].tolist() == [0, 0, 0, 1, 0, 0, 0]
    assert torch.equal(found[1], chances[1])
    assert rows.add(torch.tensor([3, 3]))


def test_without_a_stop_token_among_them_all_tokens_are_made():
    model, prompt = make(), some_prompt()
    model.decoder.linear.bias.data[3] = -1000
    assert generate(model, prompt, 9, stop=3).shape == (3, 9)
    assert generate(model, prompt, 9, stop=[]).shape == (3, 9)


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_p": -0.1}, "min_p: expected a share from 0 to 1, or None for all tokens, got -0.1"),
        ({"min_p": 1.1}, "min_p: .* got 1.1"),
        ({"min_p": math.nan}, "min_p: .* got nan"),
        ({"repetition_penalty": 0.0}, "repetition_penalty: expected a finite number above 0, or None, got 0.0"),
        ({"repetition_penalty": math.inf}, "repetition_penalty: .* got inf"),
        ({"stop": V}, "stop: expected tokens from 0 to 6, got 7"),
        ({"stop": [1, -1]}, "stop: expected tokens from 0 to 6, got -1"),
        ({"stop": [2.5]}, "stop: expected tokens from 0 to 6, got 2.5"),
        ({"stop": True}, "stop: expected tokens from 0 to 6, got True"),
    ],
    ids=str,
)
def test_a_mistake_is_refused_when_stream_is_called(settings, message):
    with pytest.raises(ValueError, match=message):
        stream(make(), some_prompt(), 3, **settings)


def test_a_penalty_is_refused_where_the_prompt_has_other_tokens_than_the_result():
    with pytest.raises(ValueError, match="repetition_penalty: expected None, since this model reads other tokens"):
        stream(make(), some_prompt(), 3, repetition_penalty=1.2, reads=lambda tokens, first: tokens)
