"""Forecasting a series with gaps: what is not known is learnt from by no model and counted by no score."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from constant_model import answering
from tiny import assert_resumes_to_the_bit, make_experiment, make_run

from longwave.tasks.base import add_up, batches
from longwave.tasks.forecast.baselines import BASELINES, evaluate, fit, table
from longwave.tasks.forecast.series import Series, carry_forward
from longwave.tasks.forecast.task import ForecastConfig, make_task
from longwave.tasks.forecast.windows import ForecastData

CONTEXT, HORIZON = 7, 5
BORDERS = (60, 80, 100)
HOUR = np.timedelta64(3600, "s")


def random_walks(rows=100, columns=3, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns)).cumsum(axis=0)


def some_known(rows=100, columns=3, seed=1):
    """Single gaps, one that is longer than a window in the first column, and one at the beginning of the second."""
    known = np.random.default_rng(seed).random((rows, columns)) > 0.2
    known[20:40, 0] = known[:15, 1] = False
    return known


def with_gaps(values, known):
    times = np.datetime64("2024-01-01T00:00:00") + np.arange(len(values)) * HOUR
    filled = carry_forward(np.where(known, values, np.nan))
    return Series(filled, tuple("abc"[: values.shape[1]]), 0, times, HOUR, known=known)


def make(series, borders=BORDERS, context=CONTEXT, horizon=HORIZON):
    return make_task(ForecastData("made", series, borders, "made"), context, horizon)


@pytest.fixture
def task():
    return make(with_gaps(random_walks(), some_known()))


def slowly_counted(task, windows):
    """Which values of each window count, one by one: known ones, if one of their column is in the context."""
    known = task.data.series.known
    for start in range(windows.first - CONTEXT, windows.end - CONTEXT - HORIZON + 1):
        context, horizon = known[start : start + CONTEXT], known[start + CONTEXT : start + CONTEXT + HORIZON]
        yield [[horizon[step, k] and context[:, k].any() for k in range(known.shape[1])] for step in range(HORIZON)]


def test_a_value_counts_if_it_is_known_and_one_of_its_column_in_the_context(task):
    for windows in (task.train, task.valid, task.test):
        expected = np.array(list(slowly_counted(task, windows)))
        batch = windows.batch(range(len(windows)))
        np.testing.assert_array_equal(batch["known"].numpy(), expected)
        assert task.count(batch) == expected.sum()
        assert windows.has_targets()
    assert not expected.all()


def test_single_columns_have_the_gaps_of_their_column(task):
    single = replace(task.train, single=True, stride=2, offset=1)
    batch = single.batch(range(len(single)))
    for index in range(len(single)):
        whole = task.train.batch([1 + index // 3 * 2])["known"]
        assert torch.equal(batch["known"][index], whole[0, :, index % 3 : index % 3 + 1])


def test_what_stands_where_nothing_is_known_changes_no_loss_score_or_gradient(task):
    torch.manual_seed(0)
    batch = task.test.batch(range(len(task.test)))
    outcomes = []
    for there in (0.0, 1e6, torch.nan):
        output = torch.linspace(-1, 1, batch["y"].numel()).reshape(batch["y"].shape).requires_grad_()
        y = torch.where(batch["known"], batch["y"], there)
        outcome = task.outcome(answering(output), batch | {"y": y})
        outcome.loss.backward()
        assert (output.grad[~batch["known"]] == 0).all()
        outcomes.append((outcome.loss.detach(), outcome.scores["mse"], outcome.scores["mae"], output.grad))
    for other in outcomes[1:]:
        torch.testing.assert_close(other, outcomes[0], rtol=0, atol=0)
    known = batch["known"].numpy()
    error = (output.detach() - batch["y"]).numpy()[known]
    for score, expected in (("mse", np.square(error).sum()), ("mae", np.abs(error).sum())):
        total, count = outcomes[0][1 if score == "mse" else 2]
        assert float(total) == pytest.approx(float(expected), rel=1e-5)
        assert count == known.sum()


@pytest.mark.parametrize("size", [1, 4, 100])
def test_batches_of_any_size_add_up_to_the_same_scores(task, size):
    """Of which some have nothing that counts."""
    output = torch.randn(len(task.train), HORIZON, 3, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    sums, start = {}, 0
    for batch in batches(task.train, size):
        sums = add_up(sums, task.outcome(answering(output[start : start + size]), batch).scores)
        start += size
    whole = task.train.batch(range(len(task.train)))
    known = whole["known"]
    error = (output - whole["y"])[known]
    assert sums["mse"][1] == sums["mae"][1] == int(known.sum())
    assert float(sums["mse"][0]) == pytest.approx(float(error.square().sum()), rel=1e-12)
    assert float(sums["mae"][0]) == pytest.approx(float(error.abs().sum()), rel=1e-12)


def test_columns_are_standardised_by_what_is_known_of_the_train_part(task):
    values, known = random_walks()[: BORDERS[0]], some_known()[: BORDERS[0]]
    for k in range(3):
        assert task.inputs.mean[k] == pytest.approx(values[known[:, k], k].mean(), rel=1e-12)
        assert task.inputs.deviation[k] == pytest.approx(values[known[:, k], k].std(), rel=1e-12)


def test_what_is_known_after_a_window_changes_nothing_that_it_sees(task):
    """Each window of the test set, with all that follows its context changed, gaps as well as values."""
    values, known = random_walks(), some_known()
    for index in range(len(task.test)):
        row = BORDERS[1] + index
        later_values, later_known = values.copy(), known.copy()
        later_values[row:] += 100
        later_known[row:] = ~known[row:]
        changed = make(with_gaps(later_values, later_known))
        assert torch.equal(changed.test.batch([index])["x"], task.test.batch([index])["x"])


def test_every_baseline_is_scored_over_the_values_that_the_model_is_scored_over(task):
    whole = task.test.batch(range(len(task.test)))
    known = whole["known"]
    forecasts = {name: fit(name, task) for name in BASELINES if name != "seasonal-naive"}  # a day is longer
    for name, forecast in forecasts.items():
        error = (forecast(whole["x"]) - whole["y"])[known]
        found = evaluate(forecast, task, task.test)
        assert found["mse"] == pytest.approx(float(error.square().mean()), rel=1e-12), name
        assert found["mae"] == pytest.approx(float(error.abs().mean()), rel=1e-12), name
    assert set(table(task)) == set(forecasts)


def test_without_gaps_nothing_is_masked_and_all_is_the_same_to_the_bit(tmp_path):
    rows = "".join(f"{a!r},{b!r}\n" for a, b in random_walks(200, 2).tolist())
    (tmp_path / "a.csv").write_text("a,b\n" + rows)
    plain = ForecastConfig("own", True, 5, 24, csv=tmp_path / "a.csv", target="a")
    masked = replace(plain, fill="mask")
    before, now = plain.build(), masked.build()
    assert now.describe() == before.describe()
    assert now.train.known is None
    for index in (0, 7):
        old, new = (task.train.batch([index]) for task in (before, now))
        assert list(old) == list(new) == ["x", "y"]
        assert all(torch.equal(old[name], new[name]) for name in old)
    assert table(now) == table(before)


def test_settings_with_gaps_come_back_from_json():
    settings = ForecastConfig(fill="mask")
    assert ForecastConfig.from_dict(json.loads(json.dumps(settings.to_dict()))) == settings
    with pytest.raises(ValueError, match='fill: expected "linear" or "mask" or null, got'):
        ForecastConfig.from_dict({"fill": "zero"})


def test_the_fingerprint_knows_a_gap_from_a_value_that_stays_the_same(task):
    series = task.data.series
    closed = replace(series, known=np.ones_like(series.known))
    assert make(closed).fingerprint["digest"] != task.fingerprint["digest"]
    assert make(series).fingerprint == task.fingerprint


def test_the_range_of_training_is_that_of_known_values(task):
    values, known = random_walks()[: BORDERS[0]], some_known()[: BORDERS[0]]
    low, high = task.describe()["range"]
    for k in range(3):
        assert (low[k], high[k]) == (values[known[:, k], k].min(), values[known[:, k], k].max())


# Training


def run_of(task, folder, **changes):
    experiment = make_experiment(
        {"decoder": "forecast", "dropout": 0.0}, loop={"batch_size": 9}, **changes
    )  # dropout draws otherwise for other parts of a batch
    experiment = replace(experiment, model=experiment.model.resolve(task.spec))
    return make_run(folder, experiment, task, quiet=True)


def test_a_run_on_gaps_goes_on_to_the_bit(task, tmp_path):
    assert_resumes_to_the_bit(tmp_path, task, decoder="forecast")


@pytest.mark.parametrize("accumulate", [2, 5, 100])
def test_accumulation_gives_the_gradient_of_the_whole_batch_however_unequal_its_rows_are(accumulate, task, tmp_path):
    torch.set_default_dtype(torch.float64)
    batch = {name: v.double() if v.is_floating_point() else v for name, v in task.train.batch(range(21)).items()}
    assert len({int(row.sum()) for row in batch["known"]}) > 3
    found = []
    for parts in (1, accumulate):
        run = run_of(task, tmp_path / str(parts), optim={"accumulate": parts})
        run.optimizer.zero_grad = lambda: None
        loss = run.step(batch)
        found.append({"loss": torch.tensor(loss)} | {name: p.grad for name, p in run.model.named_parameters()})
    torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)


def test_a_batch_in_which_nothing_counts_does_not_break_a_run(tmp_path):
    known = np.ones((100, 1), bool)
    known[20:40] = False
    task = make(with_gaps(random_walks(columns=1), known))
    index = 20 - CONTEXT  # whose horizon is in the gap
    batch = task.train.batch([index])
    assert task.count(batch) == 0
    run = run_of(task, tmp_path)
    assert run.step(batch) == 0
    assert all(p.isfinite().all() for p in run.model.parameters())
    run.loading.order = lambda epoch: [[index]]
    assert run._first_loss() == 0


# What cannot be learnt or scored


def test_a_column_of_which_nothing_is_known_in_the_train_part_is_refused():
    known = some_known()
    known[: BORDERS[0], 1] = False
    message = "column 'b': no known value in the training set, the first 60 rows; leave the column out"
    with pytest.raises(ValueError, match=message):
        make(with_gaps(random_walks(), known))


@pytest.mark.parametrize(("part", "rows"), [("train", (1, 60)), ("valid", (60, 80)), ("test", (73, 100))])
def test_a_part_in_which_nothing_counts_is_refused(part, rows):
    known = np.ones((100, 3), bool)
    known[slice(*rows)] = False
    first = CONTEXT if part == "train" else {"valid": 60, "test": 80}[part]
    message = f"the {part} split, rows {first} to .*, has nothing to forecast: expected a known value, and another"
    with pytest.raises(ValueError, match=message):
        make(with_gaps(random_walks(), known))


def test_a_column_that_is_not_scored_is_said():
    known = np.ones((100, 3), bool)
    known[70:, 1] = False
    known[60:, 2] = False
    task = make(with_gaps(random_walks(), known))
    assert [note for note in task.notes if "scored" in note] == [
        "column 'b' has no known value in test, and is not scored there",
        "column 'c' has no known value in valid and test, and is not scored there",
    ]
