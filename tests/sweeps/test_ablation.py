"""The paper's ablation: its rows, how large a random A may be, and the command from beginning to end."""

import csv
import dataclasses
import re
from pathlib import Path

import pytest
from command import call
from image_files import write_cifar10
from pairwise import in_one_case

from longwave import runs
from longwave.experiments import EXPERIMENTS
from longwave.experiments.ablation import ROWS
from longwave.layers.lssl import LSSLConfig
from longwave.models import SequenceConfig
from longwave.pictures import curves
from longwave.sweeps import ablation, picture
from longwave.sweeps.folder import SweepFolder
from longwave.sweeps.plan import plan
from longwave.tasks.images.task import ImageConfig

SPLITS = ("training", "validation")
SPEC = ImageConfig("scifar").on_random_data(10).spec


@in_one_case(row=ROWS)
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
    with pytest.raises(ValueError, match="training diverges even at sigma"):
        ablation.largest_sigma(
            dataclasses.replace(experiment, optim=dataclasses.replace(experiment.optim, lr=1e30)), task, steps=3
        )


TINY = (
    *("--loop.epochs", "2", "--model.d-model", "4", "--model.n-layers", "1", "--model.mixer.d-state", "4", "--quiet"),
    *("--loop.batch-size", "40", "--task.train-size", "40"),
)


@pytest.fixture
def drawn(monkeypatch):
    """The panels of each ablation.png, as it was drawn."""
    pictures, real = [], picture.draw_panels

    def draw(panels, *arguments, **options):
        pictures.append({panel.title: panel for panel in panels})
        real(panels, *arguments, **options)

    monkeypatch.setattr(picture, "draw_panels", draw)
    return pictures


def test_the_ablation_runs_its_rows_and_draws_the_papers_figures(own_folder, monkeypatch, capsys, drawn):
    write_cifar10(own_folder / "data")
    monkeypatch.setattr(runs, "write_report", lambda folder, *_: (folder.path / "report.html").write_text(""))
    some = ("--only", "dense-hippo", "diagonal-random-frozen")
    assert call("ablate", "--small", *some, "--seeds", "0", *TINY, "--sigma", "0.01") == 0
    shown = capsys.readouterr().out
    assert re.search(r"ablation-dense-hippo-small[ │]+[01]\.\d{4}[ │]+[01]\.\d{4}", shown)  # validation, in training
    assert "sigma of a random A: 0.01 (diagonal)" in shown
    # The picture is there after the first run, and has both after the second.
    assert [len(one["Unconstrained: training"].curves) for one in drawn] == [1, 2]
    sweep = SweepFolder.open("runs/ablation-small")
    assert [member.experiment.name for member in sweep.members] == [
        "ablation-dense-hippo-small",
        "ablation-diagonal-random-frozen-small",
    ]
    mixer = sweep.members[1].experiment.model.mixer
    assert (mixer.sigma, mixer.trainable, mixer.structure) == (0.01, ("B", "dt"), "diagonal")
    finished = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("result.json")}
    # Another row is added: the size of a random A stays, and what is finished is kept.
    one = ("--only", "nplr-hippo-dropout", "--seeds", "0", *TINY)
    assert call("ablate", "--small", *one) == 0
    shown = capsys.readouterr().out
    assert "ablation-nplr-hippo-dropout-small" in shown
    assert len(SweepFolder.open("runs/ablation-small").members) == 3
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert ablation.sigmas(SweepFolder.open("runs/ablation-small").members) == {"diagonal": 0.01}
    assert Path("runs/ablation-small/ablation.png").stat().st_size > 20_000
    assert list(drawn[-1]) == [f"{name}: {of}" for name in ("Unconstrained", "Dropout 0.1") for of in SPLITS]
    for of in SPLITS:
        curves = drawn[-1][f"Unconstrained: {of}"].curves
        assert [(one.name, one.style, len(one.x)) for one in curves] == [
            ("HiPPO, dense", "-", 2),
            ("random, diagonal, frozen", "--", 2),
        ]
    # Every line of the table has its row, also that which was run alone.
    with open("runs/ablation-small/table.csv") as file:
        lines = {line["experiment"]: line for line in csv.DictReader(file)}
    assert lines.keys() == {member.experiment.name for member in SweepFolder.open("runs/ablation-small").members}
    assert all(0 <= float(line["train_accuracy"]) <= 1 for line in lines.values())
    # Rows that could not be compared with these are refused, before anything is searched for or trained.
    monkeypatch.setattr(ablation, "largest_sigma", never)
    for arguments, message in (
        (
            ("--only", "diagonal-random", *TINY, "--sigma", "0.5"),
            "--sigma: expected 0.01, which runs/ablation-small has",
        ),
        (("--only", "nplr-hippo", *TINY, "--loop.epochs", "3"), "in loop.epochs (2 there, 3 here)"),
        (("--only", "dense-random", *TINY, "--optim.lr", "0.5"), "in optim.lr (0.01 there, 0.5 here)"),
        (("--only", "nplr-hippo", *TINY, "--data-dir", "elsewhere"), "--data-dir: expected no --data-dir, as the runs"),
    ):
        assert call("ablate", "--small", *arguments, "--seeds", "0") == 2
        assert message in capsys.readouterr().err
    assert len(SweepFolder.open("runs/ablation-small").members) == 3
    assert call("ablate", "--resume", "runs/ablation-small", "--quiet", "--test-best") == 0
    assert "its test accuracy" in capsys.readouterr().out


def never(*_, **__):
    raise AssertionError("there was a search")


