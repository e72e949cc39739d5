"""Published runs where a run is expected: by their folder and by their name on the hub, which a folder stands for."""

import json
from pathlib import Path

import huggingface_hub.constants
import pytest
from command import call
from folder_hub import cached

from longwave.runs import load_run
from longwave.tasks.text import generate as text


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The hub without its network: what was downloaded before is found, and nothing else."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "cache"


def publish(hub):
    """What is published of the run, in the folder `files` and as me/model of the hub; the run itself is gone."""
    assert call("publish", "run", "me/model", "--preview", "files") == 0
    cached(Path("files"), hub, "me/model")
    Path("run").rename("gone")


def test_text_is_generated_from_a_published_folder_and_from_the_hub_as_from_the_run(trained_runs, hub, capsys):
    trained_runs.fetch("words")
    options = ("--prompt", "the sea is", "--length", "8", "--seed", "0")
    assert call("generate", "run", *options) == 0
    truth = capsys.readouterr().out
    publish(hub)
    Path("data").rename("moved")  # the vocabulary is beside the weights
    capsys.readouterr()
    for name in ("files", "me/model"):
        assert call("generate", name, *options) == 0
        assert capsys.readouterr().out == truth
    assert "".join(text.write_text(load_run("me/model"), "the sea is", 8, seed=0)) + "\n" == truth
    Path("files/vocabulary.txt").unlink()
    assert call("generate", "files", *options) == 2
    assert "vocabulary.txt: expected the vocabulary of a run" in capsys.readouterr().err


def test_images_are_drawn_by_a_published_run_and_completed_if_the_data_is_there(trained_runs, hub, capsys):
    trained_runs.fetch("density")
    publish(hub)
    assert call("generate", "me/model", "--complete", "--images", "1", "--seed", "0", "--out", "halves.png") == 0
    Path("data").rename("moved")
    assert call("generate", "me/model", "--count", "1", "--seed", "0", "--out", "digit.png") == 0
    assert all(Path(name).read_bytes().startswith(b"\x89PNG") for name in ("halves.png", "digit.png"))
    capsys.readouterr()
    assert call("generate", "me/model", "--complete") == 2
    assert "expected the data that the run was trained on, which is not published with it" in capsys.readouterr().err


def test_a_published_run_predicts_streams_and_is_scored_as_the_run(trained_runs, hub, capsys):
    trained_runs.fetch("causal")
    Path("rows.csv").write_text("4\n5\n5.5\n6\n")
    commands = (
        ("predict", ("--npz", "my.npz")),
        ("stream", ("--csv", "rows.csv", "--window", "2")),
        ("evaluate", ()),
    )
    truth = []
    for command, options in commands:
        assert call(command, "run", *options) == 0
        truth.append(capsys.readouterr().out)
    publish(hub)
    capsys.readouterr()
    for (command, options), expected in zip(commands, truth, strict=True):
        assert call(command, "me/model", *options) == 0
        assert capsys.readouterr().out == expected
    Path("my.npz").unlink()
    assert call("evaluate", "files") == 2
    error = capsys.readouterr().err
    assert "files: expected the data that the run was trained on, which is not published with it, and got" in error
    assert "my.npz" in error


def test_what_needs_the_training_refuses_a_published_run(trained_runs, hub, capsys):
    trained_runs.fetch("causal")
    publish(hub)
    Path("gone").rename("run")
    files = sorted(path.name for path in Path("files").iterdir())
    for arguments in (
        ["train", "--resume", "files"],
        ["train", "classify", "--npz", "my.npz", "--out", "files", "--overwrite"],
        ["publish", "files", "me/again"],
        ["compare", "run", "files"],
    ):
        assert call(*arguments) == 2
        assert "files: expected the folder of a run that was trained here, got a published one" in (
            capsys.readouterr().err
        )
    assert sorted(path.name for path in Path("files").iterdir()) == files


def test_a_model_alone_is_no_run(trained_runs, capsys):
    trained_runs.fetch("causal")
    for command in ("generate", "predict", "stream", "evaluate"):
        assert call(command, "run/best") == 2
        error = capsys.readouterr().err
        assert "run/best: expected the folder of a run, got a model without" in error
        assert "longwave.load_model" in error


def test_a_slip_in_the_name_of_a_run_does_not_go_to_the_hub(hub, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("longwave.models.hub.find", lambda name: asked.append(name) or Path(name))
    missing = "text-seed0: no such run folder"
    assert call("generate", "runs/text-seed0") == 2  # there are no runs at all
    assert f"runs/{missing}\n" in capsys.readouterr().err
    Path("runs/text-seed1").mkdir(parents=True)
    Path("runs/text-seed1/config.json").write_text("{}")
    Path("mine").mkdir()
    for name, hint in (
        ("runs/text-seed0", f"runs/{missing}; expected one of runs/text-seed1; did you mean 'runs/text-seed1'?"),
        ("./text-seed0", f"{missing}; expected one of runs/text-seed1; did you mean 'runs/text-seed1'?"),
        ("text-seed0", f"{missing}; expected one of runs/text-seed1; did you mean 'runs/text-seed1'?"),
        ("some/where/text-seed0", f"some/where/{missing}; expected one of runs/text-seed1"),
        ("mine/text-seed0", "mine/text-seed0: no such run folder in mine"),
    ):
        for command in ("generate", "evaluate"):
            assert call(command, name) == 2
            assert hint in capsys.readouterr().err
    assert not asked


def test_a_revision_of_a_published_run_stands_behind_its_name(trained_runs, hub, capsys):
    trained_runs.fetch("causal")
    publish(hub)
    Path("files/run.json").write_text("{}")
    cached(Path("files"), hub, "me/model", commit="1" * 40, revision="broken")
    capsys.readouterr()
    assert call("evaluate", "me/model") == call("evaluate", "me/model@main") == 0
    score, same = capsys.readouterr().out.splitlines()[::2]
    assert score == same
    for name in ("me/model@broken", "me/model@" + "1" * 40):
        assert call("evaluate", name) == 2
        assert f"snapshots/{'1' * 40}/run.json" in capsys.readouterr().err
    assert call("evaluate", "me/model@v2") == 2
    assert "me/model: no such folder, and no such model on the Hugging Face hub" in capsys.readouterr().err
    assert call("generate", "me/model@") == 2
    assert "me/model@: expected a branch, tag or commit after the @, got none" in capsys.readouterr().err


def test_a_name_that_the_hub_does_not_have_is_refused(hub, capsys):
    for command in ("generate", "predict", "stream", "evaluate"):
        assert call(command, "me/nothing") == 2
        assert "me/nothing: no such folder, and no such model on the Hugging Face hub" in capsys.readouterr().err


def test_weights_that_do_not_fit_the_settings_of_a_published_run_are_refused(trained_runs, hub, capsys):
    trained_runs.fetch("causal")
    publish(hub)
    config = json.loads(Path("files/run.json").read_text())
    config["experiment"]["model"]["d_model"] = 16
    Path("files/run.json").write_text(json.dumps(config))
    assert call("evaluate", "files") == 2
    assert "files/config.json: expected the model of files/run.json, got another" in capsys.readouterr().err
