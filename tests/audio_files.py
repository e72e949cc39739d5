"""Audio made by the tests: tones, chirps and noise, in files, and public sets in miniature."""

from pathlib import Path

import numpy as np
import soundfile

KINDS = ("chirp", "noise", "tone")
DIGIT_SPEAKERS, TAKES = ("ann", "bob"), 7


def sound(kind: str, length: int, rate: int = 8000, seed: int = 0) -> np.ndarray:
    """(length,) of amplitude 1/2."""
    generator = np.random.default_rng(seed)
    time = np.arange(length) / rate
    if kind == "noise":
        return 0.5 * generator.uniform(-1, 1, length)
    start = 150 + 50 * generator.random()
    return 0.5 * np.sin(2 * np.pi * (start * time + (60_000 * time**2 if kind == "chirp" else 0)))


def write(path: Path, samples: np.ndarray, rate: int = 8000, subtype: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype)
    return path


def write_clips(folder: Path, count: int = 30) -> Path:
    """A folder of clips of unequal length, with a subfolder for each of three classes."""
    for k in range(count):
        kind = KINDS[k % 3]
        write(folder / kind / f"{k}.wav", sound(kind, 100 + 7 * (k % 11), seed=k))
    return folder


def write_tones(folder: Path, count: int = 12, length: int = 300, rate: int = 8000) -> Path:
    """A folder of notes of one pitch, each as loud as it likes, some louder upwards than downwards."""
    generator = np.random.default_rng(0)
    for k in range(count):
        phase = 2 * np.pi * (generator.random() + 500 * np.arange(length) / rate)
        write(folder / f"note {k}.wav", generator.uniform(0.1, 0.9) * np.sin(phase), rate)
    return folder


def write_fsdd(data: Path) -> Path:
    """Digits that are tones of their own, by two speakers in seven takes: 5 to test, 1 to validate, 1 to train."""
    folder = data / "free-spoken-digit-dataset"
    for digit in range(10):
        for take in range(TAKES):
            for n, speaker in enumerate(DIGIT_SPEAKERS):
                length = 120 + 10 * take + 5 * n
                tone = 0.4 * np.sin(2 * np.pi * (200 + 150 * digit) * np.arange(length) / 8000)
                write(folder / "recordings" / f"{digit}_{speaker}_{take}.wav", tone)
    return folder


def write_speech_commands(data: Path, words: tuple[str, ...], speakers: int = 6, short: int = 0) -> Path:
    """A clip of a second for each word and speaker; the last `short` speakers speak for half a second only."""
    folder = data / "speech_commands_v0.02"
    generator = np.random.default_rng(0)
    for n, word in enumerate(words):
        for speaker in range(speakers):
            length = 8000 if speaker >= speakers - short else 16000
            samples = 0.1 * np.sin(2 * np.pi * (300 + 100 * n) * np.arange(length) / 16000)
            samples += 0.01 * generator.standard_normal(length)
            write(folder / word / f"{speaker:08x}_nohash_0.wav", samples, 16000, "PCM_16")
    return folder
