"""Damaged files through the real commands: an exit code of 0, 1 or 2, no traceback, and nothing left half-done.

A few cases of each kind; `make fuzz` runs thousands.
"""

import copy
import hashlib
import json
import os
import pickle
import random
import warnings
from pathlib import Path
from unittest import mock

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from changes import HUGE
from command import call
from damage import (
    CLASSIFY,
    EVALUATE,
    FORECAST,
    GENERATE,
    KINDS,
    LABEL,
    RESUME,
    ROWS,
    left_behind,
    meet,
    write_rows,
)
from safetensors.torch import load_file, save_file

from longwave.train.checkpoint import MAGIC

MADE = {"how ListOps was made", "pairs of documents", "metadata of Pathfinder", "images of Pathfinder"}
QUICK = {name for name, kind in KINDS.items() if kind.run in ("causal", "forecast", "text", "words", "sweep")} | MADE
CASES = [
    pytest.param(name, seed, marks=() if name in QUICK and seed == 0 else pytest.mark.slow)
    for name in KINDS
    for seed in range(2)
]


@pytest.fixture
def fresh_process(monkeypatch):
    """The environment, and what accelerate made of it, as for a process of its own; nothing is asked of the hub."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with mock.patch.dict(os.environ):
        yield
    AcceleratorState._reset_state(reset_partial_state=True)


@pytest.mark.parametrize(("name", "seed"), CASES)
def test_damaged_input_is_refused_or_does_no_harm(name, seed, trained_runs, fresh_process, capfd):
    trained_runs.fetch(KINDS[name].run)
    command = KINDS[name].damage(random.Random(f"{name} {seed}"))
    with pytest.raises(SystemExit) as ended:
        meet(command)
    code, said = ended.value.code or 0, capfd.readouterr()
    assert code in (0, 1, 2)
    assert "Traceback" not in said.err + said.out
    assert code == 0 or "longwave: " in said.err or "For full helptext" in said.err
    assert left_behind(code, command[0]) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("train", "smnist-small", "--loop.epochs", HUGE),
        ("train", "smnist-small", "--seeds", HUGE),
        ("train", "smnist-small", "--model.d-model", HUGE),
        ("show", "smnist-small", "--optim.warmup", HUGE),
    ],
    ids=lambda arguments: arguments[2],
)
def test_a_whole_number_of_30_digits_is_refused(arguments, capsys):
    assert call(*map(str, arguments)) == 2
    assert "expected a whole number below 2^63" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_weights_of_another_dtype_serve_every_command(dtype, trained_runs):
    for run, commands in {"causal": (EVALUATE, LABEL, ROWS), "text": (GENERATE,)}.items():
        trained_runs.fetch(run)
        write_rows()
        path = Path("run/best/model.safetensors")
        save_file({name: values.to(dtype) for name, values in load_file(path).items()}, path)
        assert [call(*command) for command in commands] == [0] * len(commands)


def test_a_label_that_no_file_can_hold_is_refused_before_training(trained_runs, capsys):
    trained_runs.fetch("causal")
    with np.load("my.npz") as file:
        arrays = dict(file)
    arrays["y"] = np.where(np.arange(len(arrays["y"])) == 3, "\ud800", arrays["y"])
    np.savez("my.npz", **arrays)
    assert call(*CLASSIFY) == 2
    assert "my.npz: y[3]: expected a name that UTF-8 can encode" in capsys.readouterr().err
    assert not Path("new").exists()


def test_a_forecast_near_the_last_year_is_written_and_drawn(trained_runs):
    trained_runs.fetch("forecast")
    path = Path("series.csv")
    path.write_text(path.read_text().replace("2024-", "9999-"))
    assert call(*FORECAST) == 0
    assert Path("out.csv").exists()
    assert Path("out.png").exists()


def test_a_config_of_absurd_size_is_refused_at_once(trained_runs, capsys):
    trained_runs.fetch("causal")
    path = Path("run/config.json")
    content = json.loads(path.read_text())
    for name in ("n_layers", "d_model", "d_state"):
        changed = copy.deepcopy(content)
        model = changed["experiment"]["model"]
        (model if name in model else model["mixer"])[name] = 2**31
        path.write_text(json.dumps(changed))
        assert call(*EVALUATE) == 2
        assert "its settings do not make a model" in capsys.readouterr().err


def test_a_million_workers_in_a_config_are_refused(trained_runs, capsys):
    trained_runs.fetch("causal")
    path = Path("run/config.json")
    content = json.loads(path.read_text())
    content["experiment"]["loop"]["workers"] = 10**6
    path.write_text(json.dumps(content))
    for command in (EVALUATE, RESUME):
        assert call(*command) == 2
        assert "run/config.json: loop: workers: expected a number from 0 to 256, got 1000000" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ACCELERATE_TORCH_DEVICE", "ACCELERATE_TORCH_DEVICE: 'x' is not available; expected one of auto, cpu"),
        *((name, f"environment variables: {name}='x'") for name in ("ACCELERATE_USE_CPU", "LOCAL_RANK", "WORLD_SIZE")),
    ],
)
def test_a_wrong_variable_of_the_environment_is_named(name, message, trained_runs, fresh_process, capsys):
    trained_runs.fetch("causal")
    AcceleratorState._reset_state(reset_partial_state=True)
    os.environ[name] = "x"
    assert call(*EVALUATE) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("is_whole", [True, False], ids=["of another program", "with wrong first bytes"])
def test_a_checkpoint_that_is_none_is_noted_in_one_line_and_the_one_before_serves(is_whole, trained_runs, capsys):
    trained_runs.fetch("causal")
    path = Path("run/checkpoints/last.ckpt")
    payload = pickle.dumps({"position": {}}, protocol=4)  # of which torch warns
    path.write_bytes((MAGIC if is_whole else MAGIC[::-1]) + hashlib.sha256(payload).digest() + payload)
    assert call("train", "--resume", "run") == 0
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert first.startswith("run/checkpoints/last.ckpt ")
    assert first.endswith("; resuming from the checkpoint before it")
    assert second == "resuming at step 14"


def test_a_warning_of_python_is_one_plain_line():
    assert call("plot", "init", "--init", "none") == 2
    assert warnings.formatwarning("of two\n  lines", UserWarning, "file.py", 3) == "longwave: note: of two lines\n"