def test_what_cannot_be_run_is_refused_before_the_search_and_leaves_nothing(own_folder, monkeypatch, capsys):
    monkeypatch.setattr(ablation, "largest_sigma", never)
    SweepFolder(Path("other"), plan([EXPERIMENTS.find("smnist-small")], {}), "accuracy", True).write()
    for arguments, message in (
        (("--sigma", "0"), "--sigma: expected a number above 0, got 0"),
        (("--sigma=-1",), "--sigma: expected a number above 0, got -1"),
        (("--sigma", "nan"), "--sigma: expected a number above 0, got nan"),
        (("--model.mixer.sigma", "0.5"), "--model.mixer.sigma: expected --sigma NUMBER"),
        (("--jobs", "0"), "--jobs: expected at least 1, got 0"),
        (("--seeds", "1", "1"), "--seeds: expected each seed once"),
        (("--out", "other"), "other: another sweep already exists"),
    ):
        assert call("ablate", "--only", "diagonal-random", *arguments) == 2, arguments
        assert message in capsys.readouterr().err
    assert not Path("runs").exists()
    assert [path.name for path in Path("other").iterdir()] == ["sweep.json"]


def test_what_was_found_of_sigma_is_kept(own_folder, monkeypatch):
    write_cifar10(own_folder / "data")
    monkeypatch.setattr(ablation, "largest_sigma", lambda *_, **__: 0.25)
    monkeypatch.setattr(ablation.run, "_run", lambda *_: None)
    found = [EXPERIMENTS.find(f"ablation-{row}-small") for row in ("diagonal-random", "diagonal-random-dropout")]
    rows = [dataclasses.replace(one, task=ImageConfig("scifar", train_size=40)) for one in found]
    members = ablation.start(rows[:1], "kept", seeds=(0,), quiet=True).members
    assert [member.experiment.model.mixer.sigma for member in members] == [0.25]
    monkeypatch.setattr(ablation, "largest_sigma", never)
    members = ablation.start(rows[1:], "kept", seeds=(0,), quiet=True).members
    assert [member.experiment.model.mixer.sigma for member in members] == [0.25, 0.25]
    with pytest.raises(ValueError, match=r"--sigma: expected 0\.25, which kept has for a random diagonal A, got 0\.5"):
        ablation.start(rows, "kept", seeds=(0,), sigma=0.5)


LOGGED = [{"epoch": k, "train_accuracy": 0.9 * k, "valid_accuracy": 0.1 * k} for k in (1.0, 2.0)]


def test_reasons_of_failures_are_shown_and_no_mean_of_what_is_left(own_folder, monkeypatch, capsys):
    members = plan([EXPERIMENTS.find("ablation-dense-random")], {}, (0, 1))
    sweep = SweepFolder(Path("failed"), members, "accuracy", True)
    sweep.write()
    assert sweep.resume_command == "longwave sweep --resume failed"
    for member in members:
        sweep.place(member).mkdir()
        (sweep.place(member) / "failure.json").write_text('{"reason": "the loss is not finite"}')
    monkeypatch.setattr(SweepFolder, "curves", lambda *_: LOGGED)
    assert call("ablate", "--resume", "failed", "--quiet") == 0
    shown = capsys.readouterr().out
    assert "ablation-dense-random-seed1 failed: the loss is not finite" in shown
    assert "1.8" not in shown  # the accuracy in training
    assert "\nablation-dense-random,0,failed\n" in Path("failed/table.csv").read_text()


def test_labels_and_panels_follow_the_settings_and_not_the_names(own_folder, monkeypatch, drawn):
    def row(name, **changes):
        model = EXPERIMENTS.find(f"ablation-{name}").model
        mixer = dataclasses.replace(model.mixer, **changes.pop("mixer", {}))
        return dataclasses.replace(
            EXPERIMENTS.find(f"ablation-{name}"), model=dataclasses.replace(model, mixer=mixer, **changes)
        )

    frozen = row("dense-random-dropout", dropout=0.2, mixer={"trainable": ("B", "dt")})
    assert (picture.label(frozen), picture.is_trained(frozen)) == ("random, dense", False)
    assert not picture.is_trained(row("dense-hippo", mixer={"trainable": False}))
    assert picture.is_trained(row("dense-hippo-frozen", mixer={"trainable": True}))
    assert picture.label(row("dense-hippo", mixer={"init": "legt"})) == "legt, dense"
    assert {picture.label(row(name)) for name in ROWS} == set(picture.LABELS)
    members = plan([frozen, row("nplr-hippo"), row("nplr-random"), row("dense-hippo-frozen")], {})
    monkeypatch.setattr(SweepFolder, "curves", lambda *_: LOGGED)
    figures = []
    monkeypatch.setattr(curves, "save", lambda figure, *_, **__: figures.append(figure))
    picture.draw_ablation(SweepFolder(Path("swept"), members, "accuracy", True))
    found = {title: [one.name for one in panel.curves] for title, panel in drawn[0].items()}
    for of in SPLITS:
        assert found.pop(f"Unconstrained: {of}") == ["HiPPO, dense, frozen"]
        assert found.pop(f"NPLR: {of}") == ["HiPPO, NPLR (S4)", "random, NPLR"]
        assert found.pop(f"Dropout 0.2: {of}") == ["random, dense, frozen"]
    assert not found
    axes = figures[0].axes
    for training, validation in zip(axes[::2], axes[1::2], strict=True):
        assert training.get_ylim() == validation.get_ylim()
        assert all(float(tick).is_integer() for tick in training.get_xticks())


def test_rows_that_there_are_not_are_refused(own_folder, capsys):
    assert call("ablate", "--only", "dense-hipo") == 2
    assert "--only: there is no row 'dense-hipo'" in capsys.readouterr().err
    assert call("ablate", "--help") == 0
    shown = capsys.readouterr().out
    assert all(row in shown for row in ROWS)
