"""The report of an audio classifier: the data, confusion matrix, misclassified clips, attribution."""

import html
from typing import Any

from torch import Tensor

from longwave.pictures.html import Section, image, table
from longwave.pictures.style import as_drawn, panels
from longwave.tasks.audio.clips import ClipTask
from longwave.tasks.audio.plots import show_frames, show_sound, show_waveform, sound_panels
from longwave.tasks.classify import report as classification
from longwave.tasks.classify.confusion import confusion
from longwave.tasks.classify.report import Predictions, of_test_set, show_attribution

MOST_SAMPLES = 2**19  # per batch
SHOWN = 6
ATTRIBUTED = 4
LONGEST = 2**17  # samples of a clip whose attribution is computed


def report(model: Any, task: ClipTask) -> list[Section]:
    """The data, confusion matrix, misclassified clips, attribution."""
    longest = int(task.test.lengths.max())
    size = max(1, min(100, MOST_SAMPLES // longest))
    chances = of_test_set(task, lambda: classification.probabilities(model, task.test, size))
    found = Predictions(chances, task.test.labels, task.inputs.classes)
    mistakes = found.mistakes(lambda: draw_clips(task, found, found.wrong(SHOWN)), "clips")
    return [
        Section("Data", _data(task)),
        Section("Confusion matrix", confusion(found.confusion, found.classes, task.counts["train"])),
        Section("Misclassified clips", mistakes),
        Section("Attribution", _attribution(model, task, found)),
    ]


def _attribution(model: Any, task: ClipTask, found: Predictions) -> str:
    """Attribution along some clips that are short enough, misclassified ones first."""
    lengths = task.test.lengths
    short = [k for k in found.wrong(len(task.test)) if lengths[k] <= LONGEST][: ATTRIBUTED // 2]
    short += [k for k in found.right(len(task.test)) if lengths[k] <= LONGEST][: ATTRIBUTED - len(short)]
    if not short:
        return f"<p>Not computed: all clips have more than {LONGEST:,} samples, which takes too much memory.</p>"
    shares = classification.attribution(model, task.test.batch(short), classification.average_example(task, most=100))
    text = (
        "<p>Blue stretches support the predicted class, orange ones the second most likely: "
        "integrated gradients of the difference of their logits, from the average training clip."
        f"{'' if task.inputs.features == 'raw' else ' The line is the first coefficient, the loudness.'}</p>"
    )
    return text + image(lambda: draw_attribution(task, found, short, shares), "attribution along each clip")


def _data(task: ClipTask) -> str:
    """Clips of each split, and notes."""
    rows = []
    for name, split in task.splits.items():
        seconds = split.clips.lengths[split.rows] / split.clips.sampling_rate
        rows.append(
            (name, f"{len(split):,}", f"{seconds.sum() / 60:.1f}", f"{seconds.min():.2f} to {seconds.max():.2f}")
        )
    notes = "".join(f"<p><strong>Note:</strong> {html.escape(note)}.</p>" for note in task.notes)
    return table(("split", "clips", "minutes", "seconds per clip"), rows) + notes


def _title(task: ClipTask, found: Predictions, index: int) -> str:
    name = task.test.clips.names[int(task.test.rows[index])]
    return f"{found.caption(index)}\n{as_drawn(name if len(name) <= 48 else '…' + name[-47:])}"


def draw_clips(task: ClipTask, found: Predictions, indices: list[int]) -> Any:
    """Clips with their class and the prediction: waveform and spectrogram, or MFCC frames."""
    is_raw = task.inputs.features == "raw"
    figure, sounds = sound_panels(len(indices), 2.6 if is_raw else 1.9, 2 if is_raw else 1)
    for own, index in zip(sounds, indices, strict=True):
        clip, title = task.test.clips.clip(int(task.test.rows[index])), _title(task, found, index)
        if is_raw:
            show_sound(own, clip, task.test.clips.sampling_rate, title)
        else:
            own[0].set_title(title, fontsize=8)
            show_frames(own[0], clip, len(clip) / task.test.clips.sampling_rate)
    return figure


def draw_attribution(task: ClipTask, found: Predictions, indices: list[int], shares: Tensor) -> Any:
    """Clips and, in colour, the stretches that support (blue) and oppose (orange) the predicted class."""
    figure, rows = panels(10, 1.7 * len(indices), len(indices))
    rate = task.test.clips.sampling_rate
    for k, (axes, index) in enumerate(zip(rows, indices, strict=True)):
        clip = task.test.clips.clip(int(task.test.rows[index]))
        length = min(len(clip), int(task.test.lengths[index]))
        show_waveform(axes, clip[:length], length / rate, "black")
        show_attribution(axes, shares[k, :length], lambda edges: edges / rate)
        axes.set_title(_title(task, found, index).replace("\n", ": "), fontsize=9)
    rows[-1].set_xlabel("seconds", fontsize=8)
    return figure
