"""`longwave generate`: write text, draw images or make sound with a trained run."""

from functools import partial

from longwave.cli._action import run_action

main = partial(run_action, "generate")
