"""Several processes compute what one does. Here: two, over gloo, on the CPU."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import ranks
import tiny
import torch
from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from dense import ROOT
from filelock import FileLock
from tiny import make_experiment, make_run, make_task

from longwave.train import device
from longwave.train.loop import TrainingError


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """The results of two processes, and their folder; launched once, whatever the number of test processes."""
    root = tmp_path_factory.getbasetemp()
    root = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    folder = root / "two processes"
    with FileLock(root / "two processes.lock"):
        if not folder.exists():
            folder.mkdir()
            answers = ranks.launch(folder, 2)
            if any(answer["code"] for answer in answers):
                shutil.rmtree(folder)
                pytest.fail("\n".join(answer["stderr"] for answer in answers))
    return folder, [torch.load(folder / f"rank{rank}" / "results.pt") for rank in range(2)]


@pytest.fixture(autouse=True)
def _in_float64():
    torch.set_default_dtype(torch.float64)


def close(value, truth):
    torch.testing.assert_close(value, truth, rtol=1e-9, atol=1e-12)


def test_two_processes_have_the_gradients_of_one_with_the_whole_batch(launched, tmp_path):
    """Batches of 8, 7 and 1 rows: the last is smaller than the number of processes."""
    truth = ranks.gradients(tmp_path)
    assert len(truth) == 12
    for result in launched[1]:
        for case, found in result["gradients"].items():
            assert found["loss"] == pytest.approx(truth[case]["loss"], rel=1e-12), case
            close(found["gradients"], truth[case]["gradients"])


@pytest.mark.parametrize("rows", ranks.ROWS)
@pytest.mark.parametrize("accumulate", [1, 3])
def test_every_token_weighs_the_same_whatever_part_or_process_it_is_in(rows, accumulate, launched):
    """Rows of 1, 2, 3 ... tokens: parts and processes have unequal numbers of them."""
    truth = ranks.ragged_truth(rows)
    for result in launched[1]:
        found = result["gradients"][f"{rows} ragged rows, accumulate {accumulate}"]
        assert found["loss"] == pytest.approx(truth["loss"], rel=1e-12)
        close(found["gradients"], truth["gradients"])


def test_two_processes_train_the_weights_of_one_and_score_them_alike(launched, tmp_path):
    truth = ranks.train(tmp_path / "one", ranks.plain_task(), ranks.PLAIN)
    for result in launched[1]:
        close(result["plain"]["model"], truth["model"])
        for part in ("valid", "test"):
            assert result["plain"]["result"][part] == pytest.approx(truth["result"][part], rel=1e-9)
    found, expected = tiny.lines(launched[0] / "plain"), tiny.lines(tmp_path / "one")
    assert [line["step"] for line in found] == [2, 4, 6, 8]
    for line, true in zip(found, expected, strict=True):
        assert line == pytest.approx(true, rel=1e-9)


def test_processes_agree_to_the_bit(launched):
    """Also with dropout, which each draws for itself, with batch norm, and in scores over batches of one row."""
    first, second = launched[1]
    for name in ("plain", "never stopped", "batch norm"):
        assert tiny.bits(first[name]["model"]) == tiny.bits(second[name]["model"]), name
        for part in ("valid", "test"):
            assert first[name]["result"][part] == second[name]["result"][part], name


def test_scores_of_two_processes_are_those_of_the_weights(launched, tmp_path):
    """With one row a batch, one of the two processes has nothing to score, and counts nothing."""
    for name, settings, task in (
        ("never stopped", ranks.DROPOUT, ranks.plain_task()),
        ("batch norm", ranks.BATCH_NORM, ranks.short_task()),
    ):
        result = launched[1][0][name]
        run = make_run(tmp_path, make_experiment(**settings), task, quiet=True)
        run.model.load_state_dict(result["model"])
        for part, split in (("valid", task.valid), ("test", task.test)):
            assert run.evaluate(split) == pytest.approx(result["result"][part], rel=1e-9), (name, part)


def test_ctrl_c_in_one_process_stops_both_and_loses_nothing(launched):
    folder, results = launched
    for result in results:
        assert result["interrupted"].startswith("stopped at step 5; resume with:\n  longwave train --resume")
        assert tiny.bits(result["resumed"]["model"]) == tiny.bits(result["never stopped"]["model"])
    assert tiny.lines(folder / "interrupted") == tiny.lines(folder / "never stopped")


def test_a_folder_that_is_in_use_stops_both_processes(launched):
    first, second = (result["busy"] for result in launched[1])
    assert "has been training there since" in first
    assert second.endswith("the main process found that another run is using it")


def test_bad_data_in_one_process_stops_both(launched):
    for result in launched[1]:
        assert "the loss is not finite at step 0" in result["not finite"]


def test_a_run_of_two_processes_may_go_on_in_one_and_says_what_differs(launched, tmp_path, capsys):
    shutil.copytree(launched[0] / "never stopped", tmp_path / "run")
    make_run(tmp_path / "run", make_experiment(**ranks.DROPOUT), ranks.plain_task()).fit(resume=True)
    assert "the run used other processes or devices: it resumes, but dropout differs" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["fully_shard", "FullyShardedDataParallel"])
def test_fsdp_of_two_processes_has_the_gradients_and_the_step_of_one(kind, launched):
    truth = ranks.sharded(kind)
    assert truth["rates"] == [0.001, 0.01]  # the state spaces keep their own under the wrapping
    for result in launched[1]:
        for part, expected in truth.items():
            close(result[kind][part], expected)


@pytest.mark.parametrize("kind", [DistributedType.FSDP, DistributedType.DEEPSPEED])
def test_a_launcher_that_cuts_up_the_model_is_refused(kind, tmp_path, monkeypatch):
    """Checkpoints of such a run would hold parts of the weights."""

    class Launched:
        distributed_type = kind

        def __init__(self, **settings):
            pass

    monkeypatch.setattr(device, "Accelerator", Launched)
    with pytest.raises(TrainingError, match=f"the whole model in every process, and was launched with {kind.value}"):
        make_run(tmp_path, make_experiment(), make_task(), quiet=True)


# The launchers that people use


def test_the_config_file_for_several_gpus_says_what_accelerate_reads():
    config = load_config_from_file(str(ROOT / "examples" / "accelerate_gpus.yaml"))
    assert (config.distributed_type, config.num_processes, config.num_machines) == (DistributedType.MULTI_GPU, 8, 1)
    assert (config.mixed_precision, config.use_cpu) == ("no", False)


def write_series(path):
    rows = [f"{k},{(k % 12) + 0.01 * k:.4f}" for k in range(120)]
    path.write_text("\n".join(["step,price", *rows]) + "\n")


SMALL = [
    "--target=price",
    "--horizon=2",
    "--context=12",
    "--model.d-model=4",
    "--model.mixer.d-state=4",
    "--loop.epochs=1",
]


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate launch"])
def test_the_command_line_runs_under(launcher, tmp_path):
    """Both launch two processes here, which train, score and report as one does alone."""
    write_series(tmp_path / "series.csv")
    programs = Path(sys.executable).parent
    train = [programs / "longwave", "train", "forecast", "--csv", tmp_path / "series.csv", *SMALL]
    train += ["--model.dropout", "0", "--out"]
    if launcher == "torchrun":
        command = [programs / "torchrun", "--no-python", "--nproc-per-node", "2", "--standalone"]
    else:
        command = [programs / "accelerate", "launch", "--no_python", "--cpu", "--num_processes", "2"]
        command += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    two = run_program([*command, *train, tmp_path / "two"])
    assert two.returncode == 0, two.stderr
    assert two.stdout.count("report:") == 1  # one process speaks
    one = run_program([*train, tmp_path / "one"])
    assert one.returncode == 0, one.stderr
    scores = [json.loads((tmp_path / name / "result.json").read_text())["test"] for name in ("one", "two")]
    assert scores[1] == pytest.approx(scores[0], rel=1e-3)
    assert (tmp_path / "two" / "report.html").exists()


def run_program(command):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
