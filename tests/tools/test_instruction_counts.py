"""The tool that counts instructions: what it computes, and what it reads of callgrind's output."""

import json
import shutil
import subprocess

import pytest
import torch

from longwave.ops import WEIGHT_TYPES
from longwave.ops.cpu import kernel


@pytest.fixture
def tool(load_tool):
    return load_tool("instruction_counts")


def test_the_ways_of_each_case_run_and_leave_the_kernel_as_it_was(tool, compiled, monkeypatch):
    monkeypatch.setattr(tool, "WIDTH", 32)
    monkeypatch.setattr(tool, "LENGTH", 16)
    before, names = kernel.DAMPING, {}
    for case, make in tool.CASES.items():
        with torch.no_grad():
            ways = make()
            for way in ways.values():
                way()
        names[case] = list(ways)
    assert names["unet"] == ["layer by layer", "compiled"]
    assert names["linear"] == list(WEIGHT_TYPES)
    assert before == kernel.DAMPING


def test_counts_are_read_in_the_order_of_the_ways_and_given_over_the_first(tool, monkeypatch, capsys):
    """With a stand-in for valgrind, which writes what it would write."""

    def stand_in(command, **options):
        if "-shared" in command:
            return subprocess.CompletedProcess(command, 0)
        [out] = [argument.partition("=")[2] for argument in command if argument.startswith("--callgrind-out-file")]
        for k, count in enumerate((4_000_000, 1_000_000), 1):
            with open(f"{out}.{k}", "w") as file:
                file.write(f"events: Ir\nsummary: 7\ntotals: {count}\n")
        order = [("unet", "layer by layer"), ("unet", "compiled")]
        return subprocess.CompletedProcess(command, 0, f"a warning\n{json.dumps(order)}\n", "")

    monkeypatch.setattr(subprocess, "run", stand_in)
    monkeypatch.setattr(shutil, "which", lambda name: name)
    tool.main(["unet"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[-3:] for line in lines] == [["4.000", "million,", "1.000"], ["1.000", "million,", "0.250"]]


@pytest.mark.parametrize(
    ("arguments", "found", "message"), [(["nothing"], True, "CASE: expected one of"), ([], False, "valgrind not found")]
)
def test_an_unknown_case_and_a_missing_valgrind_are_refused(tool, monkeypatch, arguments, found, message, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: name if found else None)
    with pytest.raises(SystemExit, match="2"):
        tool.main(arguments)
    assert message in capsys.readouterr().err
