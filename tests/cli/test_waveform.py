"""Waveforms as a person meets them: from a folder of tones to a WAV file and the report."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import soundfile
from audio_files import sound, write
from command import call

from longwave.runs import load_run
from longwave.tasks.waveform import generate as waveform
from longwave.tasks.waveform.generate import continue_sound


@pytest.fixture
def run(trained_runs):
    return trained_runs.fetch("waveform")


def test_tones_are_trained_scored_and_shown(run, capsys):
    assert "BITS PER SAMPLE" in run
    for baseline in ("uniform", "unigram", "bigram"):
        assert re.search(rf"{baseline} +│ +\d+\.\d{{4}} │", run)
    assert call("evaluate", "run") == 0
    result = json.loads(Path("run/result.json").read_text())
    assert f"test bits_per_sample {result['test']['bits_per_sample']:.6f}" in capsys.readouterr().out
    assert result["model"] == "S4 U-Net"
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert page.count("<audio controls src=") == 3 + 2 * 2  # the third test window is the short end of a note
    assert 'alt="waveforms and spectrograms of generated and of test sounds"' in page


def test_sound_is_generated_as_a_wav_file_and_follows_from_the_seed(run, capsys):
    arguments = ["generate", "run", "--seconds", "0.005", "--seed", "3", "--out"]
    assert call(*arguments, "some/a.wav") == 0
    written = capsys.readouterr()
    assert written.out == "sound: some/a.wav\n"
    samples, rate = soundfile.read("some/a.wav")
    assert (len(samples), rate) == (40, 8000)
    again, _ = continue_sound(load_run("run"), 0.005, seed=3)
    np.testing.assert_allclose(again[0], samples, atol=1 / 32767)
    assert call(*arguments, "c.wav", "--count", "2") == 0
    assert capsys.readouterr().out.endswith("sound: c-1.wav\nsound: c-2.wav\n")


def test_sound_goes_on_from_a_recording_of_another_rate_and_loudness(run):
    write(Path("begin.wav"), 0.2 * np.stack([sound("tone", 240, 16_000)] * 2, axis=1), 16_000)
    samples, _ = continue_sound(load_run("run"), 0.005, "begin.wav", seed=0)
    assert samples.shape == (1, 120 + 40)
    assert np.abs(samples[0, :120]).max() > 0.95  # scaled as clips were in training
    assert call("generate", "run", "--seconds", "0.005", "--prompt-wav", "begin.wav", "--seed", "0") == 0
    written, rate = soundfile.read("sample.wav")
    assert rate == 8000
    np.testing.assert_allclose(written, samples[0], atol=1 / 32767)


def test_what_was_generated_before_ctrl_c_is_kept(run, monkeypatch, capsys):
    draw = waveform.draw

    def interrupted(*arguments, **choice):
        for k, codes in enumerate(draw(*arguments, **choice)):
            if k == 10:
                raise KeyboardInterrupt
            yield codes

    monkeypatch.setattr(waveform, "draw", interrupted)
    assert call("generate", "run", "--seconds", "1", "--seed", "0") == 130
    assert len(soundfile.read("sample.wav")[0]) == 10


def test_a_mistake_is_refused(run, capsys):
    Path("no.wav").write_bytes(b"nothing")
    for arguments, hint in (
        (["--out", "a.mp3"], "out: expected a .wav file, got 'a.mp3'"),
        (["--seconds", "0"], "seconds: expected a positive number of seconds, got 0"),
        (["--count", "0"], "count: expected at least 1, got 0"),
        (["--prompt-wav", "none.wav"], "none.wav: it cannot be opened"),
        (["--prompt-wav", "no.wav"], "no.wav: expected a WAV, FLAC or OGG file"),
        (["--prompt-wav", "no.wav", "--out", "no.wav"], "--out: no.wav is also --prompt-wav; name another file"),
        (["--temperature", "-1"], "temperature: expected a finite number of at least 0"),
    ):
        assert call("generate", "run", *arguments) == 2
        captured = capsys.readouterr()
        assert hint in captured.err
        assert captured.out == ""
    assert not Path("sample.wav").exists()
    assert call("train", "waveform") == 2
    assert "waveform: expected --folder FOLDER" in capsys.readouterr().err


def test_a_run_on_other_than_waveforms_is_refused(trained_runs):
    trained_runs.fetch("text")
    with pytest.raises(ValueError, match="run: expected a run that generates sound, got one of kind text"):
        continue_sound(load_run("run"), 1.0)
