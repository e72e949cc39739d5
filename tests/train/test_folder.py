"""The folder of a run: config.json, metrics, the data known again, and what is refused."""

import dataclasses
import json

import numpy as np
import pytest

from longwave.experiments import EXPERIMENTS
from longwave.experiments.prepared import prepare
from longwave.models import SequenceConfig
from longwave.tasks.classify.task import ClassifyConfig
from longwave.train.config_file import FORMAT
from longwave.train.folder import RunFolder, check_new
from longwave.train.trained import RunConfig


def save(path, change=0.0, count=30):
    x = np.random.default_rng(0).standard_normal((count, 6, 1))
    x[-1, -1] += change
    np.savez(path, x=x, y=["a", "b"] * (count // 2))


@pytest.fixture
def folder(tmp_path):
    """A run on custom sequences that was begun and not trained."""
    save(tmp_path / "my.npz")
    experiment = dataclasses.replace(
        EXPERIMENTS["classify"], task=ClassifyConfig(npz=tmp_path / "my.npz"), model=SequenceConfig()
    )
    made = RunFolder.create(tmp_path / "run", prepare(experiment), tmp_path / "data")
    made.write_config({"notes.txt": b"kept"})
    return made


# config.json


def test_what_config_json_says_comes_back(folder):
    opened = RunFolder.open(folder.path)
    # JSON has lists where describe() has tuples.
    task = json.loads(json.dumps(folder.config.task))
    assert opened.config == dataclasses.replace(folder.config, task=task)
    assert opened.artifact("notes.txt") == b"kept"
    content = json.loads((folder.path / "config.json").read_text())
    assert content["format"] == FORMAT
    assert set(content["versions"]) == {"longwave", "torch", "python"}


def test_nothing_is_written_before_the_config(tmp_path):
    save(tmp_path / "my.npz")
    experiment = dataclasses.replace(
        EXPERIMENTS["classify"], task=ClassifyConfig(npz=tmp_path / "my.npz"), model=SequenceConfig()
    )
    RunFolder.create(tmp_path / "run", prepare(experiment), None)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.update(format=FORMAT + 1), r"config.json: expected the config.json of a run in format 2"),
        (lambda c: c.pop("experiment"), "config.json: expected the config.json of a run"),
        (
            lambda c: c["experiment"]["model"].update(wings=2),
            "model: unknown setting 'wings'; .*newer version of longwave",
        ),
        (
            lambda c: c["experiment"]["task"].update(kind="speech"),
            "task: unknown kind 'speech'; .*newer version of longwave",
        ),
    ],
)
def test_a_config_of_a_newer_or_another_version_is_refused(folder, change, message):
    path = folder.path / "config.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=message) as caught:
        RunFolder.open(folder.path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", [None, "{", "[1, 2]", '{"format": 1}'])
def test_a_folder_that_is_no_run_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"expected the (folder|config.json) of a run"):
        RunFolder.open(tmp_path)


def test_a_folder_with_a_run_is_not_written_over(folder):
    with pytest.raises(ValueError, match=r"run: run already exists; .* or resume it with:\n  longwave train --resume"):
        check_new(folder.path)
    with pytest.raises(ValueError, match="run already exists"):
        RunFolder.create(folder.path, folder.prepare(), None)


def test_overwriting_replaces_the_files_of_the_run_and_keeps_all_others(folder):
    (folder.path / "best").mkdir()
    (folder.path / "best" / "model.safetensors").write_text("old")
    (folder.path / "result.json").write_text("{}")
    (folder.path / "mine.csv").write_text("kept")
    prepared = prepare(dataclasses.replace(folder.config.experiment, name="new"))
    made = RunFolder.create(str(folder.path), prepared, None, overwrite=True)
    made.write_config({}, overwrite=True)
    assert RunFolder.open(folder.path).config.experiment.name == "classify"  # until there is a checkpoint
    made.save_checkpoint({})
    assert RunFolder.open(folder.path).config.experiment.name == "new"
    assert {path.name for path in folder.path.iterdir()} == {"config.json", "notes.txt", "mine.csv", "checkpoints"}


def test_a_run_that_fails_to_replace_another_leaves_nothing(folder):
    (folder.path / "result.json").write_text("{}")
    before = {path: path.read_bytes() for path in folder.path.rglob("*")}
    made = RunFolder.create(folder.path, folder.prepare(), None, overwrite=True)

    def fail():
        with made.locked():
            made.write_config({"notes.txt": b"new"}, overwrite=True)
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fail()
    assert {path: path.read_bytes() for path in folder.path.rglob("*")} == before


def test_what_is_no_run_is_never_overwritten(tmp_path):
    (tmp_path / "config.json").write_text('{"of": "another program"}')
    with pytest.raises(ValueError, match=r"config\.json: expected the config\.json of a run"):
        check_new(tmp_path, overwrite=True)
    check_new(tmp_path / "nothing there", overwrite=True)


def test_the_config_says_where_the_data_was(tmp_path, folder):
    assert RunFolder.open(folder.path).config.data_dir == tmp_path / "data"
    config = dataclasses.replace(folder.config, data_dir=None)
    assert RunConfig.from_dict(config.to_dict()).data_dir is None


# The data


def test_the_same_data_is_known_again(folder):
    assert len(RunFolder.open(folder.path).build_task().test) == 4


def test_data_that_is_the_same_to_the_rounding_of_sums_is_known_again(folder):
    path = folder.path / "config.json"
    content = json.loads(path.read_text())
    content["task"]["inputs"]["mean"][0] *= 1 + 1e-9
    path.write_text(json.dumps(content))
    RunFolder.open(folder.path).build_task()


@pytest.mark.parametrize(
    ("changed", "name"), [({"change": 1.0}, "inputs|digest"), ({"count": 40}, "examples")], ids=["a value", "more"]
)
def test_other_data_is_refused_with_what_differs(folder, changed, name):
    save(folder.config.experiment.task.npz, **changed)
    with pytest.raises(
        ValueError, match=rf"run: the data is not what the run was trained on; ({name}): expected .*, got .*predict"
    ):
        RunFolder.open(folder.path).build_task()


def test_a_run_without_weights_says_how_to_get_some(folder):
    with pytest.raises(
        ValueError, match=r"no weights yet.*before its first validation; resume with:\n  longwave train --r"
    ):
        folder.load_best()


def test_a_missing_artifact_is_named(folder):
    with pytest.raises(ValueError, match=r"vocabulary.txt: expected a file of the run"):
        folder.artifact("vocabulary.txt")


# Metrics


@pytest.mark.parametrize(
    "broken",
    [
        *('{"step": 4, "lo', "null", "{}", "[]", "[1]", "", "\ufffd", "[" * 10**5),
        *('{"step": "a"}', '{"step": true}', '{"step": 1}', '{"step": 4, "loss": {}}'),
    ],
)
def test_a_line_that_is_damaged_is_left_out_and_no_other(broken, folder):
    """As a kill leaves it at the end, or an editor anywhere, the first line included."""
    path = folder.path / "metrics.jsonl"
    whole = [json.dumps({"step": step, "loss": 0.5}) for step in (2, 3, 5)]
    for place in range(4):
        path.write_text("\n".join([*whole[:place], broken, *whole[place:]]) + "\n")
        kept = [line["step"] for line in folder.metrics()]
        assert kept == ([1] if (broken, place) == ('{"step": 1}', 0) else []) + [2, 3, 5]
        assert folder.truncate_metrics(3) == (place < 2 and kept[0] == 2)
        assert [line["step"] for line in folder.metrics()] == kept[:-1]


def test_what_was_logged_after_a_checkpoint_is_dropped(folder):
    folder.truncate_metrics(5)  # there is none yet
    assert folder.metrics() == []
    for step in (1, 2, 3):
        folder.log({"step": step})
    with open(folder.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 4')
    folder.truncate_metrics(2)
    assert (folder.path / "metrics.jsonl").read_text() == '{"step": 1}\n{"step": 2}\n'
    folder.clear()
    assert folder.metrics() == []
