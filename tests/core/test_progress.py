"""Progress in plain text."""

import io

import pytest

from longwave.core import progress
from longwave.core.progress import Patient


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("stream", "seconds", "shown"), [(Terminal, 6, True), (Terminal, 4, False), (io.StringIO, 6, False)]
)
def test_a_long_job_is_shown_on_a_terminal_alone(stream, seconds, shown, clock, monkeypatch):
    written = stream()
    monkeypatch.setattr(progress.sys, "stderr", written)
    job = Patient()
    job.start("reading", 8)
    clock[0] += seconds
    job.advance(2)
    assert ("reading 25%" in written.getvalue()) == shown
    job.end()
    assert written.getvalue().endswith("\r\x1b[K") == shown
