"""The tool that streams an hour made of test clips, on a few seconds of a tiny run."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soundfile

from longwave.train.folder import RunFolder


@pytest.fixture
def tool(load_tool):
    return load_tool("streamed_hour")


def test_clips_are_joined_with_silence_and_their_ends_are_known(tool, trained_runs):
    trained_runs.fetch("audio")
    task = RunFolder.open("run").build_task()
    ends = tool.write_sound(task, Path("joined.wav"), 1.0, 0.05)
    samples, rate = soundfile.read("joined.wav")
    assert rate == task.inputs.sampling_rate
    assert 1.0 <= len(samples) / rate < 1.2
    clips = {
        task.test.clips.clip(int(row)).tobytes(): task.inputs.classes[label]
        for row, label in zip(task.test.rows, task.test.labels, strict=True)
    }
    silence, place = round(0.05 * rate), 0
    for end, label in ends:
        stop = round(end * rate)
        if not np.any(samples[place : place + 2 * silence]):
            place += silence  # a new order begins
        assert not samples[place : place + silence].any()
        assert clips[samples[place + silence : stop].astype(np.float32)[:, None].tobytes()] == label
        place = stop
    assert len(samples) == place + silence


@pytest.mark.parametrize("window", [None, 0.08])
def test_the_stream_has_the_probabilities_of_one_forward_pass(tool, trained_runs, window, capsys):
    trained_runs.fetch("audio")
    chosen = [] if window is None else ["--window", str(window)]
    tool.main(["run", "--seconds", "2", "--pause", "0.02", "--hop", "0.01", "--whole", "1.5", *chosen])
    found = json.loads(capsys.readouterr().out)
    assert found["outputs compared with one forward pass"] == 150
    assert 0 < found["largest difference of a probability"] < 1e-5
    assert found["clips"] >= 2 / 0.2
    times = [float(name.split()[0]) for name in found["memory, MB"]]
    assert all(a <= b for a, b in pairwise(times))


def test_a_clip_is_right_if_the_first_output_after_its_end_is(tool):
    found = {"times": (0.1, 0.2, 0.3), "labels": ("a", "b", "a")}
    assert tool.share_of_clips(found, [(0.05, "a"), (0.2, "b"), (0.21, "b"), (0.35, "a")]) == pytest.approx(2 / 3)
