"""`longwave doctor`: what it prints, and its exit code."""

import re

import pytest
from command import call

from longwave import ops
from longwave.bench import check
from longwave.bench.check import BackendReport, Health, Trial
from longwave.ops.cpu import library

FACTS = {"longwave": "1.0", "CPU": "a CPU (sse2)"}
GOOD = BackendReport("reference", [Trial("convolve", 1e-7, 0.001)])
BROKEN = BackendReport("reference", [Trial("convolve", 0.5, 0.001), Trial("truncate", None, 0.0, "ValueError: [why]")])
MISSING = BackendReport("native", [], unavailable="no compiler [here]")


@pytest.fixture
def health(monkeypatch):
    """A function that decides what the doctor finds."""
    return lambda found: monkeypatch.setattr(check, "examine", lambda: found)


def test_this_installation_is_good(capsys):
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    assert "broken" not in shown
    assert f"CPU tensors use: {ops.backend_name()}" in shown
    assert ("-bit vectors" in shown) == ("native is not available" not in shown)


def test_a_missing_backend_is_explained_and_no_error(health, capsys):
    health(Health(FACTS, [MISSING, GOOD], {"cpu": "reference"}))
    assert call("doctor") == 0
    shown = capsys.readouterr().out
    assert "CPU       a CPU (sse2)" in shown
    assert "native is not available: no compiler [here]" in shown


def test_a_broken_backend_gives_exit_code_1_and_the_reason(health, capsys):
    health(Health(FACTS, [BROKEN], {"cpu": "reference"}))
    assert call("doctor") == 1
    shown = capsys.readouterr().out
    assert shown.count("broken") == 2
    assert "reference truncate: ValueError: [why]" in shown


def test_without_a_backend_to_use_the_exit_code_is_1(monkeypatch, capsys):
    monkeypatch.setenv("LONGWAVE_KERNEL", "fast")
    assert call("doctor") == 1
    assert "LONGWAVE_KERNEL: expected one of native, reference, triton, got 'fast'" in capsys.readouterr().out


def test_on_a_narrow_terminal_every_cell_is_whole(health, capsys, monkeypatch):
    health(Health(FACTS, [MISSING, BROKEN], {"cpu": "reference"}))
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "40")):
        monkeypatch.setenv(name, value)
    assert call("doctor") == 1
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert all(text in shown for text in ("backend  reference", "error  5.0e-01", "verdict  not available"))


def test_a_vector_width_that_there_is_not_is_named(capsys, monkeypatch):
    monkeypatch.setattr(library, "load", library.load.__wrapped__)
    monkeypatch.setenv("LONGWAVE_VECTOR_BITS", "100")
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    assert call("doctor") in (1, 2)
    shown = capsys.readouterr()
    assert "LONGWAVE_VECTOR_BITS: expected one of 128, 256, 512, got '100'" in shown.out + shown.err
