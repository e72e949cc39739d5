"""The trained models in models/: each opens, scores as it is said to, and is on the page that lists them."""

import json
import math
import os
from pathlib import Path

import pytest
import torch
from dense import ROOT

import longwave
from longwave.io.download.catalogue import MissingData

MODELS = sorted(path.name for path in (ROOT / "models").iterdir())
PAGE = (ROOT / "docs" / "results" / "models.md").read_text()
FEW = 64  # test examples that are scored


@pytest.fixture(params=MODELS)
def run(request):
    return longwave.open(ROOT / "models" / request.param)


def test_a_model_opens_and_gives_a_finite_output(run):
    model, spec = run.model.eval(), run.experiment.model
    x = torch.randint(spec.vocabulary, (2, 100)) if spec.vocabulary else torch.randn(2, 100, spec.input_size)
    with torch.no_grad():
        y, _ = model(x)
    assert y.shape == (2, spec.output_size)
    assert y.isfinite().all()


def test_a_model_is_small_and_names_no_folder_of_the_machine_that_trained_it(run):
    files = list(run.folder.iterdir())
    assert (run.folder / "model.safetensors").stat().st_size < 1_000_000
    for file in files:
        if file.suffix in (".json", ".md"):
            text = file.read_text()
            assert "--data-dir" not in text
            assert "--out" not in text
    data = json.loads((run.folder / "run.json").read_text())["task"].get("data")
    assert data is None or not Path(data).is_absolute()


def test_the_page_has_the_score_and_the_size_of_a_model(run):
    name = run.folder.name
    (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
    assert f" {100 * run.result['test']['accuracy']:.2f} " in line
    assert f" {sum(p.numel() for p in run.model.parameters()):,} " in line
    assert f" {(run.folder / 'model.safetensors').stat().st_size / 1000:.0f} kB " in line


def test_a_few_test_examples_score_as_the_whole_test_set_did(run):
    """By their data, where the environment variable LONGWAVE_DATA says that it is."""
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("the data that models/ were trained on is not here: LONGWAVE_DATA is unset")
    try:
        task = run.run.build_task(Path(folder))
    except MissingData:
        pytest.skip(f"not in LONGWAVE_DATA: {run.experiment.task.kind} {run.experiment.task.data}")
    chosen = torch.randperm(len(task.test), generator=torch.Generator().manual_seed(0))[:FEW].tolist()
    right = 0.0
    for k in range(0, FEW, 8):
        with torch.no_grad():
            right += float(task.outcome(run.model.eval(), task.test.batch(chosen[k : k + 8])).scores["accuracy"][0])
    score = run.result["test"]["accuracy"]
    assert abs(right / FEW - score) < 4 * math.sqrt(score * (1 - score) / FEW)
