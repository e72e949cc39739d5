"""Classes by random convolutions and a deep model: who answers for which row, and by how much each of them counts."""

import dataclasses

import numpy as np
import pytest
import torch
from tiny import assert_resumes_to_the_bit

from longwave.layers import S4Config
from longwave.models import ClassifierConfig, Spec, load_model
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.sequences.data import from_arrays

CONFIG = ClassifierConfig(
    convolutions=200, d_model=4, n_layers=1, mixer=S4Config(d_state=4, bidirectional=True), dropout=0.0
)


def frequencies(count=48, seed=0):
    """Waves of two frequencies with a random phase."""
    generator = np.random.default_rng(seed)
    time = np.arange(40)
    x = [np.sin(time * (0.3 + 0.4 * (k % 2)) + generator.uniform(0, 6)) for k in range(count)]
    return from_arrays(np.array(x), [str(k % 2) for k in range(count)])


def started(holdout=True, balance=False, **settings):
    """A task and a new model that was started from it."""
    task, config = ClassifyConfig(balance=balance).on(frequencies()), dataclasses.replace(CONFIG, **settings)
    if holdout:
        task, config, *_ = task.for_model(config)
    config = config.resolve(task.spec)
    torch.manual_seed(0)
    model = config.build()
    config.prepare(model, task.spec)
    return task, model


