"""The report of audio: what is said of the data, and which clips are shown."""

import pytest
from audio_files import write_clips
from mixer_settings import sequence_config

from longwave.tasks.audio import report as audio
from longwave.tasks.audio.task import AudioConfig


@pytest.fixture
def task(tmp_path):
    (tmp_path / "clips" / "tone").mkdir(parents=True)
    (tmp_path / "clips" / "tone" / "<b>.txt").write_text("")
    return AudioConfig(folder=write_clips(tmp_path / "clips")).build(tmp_path)


def sections(task, model=None):
    model = model or sequence_config("s4", d_model=4, n_layers=1).resolve(task.spec).build().eval()
    return dict(audio.report(model, task))


def test_the_splits_and_all_notes_are_shown(task):
    data = sections(task)["Data"]
    assert "<td>train</td>" in data
    assert '<td class="n">24</td>' in data
    assert "0.01 to 0.02" in data
    assert "do not end in .wav, .flac, .ogg, .oga: tone/&lt;b&gt;.txt" in data


def test_clips_that_are_too_long_have_no_attribution(task, monkeypatch):
    assert "<img" in sections(task)["Attribution"]
    monkeypatch.setattr(audio, "LONGEST", 50)
    assert "all clips have more than 50 samples" in sections(task)["Attribution"]
