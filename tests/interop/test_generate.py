"""How tokens are drawn, against transformers' logits processors in the order in which its generate applies them."""

import pytest
import torch
from mixer_settings import sequence_config

from longwave.models.generate import generate, probabilities, stream
from longwave.models.rows import Rows

transformers = pytest.importorskip("transformers")

V = 50
CASES = [
    {"min_p": 0.1},
    {"min_p": 0.0},
    {"min_p": 1.0},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"temperature": 0.6, "min_p": 0.05},
    {"top_k": 20, "min_p": 0.2},
    {"top_p": 0.8, "min_p": 0.2},
    {"repetition_penalty": 1.5, "temperature": 1.7, "top_k": 30, "top_p": 0.9, "min_p": 0.1},
]


def processors(repetition_penalty=None, temperature=None, top_k=None, top_p=None, min_p=None):
    """Those that transformers' generate makes of these settings, in its order."""
    found = transformers.LogitsProcessorList()
    if repetition_penalty is not None:
        found.append(transformers.RepetitionPenaltyLogitsProcessor(repetition_penalty))
    if temperature is not None:
        found.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k is not None:
        found.append(transformers.TopKLogitsWarper(top_k))
    if top_p is not None:
        found.append(transformers.TopPLogitsWarper(top_p))
    if min_p is not None:
        found.append(transformers.MinPLogitsWarper(min_p))
    return found


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_probabilities_are_those_of_transformers(settings):
    logits, before = 2 * torch.randn(40, V, dtype=torch.float64), torch.randint(V, (40, 12))
    expected = processors(**settings)(before, logits.clone()).softmax(-1)
    choice = dict(settings)
    rows = Rows(before, V, choice.pop("repetition_penalty", None), [])
    torch.testing.assert_close(probabilities(rows.penalised(logits), **choice), expected)


@pytest.mark.parametrize("settings", CASES, ids=str)
def test_each_step_of_a_generation_has_the_probabilities_of_transformers(settings):
    torch.set_default_dtype(torch.float64)
    sizes = {"d_model": 8, "n_layers": 1, "vocabulary": V, "output_size": V, "decoder": "sequence"}
    model, known = sequence_config(**sizes).build().eval(), torch.randint(V, (3, 5))
    for tokens, chances in stream(model, known, 8, seed=0, **settings):
        with torch.no_grad():
            logits = model(known)[0][:, -1]
        torch.testing.assert_close(chances, processors(**settings)(known, logits).softmax(-1))
        known = torch.cat((known, tokens.unsqueeze(1)), dim=1)


def test_greedy_tokens_with_a_penalty_and_a_stop_are_those_of_gpt2s_generate():
    """GPT-2 as the model of both: its logits come from the whole sequence at every step."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=V, n_positions=64, n_embd=16, n_layer=1, n_head=2, use_cache=False)
    gpt = transformers.GPT2LMHeadModel(config).eval()
    gpt.transformer.wte.weight.data *= 20  # so that tokens differ from step to step
    prompt, stop = torch.randint(V, (4, 6)), 7
    settings = {"do_sample": False, "repetition_penalty": 1.4, "eos_token_id": stop, "pad_token_id": stop}
    expected = gpt.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=20, **settings)[:, 6:]
    rows, known, found = Rows(prompt, V, 1.4, [stop]), prompt, []
    for _ in range(20):
        with torch.no_grad():
            logits = gpt(known).logits[:, -1]
        tokens = rows.limited(probabilities(rows.penalised(logits), temperature=0)).argmax(-1)
        found.append(tokens)
        known = torch.cat((known, tokens.unsqueeze(1)), dim=1)
        if rows.add(tokens):
            break
    assert torch.equal(torch.stack(found, dim=1), expected)


def test_generate_is_what_stream_draws():
    sizes = {"d_model": 8, "n_layers": 1, "vocabulary": V, "output_size": V, "decoder": "sequence"}
    model, prompt = sequence_config(**sizes).build(), torch.randint(V, (3, 5))
    for settings in CASES:
        drawn = torch.stack([tokens for tokens, _ in stream(model, prompt, 8, seed=0, **settings)], dim=1)
        assert torch.equal(generate(model, prompt, 8, seed=0, **settings), drawn)