def changed(model):
    """Other weights in every parameter."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape))


def test_the_deep_model_has_the_settings_that_it_shares_with_the_classifier():
    deep = dataclasses.replace(CONFIG, norm="layer", dropout=0.3, input_size=2, output_size=5).build().model.config
    assert (deep.d_model, deep.n_layers, deep.mixer) == (CONFIG.d_model, CONFIG.n_layers, CONFIG.mixer)
    assert (deep.norm, deep.dropout, deep.tie_dropout) == ("layer", 0.3, CONFIG.tie_dropout)
    assert (deep.input_size, deep.output_size, deep.decoder) == (2, 5, "mean")


def test_the_answer_is_a_mean_of_both_in_the_logarithm():
    task, model = started(holdout=False)
    batch = task.test.batch(range(4))
    model.eval()
    deep, ridge = model.deep(batch["x"])[0], model.ridge(batch["x"])
    for share in (0.0, 0.3, 1.0):
        model.share.fill_(share)
        torch.testing.assert_close(model(batch["x"])[0], (1 - share) * deep + share * ridge)


def test_in_training_the_deep_model_is_alone():
    task, model = started(holdout=False)
    batch = task.test.batch(range(4))
    model.train()
    assert torch.equal(model(batch["x"])[0], model.model(batch["x"])[0])


def test_without_convolutions_the_deep_model_is_alone():
    task, model = started(holdout=False, convolutions=0)
    x = task.test.batch(range(4))["x"]
    model.eval()
    torch.testing.assert_close(model(x)[0], model.model(x)[0].log_softmax(-1))
    assert model.parts == {}


def test_the_ridge_regression_that_was_solved_tells_the_classes_apart():
    task, model = started()
    model.eval()
    for split in (task.valid, task.test):
        batch = split.batch(range(len(split)))
        assert (model.ridge(batch["x"], held=batch.get("held")).argmax(1) == batch["y"]).all()


def test_nothing_that_was_fitted_to_a_held_row_answers_for_it():
    """The holdout model and the second ridge regression predict held rows, and no others."""
    task, model = started()
    model.eval()
    batch = task.valid.batch(range(len(task.valid)))
    assert batch["held"].all()
    before, plain = model(batch["x"], held=batch["held"])[0], model(batch["x"])[0]
    changed(model.model)
    model.weight[0] += 1
    assert torch.equal(before, model(batch["x"], held=batch["held"])[0])
    assert not torch.equal(plain, model(batch["x"])[0])
    plain = model(batch["x"])[0]
    changed(model.holdout_model)
    model.weight[1] -= torch.randn(model.weight[1].shape)
    assert not torch.equal(before, model(batch["x"], held=batch["held"])[0])
    assert torch.equal(plain, model(batch["x"])[0])


def test_the_second_ridge_regression_is_solved_without_the_held_rows():
    task, model = started()
    examples = task.spec.examples()
    kept = ~examples["held"]
    _, other = started()
    other.start(examples["x"][kept], examples["y"][kept])
    # The convolutions start from other examples, so that the features differ: their scores are compared instead.
    x = task.test.batch(range(len(task.test)))["x"]
    held = torch.ones(len(x), dtype=torch.bool)
    model.eval(), other.eval()
    assert (model.ridge(x, held=held).argmax(1) == other.ridge(x).argmax(1)).all()
    labels = examples["y"].clone()
    labels[~kept] = 1 - labels[~kept]  # a lie about the held rows
    model.start(examples["x"], labels, held=examples["held"])
    assert (model.ridge(x, held=held).argmax(1) == other.ridge(x).argmax(1)).all()


def test_held_rows_train_the_model_and_not_the_holdout_model():
    task, model = started()
    model.train()
    rows = np.flatnonzero(task.train.rows["held"])[:4]
    task.outcome(model, task.train.batch(rows)).loss.backward()
    assert all(float(p.grad.abs().sum()) == 0 for p in model.holdout_model.parameters() if p.grad is not None)
    assert any(float(p.grad.abs().sum()) > 0 for p in model.model.parameters())
    rows = np.flatnonzero(~task.train.rows["held"])[:4]
    task.outcome(model, task.train.batch(rows)).loss.backward()
    assert any(float(p.grad.abs().sum()) > 0 for p in model.holdout_model.parameters())


def test_the_layers_that_a_report_shows_are_those_of_the_model_and_not_of_the_holdout_model():
    _, model = started()
    assert model.holdout_model is not None
    assert model.state_spaces == model.model.state_spaces
    assert len(model.state_spaces) == CONFIG.n_layers


def certain_batches(model, count, right="ridge"):
    """Batches in which one of the two parts is always right and the other always wrong."""
    task, _ = started(holdout=False)
    batch = task.train.batch(range(2))
    y = getattr(model, right)(batch["x"])
    y = (y if right == "ridge" else y[0]).argmax(1)
    yield {"x": batch["x"][:1].repeat(count, 1, 1), "y": y[:1].repeat(count)}


def test_the_share_goes_to_the_part_that_is_right_and_stays_near_a_half_where_there_is_doubt():
    _, model = started(holdout=False)
    model.eval()
    model.choose_share(iter(()))
    assert float(model.share) == 0.5
    with torch.no_grad():  # a deep model that is sure of the other class
        y = int(model.ridge(next(certain_batches(model, 1))["x"]).argmax())
        model.model.decoder.linear.weight.zero_()
        model.model.decoder.linear.bias.copy_(torch.tensor([4.0, -4.0] if y else [-4.0, 4.0]))
    model.choose_share(certain_batches(model, 1))
    few = float(model.share)
    model.choose_share(certain_batches(model, 100))
    assert 0.5 < few < float(model.share) == 1.0
    model.choose_share(certain_batches(model, 100, "deep"))
    assert float(model.share) < 0.3


def test_where_classes_count_alike_their_shares_are_out_of_the_ridge_regression():
    """With weights, the offset is that without, less the logarithm of the counts."""
    task, model = started(holdout=False)
    examples = task.spec.examples()
    keep = torch.cat([(examples["y"] == 0).nonzero()[:5, 0], (examples["y"] == 1).nonzero()[:15, 0]])
    some = {name: values[keep] for name, values in examples.items()}
    model.start(**some)
    plain = model.offset.clone()
    model.start(**some, weight=torch.ones(len(keep)))
    torch.testing.assert_close(plain - model.offset, torch.tensor([[5.0, 15.0]]).log())


def test_padding_changes_nothing():
    _, model = started(holdout=False)
    model.eval()
    x = torch.randn(3, 40, 1)
    x[1, 30:] = 0
    lengths = torch.tensor([40, 30, 40])
    torch.testing.assert_close(model(x, lengths=lengths)[0][1:2], model(x[1:2, :30])[0], rtol=1e-4, atol=1e-5)


def test_a_classifier_on_disk_gives_the_same_answers(tmp_path):
    task, model = started()
    model.share.fill_(0.35)
    model.save_pretrained(tmp_path)
    batch = task.valid.batch(range(4))
    model.eval()
    other = load_model(tmp_path).eval()
    for held in (None, batch["held"]):
        assert torch.equal(model(batch["x"], held=held)[0], other(batch["x"], held=held)[0])


def test_a_run_with_a_holdout_model_resumes_to_the_bit(tmp_path):
    """Share and ridge regression included, which no step trains."""
    assert_resumes_to_the_bit(
        tmp_path, ClassifyConfig().on(frequencies()), kind=dataclasses.replace(CONFIG, dropout=0.1)
    )


def test_a_task_without_classes_of_sequences_is_refused():
    with pytest.raises(ValueError, match="model: a Classifier needs a task with one class per sequence"):
        CONFIG.resolve(Spec(input_size=1, output_size=1, decoders=("forecast",)))


def test_a_task_that_gives_no_examples_is_left_to_the_deep_model():
    spec = Spec(input_size=1, output_size=3, decoders=("mean", "last"))
    assert CONFIG.resolve(spec).convolutions == 0


@pytest.mark.parametrize("name", ["state", "time"])
def test_what_a_classifier_does_not_take_is_refused(name):
    _, model = started(holdout=False)
    with pytest.raises(ValueError, match=f"{name}: a Classifier takes whole sequences"):
        model(torch.zeros(1, 40, 1), **{name: torch.zeros(1)})
