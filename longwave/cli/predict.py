"""`longwave predict`: forecast or classify new data with a trained run."""

from functools import partial

from longwave.cli._action import run_action

main = partial(run_action, "predict")
