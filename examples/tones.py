"""Write tones.npz: tones of four pitches in noise, to try out other sampling rates and streams on.

    python examples/tones.py
    longwave train classify --npz tones.npz --model.kind SequenceModel --model.mixer.no-bidirectional
    longwave evaluate runs/classify-tones-seed0 --rates 0.25 0.5 2 4 --picture rates.png

A pitch is a number of periods in 100 samples. Half the sampling frequency is 50 of them; with every fourth sample it is
12.5, and the two highest pitches are folded below it.
"""

import sys

import numpy as np

PITCHES = {"low": 1.5, "middle": 4.5, "high": 13.5, "highest": 22.0}
SPLITS = {"train": 400, "valid": 100, "test": 500}
LENGTH = 512


def make(count: int, length: int = LENGTH, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sequences (count, length) and their labels (count,): pitch by up to a tenth, loudness and phase are random."""
    draw = np.random.default_rng(seed)
    labels = np.array([list(PITCHES)[k % len(PITCHES)] for k in range(count)])
    pitch = np.array([PITCHES[label] for label in labels]) * draw.uniform(0.9, 1.1, count)
    phase = draw.uniform(0, 2 * np.pi, count)
    loudness = draw.uniform(0.3, 1, count)
    tones = np.sin(2 * np.pi * pitch[:, None] / 100 * np.arange(length) + phase[:, None])
    return loudness[:, None] * tones + draw.standard_normal((count, length)), labels


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "tones.npz"
    x, y = make(sum(SPLITS.values()))
    split = np.repeat(list(SPLITS), list(SPLITS.values()))
    np.savez(path, x=x.astype(np.float32), y=y, split=split)
    print(path)
