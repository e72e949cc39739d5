"""The report of a waveform model: the data, and sounds to look at and listen to."""

import base64
import html
from typing import Any

import numpy as np

from longwave.io.audio import wav_bytes
from longwave.pictures.html import Section, image, table
from longwave.tasks.audio.plots import draw_sounds
from longwave.tasks.waveform.generate import draw
from longwave.tasks.waveform.quantize import ENCODINGS
from longwave.tasks.waveform.task import WaveformTask

MOST_STEPS = 16_000  # to generate, for all sounds at once
FROM_NOTHING, CONTINUED = 3, 3


def report(model: Any, task: WaveformTask) -> list[Section]:
    """The data; sounds from silence, and test windows whose second half is generated."""
    length = min(task.length, MOST_STEPS)
    decode = ENCODINGS[task.test.encoding].decode
    counts = task.test.counts
    long = np.flatnonzero(counts >= max(2, np.quantile(counts, 0.5)))[
        :CONTINUED
    ].tolist()  # not the short ends of clips
    made = np.stack(list(draw(model, np.empty((FROM_NOTHING, 0), np.uint8), length, seed=0)), axis=1)
    sounds = {f"generated {k + 1}": decode(codes) for k, codes in enumerate(made)}
    windows = [task.test.codes(k)[:length] for k in long]
    shortest = min(map(len, windows), default=0)
    windows = [codes[:shortest] for codes in windows]  # of one length, to continue them in one batch
    if windows:
        given = np.stack([codes[: shortest // 2] for codes in windows])
        rest = np.stack(list(draw(model, given, shortest - given.shape[1], seed=0)), axis=1)
        sounds |= {f"test window {k + 1}": decode(codes) for k, codes in zip(long, windows, strict=True)}
        continued = decode(np.concatenate((given, rest), axis=1))
        sounds |= {f"window {k + 1}, second half generated": one for k, one in zip(long, continued, strict=True)}
    rate = task.sampling_rate
    players = "".join(
        f'<p><audio controls src="data:audio/wav;base64,{base64.b64encode(wav_bytes(samples, rate)).decode()}">'
        f"</audio> {html.escape(name)}</p>"
        for name, samples in sounds.items()
    )
    picture = image(lambda: draw_sounds(sounds, rate), "waveforms and spectrograms of generated and of test sounds")
    return [Section("Data", _data(task)), Section("Samples", picture + players)]


def _data(task: WaveformTask) -> str:
    """Audio of each split, and how it is encoded."""
    rows = []
    for name, split in task.splits.items():
        clips = len(np.unique(split.places[:, 0]))
        rows.append((name, f"{clips:,}", f"{len(split):,}", f"{split.counts.sum() / task.sampling_rate / 60:.1f}"))
    text = f"<p>{task.sampling_rate:,} Hz, 256 codes ({task.test.encoding}), windows of {task.length:,} samples.</p>"
    notes = "".join(f"<p><strong>Note:</strong> {html.escape(note)}.</p>" for note in task.notes)
    return text + table(("split", "files", "windows", "minutes"), rows) + notes
