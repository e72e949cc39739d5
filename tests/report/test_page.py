"""The page of a run: self-contained, with the sections of its kind and those that all runs have."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from audio_files import write_clips, write_fsdd, write_speech_commands
from image_files import write_mnist
from matplotlib.figure import Figure
from mixer_settings import sequence_config
from pair_files import pair_config, write_aan
from pathfinder_files import write_pathfinder
from tiny import make_task
from token_files import write_reviews

from longwave.experiments import EXPERIMENTS
from longwave.experiments.prepared import prepare_on
from longwave.pictures.html import table
from longwave.report.page import _training, training_curves, write_report
from longwave.tasks.audio.task import AudioConfig
from longwave.tasks.base import TASKS
from longwave.tasks.classify import report as classification
from longwave.tasks.classify.task import ClassificationTask, ClassifyConfig
from longwave.tasks.density import report as density
from longwave.tasks.forecast.task import ForecastConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.pairs.task import PairsConfig
from longwave.tasks.pathfinder.task import PathfinderConfig
from longwave.tasks.regress.task import RegressConfig
from longwave.tasks.speech_commands.task import SpeechCommandsConfig
from longwave.tasks.spoken_digits.task import SpokenDigitsConfig
from longwave.tasks.tag.task import TagConfig
from longwave.tasks.text import report as text
from longwave.tasks.text.task import TextConfig
from longwave.tasks.tokens.task import TokensConfig
from longwave.tasks.waveform import report as waveform
from longwave.tasks.waveform.task import WaveformConfig
from longwave.train.folder import RunFolder

SIZES = {"parameters": 12, "steps": 3, "seconds": 6.0}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Pictures are drawn and not rendered, and few tokens generated: what they show has tests of its own."""
    monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: file.write(b"picture"))
    monkeypatch.setattr(classification, "attribution", lambda model, batch, average: torch.zeros_like(batch["x"]))
    monkeypatch.setattr(
        density, "complete", lambda model, known, size, *_, **__: np.zeros((len(known), *size), np.uint8)
    )
    monkeypatch.setattr(density, "complete_halves", lambda model, images, copies, **_: images[:, None])
    monkeypatch.setattr(waveform, "draw", lambda model, given, length, **_: [np.zeros(len(given), np.uint8)] * length)
    monkeypatch.setattr(text, "generate", lambda model, prompt, length, **_: prompt)


def custom_tasks(folder):
    """Small tasks by their kind, made of files in a folder."""
    (folder / "my.txt").write_text("abc abd abe. " * 100)
    np.savez(folder / "my.npz", x=np.random.default_rng(0).standard_normal((30, 6)), y=["<b>", "c"] * 15)
    np.savez(folder / "numbers.npz", x=np.zeros((30, 6)), y=np.arange(60.0).reshape(30, 2), names=["<b>", "c"])
    np.savez(folder / "tags.npz", x=np.zeros((30, 6)), y=[["<b>", "c", ""] * 2] * 30)
    hours = np.datetime64("2024-01-01T00") + np.arange(100)
    rows = (f"{hour},{k % 24}" for k, hour in enumerate(hours))
    (folder / "my.csv").write_text("date,price\n" + "\n".join(rows) + "\n")
    write_mnist(folder, train=20, test=6)
    write_reviews(folder)
    write_aan(folder)
    write_pathfinder(folder, {0: 10, 1: 10, 2: 10})
    return {
        "forecast": ForecastConfig(csv=folder / "my.csv", target="price", time="date", horizon=3, context=10),
        "images": ImageConfig("smnist"),
        "classify": ClassifyConfig(npz=folder / "my.npz"),
        "regress": RegressConfig(npz=folder / "numbers.npz"),
        "tag": TagConfig(npz=folder / "tags.npz"),
        "text": TextConfig(file=folder / "my.txt", length=20),
        "tokens": TokensConfig("imdb", length=60),
        "pairs": PairsConfig("aan", length=60),
        "density": TASKS["density"](),
        "waveform": WaveformConfig(folder=folder / "clips", length=64),
        "pathfinder": PathfinderConfig(),
        "audio": AudioConfig(folder=folder / "clips"),
        "spoken-digits": SpokenDigitsConfig(valid_takes=1),
        "speech-commands": SpeechCommandsConfig("sc10", features="mfcc", resplit="speaker"),
    }


