"""Text that follows a prompt, with a trained run."""

from pathlib import Path

import pytest

from longwave.runs import load_run
from longwave.tasks.text import generate as text
from longwave.tasks.text.generate import Sampling, write_text

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def run(trained_runs):
    trained_runs.fetch("text")
    return Path("run")


def test_text_goes_on_from_the_prompt_and_the_same_seed_writes_the_same(run):
    first, same, other = ("".join(write_text(load_run(str(run)), "abé", 40, seed=seed)) for seed in (3, 3, 4))
    assert first.startswith("abé")
    assert first == same != other


def test_text_is_made_as_it_is_read(run, monkeypatch):
    steps = []
    monkeypatch.setattr(text, "stream", lambda *_, **__: ((steps.append(k) or 65 + k, None) for k in range(9)))
    pieces = write_text(load_run(run), "x", 9)
    assert [next(pieces) for _ in range(3)] == ["x", "A", "B"]
    assert steps == [0, 1]


def test_a_seed_that_was_not_given_is_drawn_and_printed(capsys):
    first, second = Sampling().choice(), Sampling().choice()
    assert first["seed"] != second["seed"]
    Sampling().print_seed(first)
    assert capsys.readouterr().err == f"seed {first['seed']}\n"
    unset = {"top_k": None, "top_p": None, "min_p": None, "repetition_penalty": None}
    assert Sampling(seed=5).choice() == {"temperature": 1.0, **unset, "seed": 5, "weights": "float32"}
    Sampling(seed=5).print_seed(Sampling(seed=5).choice())
    assert capsys.readouterr().err == ""


def test_a_run_on_other_than_text_is_refused(trained_runs):
    trained_runs.fetch("density")
    with pytest.raises(ValueError, match="run: expected a run that generates text, got one of kind density"):
        write_text(load_run(Path("run")), "", 5)
