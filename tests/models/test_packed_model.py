"""A deep model on packed batches: the outputs and gradients of each sequence alone."""

import pytest
import torch
from mixer_settings import sequence_config

from longwave.models import SequenceModel

LENGTHS = [30, 0, 1, 90, 7]
CU_SEQLENS = torch.tensor([0, *LENGTHS]).cumsum(0)


def make(**settings):
    sizes = {"d_model": 8, "n_layers": 2, "vocabulary": 11, "output_size": 11, "decoder": "sequence"}
    return SequenceModel(sequence_config(**sizes | settings))


@pytest.mark.parametrize(
    "settings",
    [{}, {"mixer": "s4d"}, {"bidirectional": True}, {"gradient_checkpointing": True}, {"feed_forward": 12}],
    ids=str,
)
def test_packed_tokens_equal_each_sequence_alone(settings):
    torch.set_default_dtype(torch.float64)
    model, x = make(**settings), torch.randint(11, (1, sum(LENGTHS)))
    labels = torch.randint(11, (1, sum(LENGTHS)))
    loss, logits = model(x, cu_seqlens=CU_SEQLENS, labels=labels)
    alone = torch.cat([model(part)[0] for part in x.split(LENGTHS, dim=1) if part.shape[1]], dim=1)
    torch.testing.assert_close(logits, alone, rtol=1e-11, atol=1e-12)
    expected = torch.autograd.grad(torch.nn.functional.cross_entropy(alone[0], labels[0]), list(model.parameters()))
    found = torch.autograd.grad(loss, list(model.parameters()))
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_batch_norm_counts_every_step_once():
    torch.set_default_dtype(torch.float64)
    model, x = make(norm="batch"), torch.randint(11, (1, sum(LENGTHS)))
    padded = torch.nn.utils.rnn.pad_sequence(x[0].split(LENGTHS), batch_first=True)
    packed = model(x, cu_seqlens=CU_SEQLENS)[0][0].split(LENGTHS)
    rows, _ = model(padded, lengths=torch.tensor(LENGTHS))
    for row, found, length in zip(rows, packed, LENGTHS, strict=True):
        torch.testing.assert_close(row[:length], found, rtol=1e-9, atol=1e-12)


def test_the_state_is_that_of_each_sequence():
    torch.set_default_dtype(torch.float64)
    model, x, after = make(), torch.randint(11, (1, sum(LENGTHS))), torch.randint(11, (len(LENGTHS), 5))
    _, state = model(x, cu_seqlens=CU_SEQLENS, need_state=True)
    y, _ = model(after, state)
    for k, part in enumerate(x.split(LENGTHS, dim=1)):
        whole, _ = model(torch.cat((part, after[k : k + 1]), dim=1))
        torch.testing.assert_close(y[k], whole[0, -5:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "arguments", "message"),
    [
        ({"decoder": "mean"}, {}, 'cu_seqlens: expected decoder "sequence", got "mean"; pad the sequences'),
        ({}, {"lengths": torch.tensor([128])}, "lengths: expected None beside cu_seqlens"),
        ({}, {"state": make().initial_state(5)}, "state: expected None beside cu_seqlens"),
        (
            {"tie_dropout": True, "dropout": 0.1},
            {},
            "cu_seqlens: with tie_dropout all packed sequences would share one mask",
        ),
        ({"mixer": "lstm"}, {}, "cu_seqlens: only S4 and S4D take it, got Recurrent"),
    ],
    ids=["decoder", "lengths", "state", "dropout", "mixer"],
)
def test_packed_sequences_that_would_mix_are_refused(settings, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**settings)(torch.randint(11, (1, 128)), cu_seqlens=CU_SEQLENS, **arguments)
