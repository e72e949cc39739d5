"""What a finished run says of its scores."""

import pytest
from tiny import make_task

from longwave.runs import FEW_STEPS, notes_on

RESULT = {"steps": FEW_STEPS, "test": {"mse": 0.5}, "baselines": {}}


@pytest.mark.parametrize(
    ("higher", "scores", "better"),
    [(False, {"a": 0.6, "b": 0.4, "c": 0.3}, "c"), (False, {"a": 0.5}, None), (True, {"a": 0.4, "b": 0.6}, "b")],
)
def test_a_better_baseline_is_named_and_an_equal_one_is_not(higher, scores, better):
    baselines = {name: {"test": {"mse": value}} for name, value in scores.items()} | {"other": {"test": {"mae": 0.0}}}
    notes = notes_on(RESULT | {"baselines": baselines}, make_task(higher_is_better=higher))
    assert len(notes) == (better is not None)
    if better is not None:
        figures = f"mse {scores[better]:.4f} on the test set against 0.5000"
        assert notes[0] == f"the baseline {better} is better than this run: {figures}"


def test_a_run_of_few_steps_is_said_to_be_too_short_to_be_judged():
    assert notes_on(RESULT, make_task()) == []
    (note,) = notes_on(RESULT | {"steps": FEW_STEPS - 1}, make_task())
    assert note == f"the run took {FEW_STEPS - 1} steps, too few to judge the model by: give it more --loop.epochs"
