"""Devices: those that a machine has, those that it has not, and accelerate on them. There is always the CPU."""

import os

import pytest
import torch
from accelerate.state import PartialState
from torch import nn

from longwave.tasks import actions as base
from longwave.train.device import VARIABLE, find_device, make_accelerator


def test_the_cpu_is_always_there_and_auto_takes_a_gpu_if_there_is_one():
    assert find_device("cpu") == torch.device("cpu")
    assert find_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["cuda:99", "mps:99", "meta", "gpu", "cpu cpu", ""])
def test_a_device_that_is_not_there_is_refused_with_those_that_are(name):
    with pytest.raises(ValueError, match=f"device: '{name}' is not available; expected one of auto, cpu"):
        find_device(name)


@pytest.mark.parametrize(
    ("built_for", "why"),
    [
        (None, r"this torch, .*, was built without CUDA: install a build that has it \(https://pytorch\.org/.*\)$"),
        ("12.8", r"this torch was built for CUDA 12\.8 and finds no GPU: check with nvidia-smi$"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_with_what_is_missing(built_for, why, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=rf"^device: 'cuda' is not available; expected one of auto, cpu.*; {why}"):
        find_device("cuda")


def test_accelerate_takes_the_device_whatever_an_earlier_run_had(monkeypatch):
    monkeypatch.setenv(VARIABLE, "meta")  # of the user; what is named in the call counts
    PartialState._reset_state()
    for _ in range(2):
        assert make_accelerator("cpu", "no").device == torch.device("cpu")
        PartialState._shared_state["device"] = torch.device("meta")
    assert make_accelerator("cpu", "bf16").mixed_precision == "bf16"
    assert os.environ[VARIABLE] == "meta"


def test_one_of_several_processes_cannot_choose_the_device_of_another(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(ValueError, match="device: expected auto or cpu, as each of several processes"):
        make_accelerator("cpu:0", "no")


def test_the_environment_does_not_divide_the_loss(monkeypatch):
    """The loop cuts batches into parts itself."""
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4")
    assert make_accelerator("cpu", "no").gradient_accumulation_steps == 1


def test_a_prediction_is_computed_where_the_model_is():
    seen = {}

    def call(model, batch):
        seen.update(batch)
        return torch.ones(2)

    found = base.predict(nn.Linear(1, 1, device="meta"), {"x": torch.zeros(2), "y": torch.zeros(2)}, call)
    assert {name: values.device.type for name, values in seen.items()} == {"x": "meta", "y": "meta"}
    assert torch.equal(found, torch.ones(2))