AUDIO = {
    "audio": lambda folder: write_clips(folder / "clips"),
    "waveform": lambda folder: write_clips(folder / "clips", 6),
    "spoken-digits": write_fsdd,
    "speech-commands": lambda folder: write_speech_commands(folder, ("yes", "no", "go"), speakers=4),
}


def page_of(folder, kind, mixer="s4", name="<mine>"):
    """The page of a model that was not trained."""
    if kind in AUDIO:
        AUDIO[kind](folder)
    settings = custom_tasks(folder)[kind]
    task = settings.build(folder)
    if kind == "pairs":
        config = pair_config(mixer=mixer, d_model=16, n_layers=1).resolve(task.spec)
    else:
        decoder = task.spec.decoders[0]
        config = sequence_config(mixer, d_model=16, n_layers=1, decoder=decoder).resolve(task.spec)
    experiment = replace(EXPERIMENTS["classify"], name=name, task=settings, model=config)
    run = RunFolder.create(folder / "run", prepare_on(experiment, task), None)
    run.write_config({})
    baselines = task.baselines()
    scores = next(iter(baselines.values()))["test"]
    for step in (1, 2):
        line = {"step": step, "epoch": step, "loss": 1.0, "seconds": 2.0, f"valid_{task.goal}": 0.5}
        run.log(line)
    result = {**SIZES, "model": config.label, "test": scores, "baselines": baselines, "paper": task.paper}
    write_report(run, config.build().eval(), task, result)
    return Path(folder / "run" / "report.html").read_text(encoding="utf-8")


TITLES = {
    "forecast": ["Forecasts over truth"],
    "images": ["Confusion matrix", "Misclassified examples", "Attribution"],
    "classify": ["Confusion matrix", "Misclassified examples", "Attribution"],
    "regress": ["Predicted against true", "Residuals", "Worst examples"],
    "tag": ["Confusion matrix", "Precision and recall", "Tagged sequences"],
    "text": ["A sample"],
    "tokens": ["Confusion matrix", "Texts and attribution"],
    "pairs": ["Confusion matrix", "Scores of the pairs", "Pairs and attribution"],
    "density": ["Samples", "Likelihood of each pixel"],
    "waveform": ["Data", "Samples"],
    "pathfinder": ["Confusion matrix", "Misclassified examples", "Attribution"],
    "audio": ["Data", "Confusion matrix", "Misclassified clips", "Attribution"],
    "spoken-digits": ["Data", "Confusion matrix", "Misclassified clips", "Attribution"],
    "speech-commands": ["Data", "Confusion matrix", "Misclassified clips", "Attribution"],
}


@pytest.mark.parametrize("kind", TASKS)
def test_a_page_has_the_sections_of_its_kind_and_needs_no_network(kind, tmp_path):
    page = page_of(tmp_path, kind)
    titles = re.findall("<h2>(.*?)</h2>", page)
    assert titles == ["Scores on the test set", *TITLES[kind], "Training", "Learned kernels", "Settings"]
    assert not re.search(r"https?://|<script|<link|@import|src=\"(?!data:)", page)
    assert "<title>&lt;mine&gt; - longwave</title>" in page
    assert "<b>" not in page
    assert ("Some of them as images" in page) == (kind in ("images", "pathfinder"))


def test_other_mixers_have_no_kernels_to_show(tmp_path):
    page = page_of(tmp_path, "classify", mixer="gru")
    assert "Learned kernels" not in page
    assert '<tr class="own"><td>GRU (this run)</td>' in page


def test_the_scores_stand_beside_the_baselines_and_the_paper(tmp_path):
    page = page_of(tmp_path, "images")
    assert re.search(r"<td>class prior</td><td class=\"n\">0\.\d{4}</td>", page)
    assert re.search(r"<td>S4 \(the paper\)</td><td class=\"n\">0\.9963</td><td class=\"n\">-</td>", page)
    assert "run run: 12 parameters, 3 steps, 6.0 seconds" in page


