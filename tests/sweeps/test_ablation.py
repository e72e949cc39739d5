"""The paper's ablation: its rows, and the command from beginning to end."""

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
from longwave.pictures import curves
from longwave.sweeps import picture
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
    assert call("ablate", "--small", *some, "--seeds", "0", *TINY) == 0
    shown = capsys.readouterr().out
    assert re.search(r"ablation-dense-hippo-small[ │]+[01]\.\d{4}[ │]+[01]\.\d{4}", shown)  # validation, in training
    # The picture is there after the first run, and has both after the second.
    assert [len(one["Unconstrained: training"].curves) for one in drawn] == [1, 2]
    sweep = SweepFolder.open("runs/ablation-small")
    assert [member.experiment.name for member in sweep.members] == [
        "ablation-dense-hippo-small",
        "ablation-diagonal-random-frozen-small",
    ]
    mixer = sweep.members[1].experiment.model.mixer
    assert (mixer.sigma, mixer.trainable, mixer.structure) == (0.125, ("B", "dt"), "diagonal")
    assert Path("runs/ablation-small/ablation.png").stat().st_size > 20_000
    assert list(drawn[-1]) == [f"{name}: {of}" for name in ("Unconstrained",) for of in SPLITS]
    for of in SPLITS:
        curves = drawn[-1][f"Unconstrained: {of}"].curves
        assert [(one.name, one.style, len(one.x)) for one in curves] == [
            ("HiPPO, dense", "-", 2),
            ("random, diagonal, frozen", "--", 2),
        ]
    with open("runs/ablation-small/table.csv") as file:
        lines = {line["experiment"]: line for line in csv.DictReader(file)}
    assert lines.keys() == {member.experiment.name for member in SweepFolder.open("runs/ablation-small").members}
    assert all(0 <= float(line["train_accuracy"]) <= 1 for line in lines.values())
    assert call("ablate", "--small", "--only", "nplr-hippo", "--seeds", "0", *TINY) == 2
    assert "another sweep already exists" in capsys.readouterr().err
    assert call("ablate", "--resume", "runs/ablation-small", "--quiet", "--test-best") == 0
    assert "its test accuracy" in capsys.readouterr().out


def test_what_cannot_be_run_is_refused_and_leaves_nothing(own_folder, capsys):
    write_cifar10(own_folder / "data")
    SweepFolder(Path("other"), plan([EXPERIMENTS.find("smnist-small")], {}), "accuracy", True).write()
    for arguments, message in (
        (("--model.mixer.sigma", "0"), "sigma: expected a number above 0, got 0"),
        (("--jobs", "0"), "--jobs: expected at least 1, got 0"),
        (("--seeds", "1", "1"), "--seeds: expected each seed once"),
        (("--out", "other"), "other: another sweep already exists"),
    ):
        assert call("ablate", "--only", "diagonal-random", *arguments) == 2, arguments
        assert message in capsys.readouterr().err
    assert not Path("runs").exists()
    assert [path.name for path in Path("other").iterdir()] == ["sweep.json"]


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
    assert "unknown experiment 'ablation-dense-hipo'" in capsys.readouterr().err
    assert call("ablate", "--help") == 0
    shown = capsys.readouterr().out
    assert all(row in shown for row in ROWS)
