"""A training step of a named experiment: what is run, what is refused, and what is not started."""

import pytest
import torch

from longwave.bench import step
from longwave.bench.step import StepBench, measure_step

pytestmark = pytest.mark.usefixtures("tiny")


@pytest.mark.parametrize(("accumulate", "parts"), [(None, 1), (2, 2), (9, 5)])
def test_the_step_is_that_of_training_on_the_whole_batch(accumulate, parts, monkeypatch):
    """Forward, backward and optimiser, in as many parts as are wanted, but no more than there are rows."""
    taken = []

    whole_step = step.Run.step

    def watched(run, batch):
        weights = [p.detach().clone() for p in run.model.parameters()]
        whole_step(run, batch)
        moved = any(not torch.equal(a, b) for a, b in zip(weights, run.model.parameters(), strict=True))
        taken.append((tuple(batch["x"].shape), run.experiment.optim.accumulate, moved))

    monkeypatch.setattr(step.Run, "step", watched)
    monkeypatch.setattr(step, "wall_and_processor", lambda run, device: (run(), (0.5, 0.4))[1])
    row = measure_step("lra-listops", accumulate, quick=False)
    assert taken == [((5, 12), parts, True)] * step.REPEATS
    assert (row["batch"], row["length"], row["parts"], row["step_seconds"]) == (5, 12, parts, 0.5)
    assert row["processor_seconds"] == 0.4
    assert row["reason"] is None


def test_a_step_that_does_not_fit_is_not_started_and_the_table_says_so(monkeypatch):
    monkeypatch.setattr(step, "available_bytes", lambda device: 1000)
    monkeypatch.setattr(step, "wall_and_processor", lambda *_: pytest.fail("started"))
    bench = StepBench(names=("lra-text",))
    result = bench.run(lambda _: None)
    (table,) = bench.tables(result)
    assert table.rows[0][4] == table.rows[0][5] == table.rows[0][7] == "-"
    (note,) = table.notes
    assert note.startswith("lra-text: not run: it needs about ")
    assert note.endswith("GB are free; a larger --accumulate needs less")


def test_memory_is_extrapolated_from_few_rows(monkeypatch):
    peaks = iter([100, 140, 0])
    monkeypatch.setattr(step, "peak_bytes", lambda device: next(peaks))
    monkeypatch.setattr(step, "available_bytes", lambda device: 179)
    row = measure_step("lra-listops", None, quick=False)
    assert row["peak_bytes"] == 180  # 100 for one row, 140 for three, so 20 for each of the two others


def test_what_cannot_be_run_is_refused_before_anything_is(monkeypatch):
    with pytest.raises(ValueError, match=r"unknown experiment 'lra-listop'.*did you mean 'lra-listops'"):
        StepBench(names=("lra-text", "lra-listop")).check()
    with pytest.raises(ValueError, match=r"^accumulate: expected at least 1, got 0$"):
        StepBench(accumulate=0).check()
    monkeypatch.undo()
    with pytest.raises(ValueError, match="the shapes of forecast are not known without its data"):
        StepBench(names=("forecast",)).check()
    with pytest.raises(ValueError, match="context: expected a number of rows, as noise has no season"):
        StepBench(names=("etth1-24-hybrid",)).check()


@pytest.mark.parametrize(("name", "length"), [("etth1-24", 384 + 24), ("ettm1-672-m", 384 + 672)])
def test_a_forecast_is_measured_on_windows_of_noise(name, length, monkeypatch):
    monkeypatch.undo()
    row = measure_step(name, None, quick=True)
    assert (row["batch"], row["length"], row["reason"]) == (2, length, None)


def test_a_language_model_is_measured_at_another_context():
    row = measure_step("wikitext103", None, quick=True, length=20)
    assert (row["batch"], row["length"], row["reason"]) == (2, 20, None)
    assert row["parameters"] > 267_735
    with pytest.raises(ValueError, match="length: expected at least 2, got 1 for wikitext103"):
        StepBench(names=("wikitext103",), length=1).check()


def test_a_quick_step_has_two_rows():
    assert measure_step("lra-listops", None, quick=True)["batch"] == step.QUICK_ROWS