@pytest.mark.parametrize(("higher", "best"), [(True, ("good", 0.7)), (False, ("bad", 0.2))])
def test_the_curves_of_a_score_have_the_best_baseline_beside_them(higher, best):
    lines = [{"epoch": k, "loss": 1.0 / k, "seconds": 90.0 * k, "valid_score": k / 3} for k in (1, 2)]
    task = make_task(goal="score", higher_is_better=higher)
    baselines = {name: {"valid": {"score": value}} for name, value in (("good", 0.7), ("bad", 0.2))}
    baseline = task.best_baseline({**baselines, "other": {"valid": {}}}, "valid")
    loss, score = training_curves(lines, task.goal, baseline).axes
    assert loss.lines[0].get_ydata().tolist() == [1, 1 / 2]
    assert score.lines[0].get_xdata().tolist() == [1, 2]
    assert score.lines[0].get_ydata().tolist() == [1 / 3, 2 / 3]
    assert (score.lines[1].get_label(), score.lines[1].get_ydata()[0]) == best
    assert len(training_curves(lines, task.goal).axes[1].lines) == 1


def logged(count, score=0.5, seconds=90.0):
    """The lines of so many validations."""
    return [{"epoch": k, "loss": 1.0 / k, "seconds": seconds * k, "valid_accuracy": score} for k in range(1, count + 1)]


ACCURACY = make_task(goal="accuracy", higher_is_better=True)


@pytest.mark.parametrize(
    ("seconds", "unit", "labels"), [(90.0, "minutes", ["1.5", "3"]), (9.0, "seconds", ["9", "18"])]
)
def test_the_time_stands_above_the_epochs_that_took_it(seconds, unit, labels):
    figure = training_curves(logged(2, seconds=seconds), ACCURACY.goal)
    figure.draw_without_rendering()
    axes = figure.axes[1]
    (top,) = axes.child_axes
    assert (axes.get_xlabel(), top.get_xlabel()) == ("epoch", f"{unit} of training")
    shown = {
        label.get_text(): round(float(at), 9) for label, at in zip(top.get_xticklabels(), top.get_xticks(), strict=True)
    }
    assert [shown[label] for label in labels] == [1, 2]


@pytest.mark.parametrize("score", [1.0, 0.99])
def test_the_axis_of_an_accuracy_has_no_tick_above_one(score):
    lines = logged(3, score)
    lines[0]["valid_accuracy"] = 0.1
    axes = training_curves(lines, ACCURACY.goal).axes[1]
    assert axes.get_yticks().max() <= 1 + 1e-9
    assert score < axes.get_ylim()[1] < 1.04


def test_one_validation_is_told_in_words_and_not_drawn():
    baselines = {"class <prior>": {"valid": {"accuracy": 0.25}}}
    text = _training(logged(1), ACCURACY, {"baselines": baselines})
    assert "one validation, after epoch 1 and 90 seconds: accuracy 0.5000" in text
    assert "The best baseline, class &lt;prior&gt;, has 0.2500" in text
    assert "<img" not in text
    assert "<img" in _training(logged(2), ACCURACY, {"baselines": baselines})
    assert _training([], ACCURACY, {}) == "<p>No validation was logged.</p>"


def test_the_title_of_a_run_on_custom_data_names_the_kind_and_the_file(tmp_path):
    settings = ClassifyConfig(npz=tmp_path / "<my>.npz")
    assert replace(EXPERIMENTS["classify"], task=settings).title == "classify: <my>.npz"
    assert EXPERIMENTS["smnist"].title == "smnist"
    page = page_of(tmp_path, "classify", name="classify")
    assert "<title>classify: my.npz - longwave</title>" in page
    assert "<h1>classify: my.npz</h1>" in page


def test_kernels_are_shown_with_a_sentence_that_says_how_to_read_them(tmp_path):
    assert "A row is the convolution kernel of one feature" in page_of(tmp_path, "classify")


def test_the_page_shows_the_command_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["examples/demo.py"])
    assert "<pre>python examples/demo.py</pre>" in page_of(tmp_path, "classify")


def test_a_kind_without_a_report_has_the_page_that_all_runs_have(tmp_path, monkeypatch):
    monkeypatch.setattr(ClassificationTask, "report_module", None)
    assert "Confusion matrix" not in page_of(tmp_path, "classify")


def test_columns_of_numbers_stand_to_the_right_and_text_is_escaped():
    assert table(("a", "b"), [("<i>", "1"), ("x", "2.5%")]) == (
        '<table><tr><th>a</th><th class="n">b</th></tr>'
        '<tr><td>&lt;i&gt;</td><td class="n">1</td></tr><tr><td>x</td><td class="n">2.5%</td></tr></table>'
    )
