"""A model of pairs: one encoder for both sequences, what the head sees, padding."""

import dataclasses

import pytest
import torch
from mixer_settings import sequence_config
from pair_files import pair_config

from longwave.models import PairModel, SequenceConfig, Spec, load_model

SPEC = Spec(input_size=1, output_size=2, vocabulary=9, decoders=("pair",))


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = pair_config().resolve(SPEC).build()
    with torch.no_grad():  # other statistics of the norms than those of a new model
        made(torch.randint(1, 9, (4, 2, 20)), lengths=torch.randint(5, 20, (4, 2)))
    return made.eval()


def test_the_head_sees_both_their_difference_and_their_product(model):
    x, lengths = torch.randint(1, 9, (3, 2, 11)), torch.tensor([[11, 4], [7, 7], [1, 10]])
    alone = dataclasses.replace(sequence_config(d_model=6, n_layers=2, norm="batch", bidirectional=True), vocabulary=9)
    encoder = dataclasses.replace(alone, output_size=6).build().eval()
    weights = {name: value for name, value in model.state_dict().items() if not name.startswith("decoder")}
    encoder.load_state_dict(weights | {"decoder.linear.weight": torch.eye(6), "decoder.linear.bias": torch.zeros(6)})
    first, second = (encoder(x[:, k], lengths=lengths[:, k])[0] for k in (0, 1))
    (wide, _, narrow) = model.decoder.compare
    assert (wide.in_features, wide.out_features, narrow.out_features) == (24, 6, 2)
    features = torch.cat((first, second, first - second, first * second), -1)
    expected = narrow(torch.nn.functional.gelu(wide(features)))
    torch.testing.assert_close(model(x, lengths=lengths)[0], expected, rtol=1e-4, atol=1e-5)


def test_padding_has_no_effect(model):
    x, lengths = torch.randint(1, 9, (5, 2, 12)), torch.randint(1, 12, (5, 2))
    y = model(x, lengths=lengths)[0]
    wider = torch.nn.functional.pad(x, (0, 7), value=3)
    torch.testing.assert_close(model(wider, lengths=lengths)[0], y, rtol=1e-4, atol=1e-5)
    for k in range(5):
        torch.testing.assert_close(
            model(x[k : k + 1], lengths=lengths[k : k + 1])[0], y[k : k + 1], rtol=1e-4, atol=1e-5
        )


def test_both_sequences_reach_the_output_and_have_gradients(model):
    x = torch.randint(1, 9, (2, 2, 10))
    y = model(x)[0]
    for k in (0, 1):
        other = x.clone()
        other[:, k] = 9 - other[:, k]
        assert not torch.allclose(model(other)[0], y, atol=1e-4)
    y.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_it_comes_back_from_disk(model, tmp_path):
    model.save_pretrained(tmp_path)
    again = load_model(tmp_path).eval()
    x = torch.randint(1, 9, (2, 2, 10))
    assert isinstance(again, PairModel)
    assert again.config == model.config
    assert torch.equal(again(x)[0], model(x)[0])


def test_pairs_of_numbers_are_taken_as_well():
    spec = dataclasses.replace(SPEC, vocabulary=0, input_size=3)
    model = pair_config().resolve(spec).build()
    assert model(torch.randn(4, 2, 10, 3), lengths=torch.full((4, 2), 8))[0].shape == (4, 2)


def test_tasks_and_inputs_that_do_not_fit_are_refused(model):
    with pytest.raises(ValueError, match="a PairModel needs a task on pairs"):
        pair_config().resolve(dataclasses.replace(SPEC, decoders=("mean", "last")))
    with pytest.raises(
        ValueError, match=r"this task needs pair, got mean; expected a PairModel \(--model.kind PairModel"
    ):
        SequenceConfig().resolve(SPEC)
    with pytest.raises(ValueError, match=r"x: expected pairs, \(batch, 2, length\), got"):
        model(torch.randint(1, 9, (4, 20)))
    with pytest.raises(ValueError, match="and has no state"):
        model(torch.randint(1, 9, (4, 2, 20)), need_state=True)
    with pytest.raises(ValueError, match="not single steps"):
        model.step(torch.zeros(4, 2), None)
    assert not model.config.streams
