"""The paper's ablation: its rows, how large a random A may be, and the command from beginning to end."""

import dataclasses
import json
from pathlib import Path

import pytest
from command import call
from image_files import write_cifar10

from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.experiments.ablation import ROWS
from longwave.layers.lssl import LSSLConfig
from longwave.models import SequenceConfig
from longwave.sweeps import ablation
from longwave.sweeps.folder import SweepFolder
from longwave.tasks.images import ImageConfig

SPEC = ImageConfig("scifar").on_random_data(10).spec


@pytest.mark.parametrize("row", ROWS)
def test_rows_of_the_ablation_have_at_most_100k_trainable_parameters(row):
    model = EXPERIMENTS.find(f"ablation-{row}").model.resolve(SPEC).build()
    count = sum(p.numel() for p in model.parameters() if p.requires_grad)
    frozen = {name.rpartition(".")[2] for name, p in model.named_parameters() if not p.requires_grad}
    assert frozen == ({"A"} if row.endswith("frozen") else set())
    expected = {"dense": 99_306, "nplr": 83_434, "diagonal": 83_178}[row.partition("-")[0]]
    if row.endswith("frozen"):
        expected -= 4 * 64 * (64 if row.startswith("dense") else 1)
    assert count == expected < 100_000


def test_rows_differ_in_the_state_matrix_and_in_dropout_alone():
    first, *others = (EXPERIMENTS.find(f"ablation-{row}") for row in ROWS)
    for other in others:
        model = dataclasses.replace(other.model, mixer=first.model.mixer, dropout=0.0)
        assert dataclasses.replace(other, name=first.name, model=model) == first
        assert other.model.dropout == (0.1 if other.name.endswith("dropout") else 0.0)


def test_the_size_of_a_random_matrix_is_the_largest_that_stays_finite():
    """A system that grows by exp(sigma g dt L) overflows float32 at exp(88), and dt L is 1024."""
    task = ImageConfig("grey-cifar").on_random_data(8)
    experiment = EXPERIMENTS.find("ablation-diagonal-random")
    mixer = LSSLConfig(d_state=2, init="gaussian", structure="diagonal", n_ssm=1, dt_min=0.999, dt_max=1.0)
    model = SequenceConfig(d_model=2, n_layers=1, mixer=mixer)
    experiment = dataclasses.replace(
        experiment, model=model, loop=dataclasses.replace(experiment.loop, batch_size=4, seed=3)
    )
    said = []
    found = ablation.largest_sigma(experiment, task, steps=3, say=said.append)
    assert len(said) > 1
    assert ablation.stays_finite(ablation.with_sigma(experiment, found), task, 3)
    assert not ablation.stays_finite(ablation.with_sigma(experiment, 2 * found), task, 3)
    assert found == 2.0 ** -(len(said) - 1)
    with pytest.raises(ValueError, match="no step stays finite, down to sigma"):
        ablation.largest_sigma(
            dataclasses.replace(experiment, optim=dataclasses.replace(experiment.optim, lr=1e30)), task, steps=3
        )


TINY = (
    *("--loop.epochs", "2", "--model.d-model", "4", "--model.n-layers", "1", "--model.mixer.d-state", "4", "--quiet"),
    *("--loop.batch-size", "40", "--task.train-size", "40"),
)


def test_the_ablation_runs_its_rows_and_draws_the_papers_figures(own_folder, monkeypatch, capsys):
    write_cifar10(own_folder / "data")
    monkeypatch.setattr(runs, "write_report", lambda folder, *_: (folder.path / "report.html").write_text(""))
    some = ("--only", "dense-hippo", "diagonal-random-frozen")
    assert call("ablate", "--small", *some, "--seeds", "0", *TINY, "--sigma", "0.01") == 0
    shown = capsys.readouterr().out
    assert "HiPPO, dense" in shown
    assert "sigma of a random A: 0.01 (diagonal)" in shown
    sweep = SweepFolder.open("runs/ablation-small")
    assert [member.experiment.name for member in sweep.members] == [
        "ablation-dense-hippo-small",
        "ablation-diagonal-random-frozen-small",
    ]
    mixer = sweep.members[1].experiment.model.mixer
    assert (mixer.sigma, mixer.trainable, mixer.structure) == (0.01, ("B", "dt"), "diagonal")
    finished = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("result.json")}
    # Another row is added: what was found of sigma stays, and what is finished is kept.
    assert call("ablate", "--small", "--only", "nplr-hippo-dropout", "--seeds", "0", *TINY) == 0
    shown = capsys.readouterr().out
    assert "HiPPO, NPLR (S4)" in shown
    assert len(SweepFolder.open("runs/ablation-small").members) == 3
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert json.loads(Path("runs/ablation-small/sigma.json").read_text()) == {"diagonal": 0.01}
    assert Path("runs/ablation-small/ablation.png").stat().st_size > 20_000
    assert call("ablate", "--resume", "runs/ablation-small", "--quiet") == 0


def test_rows_that_there_are_not_are_refused(own_folder, capsys):
    assert call("ablate", "--only", "dense-hipo") == 2
    assert "--only: there is no row 'dense-hipo'" in capsys.readouterr().err
    assert call("ablate", "--help") == 0
    shown = capsys.readouterr().out
    assert all(row in shown for row in ROWS)
