"""How times and memory are measured."""

import pytest
import torch
from dense import run_python

from longwave.bench import measure


@pytest.mark.skipif(not measure.can_measure_memory(), reason="memory is measured on Linux only")
def test_live_growth_counts_what_is_in_use_at_one_time():
    code = """
import torch
from longwave.bench.measure import live_growth_of

def run():
    for _ in range(4):
        torch.ones(5_000_000)

print(live_growth_of(lambda: torch.ones(25_000_000), run))
"""
    assert 19e6 < int(run_python(code).stdout) < 24e6


def test_the_peak_of_tensors_is_what_is_held_at_one_time():
    def run():
        first = torch.ones(1000)
        second = first + 1
        del first
        return second + torch.ones(10)[0]

    torch.ones(1)
    assert measure.peak_of_tensors(run) == 2 * 4000 + 40
    assert measure.peak_of_tensors(lambda: None) == 0


def test_what_needs_too_much_memory_is_not_started(monkeypatch):
    monkeypatch.setattr(measure, "available_bytes", lambda device: 9_100_000_000)
    assert measure.too_little_memory(9_000_000_000) is None
    reason = "not measured: it needs about 14.0 GB of memory, 9.1 GB are available"
    assert measure.too_little_memory(14_000_000_000) == reason
    monkeypatch.setattr(measure, "available_bytes", lambda device: None)
    assert measure.too_little_memory(10**15) is None


def test_functions_take_turns_after_a_warm_up():
    calls = []
    best = measure.best_times({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=2)
    assert calls == ["a", "b"] * 3
    assert all(0 <= seconds < 1 for seconds in best.values())


def test_a_failure_in_a_process_of_its_own_is_reported_with_its_error():
    assert measure.in_fresh_process(measure.too_little_memory, needed=1) is None
    with pytest.raises(RuntimeError, match=r"too_little_memory \{'needed': 'x'\} failed[\s\S]*TypeError"):
        measure.in_fresh_process(measure.too_little_memory, needed="x")


def test_the_line_of_a_machine_names_cpu_threads_backend_and_versions():
    machine = measure.machine()
    line = measure.machine_line(machine)
    assert line.startswith(f"{machine['cpu']}, {machine['threads']} threads, backend {machine['backend']}, torch ")
    assert ("-bit vectors" in line) == machine["backend"].startswith("native")


def test_files_in_the_folder_at_hand_are_no_modules_of_a_fresh_process(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "queue.py").write_text("raise SystemExit('a file of the user was run')")
    assert measure.in_fresh_process(measure.can_measure_memory) in (True, False)
