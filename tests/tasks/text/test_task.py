"""Text: the published files byte by byte and word by word, and a custom file."""

import dataclasses
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from constant_model import answering
from text_files import LINES, write_wikitext2

from longwave import runs
from longwave.experiments import Experiment, LoopConfig, OptimConfig
from longwave.io.download import catalogue
from longwave.layers import S4Config
from longwave.models import SequenceConfig
from longwave.tasks.autoregressive import PADDING, TokenRows
from longwave.tasks.text.codecs import Words
from longwave.tasks.text.task import TextConfig

# WikiText-2


def test_published_words_are_read_line_by_line(tmp_path):
    write_wikitext2(tmp_path)
    task = TextConfig(data="wikitext2", level="words", length=8).build(tmp_path)
    assert isinstance(task.codec, Words)
    for part, lines in LINES.items():
        expected = [word for line in lines for word in [*line.split(), "<eos>"]]
        assert [task.codec.words[k] for k in getattr(task, part).tokens] == expected
    assert task.spec.vocabulary == task.codec.size == len({"<eos>", *" ".join(LINES["train"]).split()})
    assert task.describe()["vocabulary"] == task.spec.vocabulary
    assert (task.unit, task.goal, task.length) == ("word", "bits_per_word", 8)


def test_windows_longer_than_the_text_are_refused(tmp_path):
    write_wikitext2(tmp_path)
    with pytest.raises(ValueError, match=r"length: expected at most half of the .* training tokens, got 1,000,000"):
        TextConfig(data="wikitext2", length=1_000_000).build(tmp_path)


def test_published_bytes_are_taken_as_they_are(tmp_path):
    folder = write_wikitext2(tmp_path)
    task = TextConfig(data="wikitext2", level="bytes", length=16).build(tmp_path)
    for part in LINES:
        assert bytes(getattr(task, part).tokens) == (folder / f"wiki.{part}.tokens").read_bytes()
    assert (task.spec.vocabulary, task.unit, task.goal) == (256, "byte", "bits_per_byte")


def test_perplexity_and_bits_follow_from_the_loss(tmp_path):
    write_wikitext2(tmp_path)
    task = TextConfig(data="wikitext2", level="words", length=8).build(tmp_path)
    scores = task.reported({"loss": 2.0})
    assert scores == {"loss": 2.0, "perplexity": pytest.approx(math.exp(2)), "bits_per_word": 2 / math.log(2)}
    assert task.goal in scores


def test_missing_files_are_named_with_the_command_that_gets_them(tmp_path):
    with pytest.raises(catalogue.MissingData, match="longwave data get wikitext2"):
        TextConfig(data="wikitext2").build(tmp_path)
    with pytest.raises(ValueError, match='data: expected "own" or "wikitext2" or "wikitext103", got'):
        TextConfig.from_dict({"data": "wikitext3"})


def test_other_words_than_published_are_noted(tmp_path):
    write_wikitext2(tmp_path)
    (note,) = TextConfig(data="wikitext2", level="words", length=8).build(tmp_path).notes
    assert note.startswith(
        "wikitext2 differs from the published text: 156, 21, 36, 15 words in train, valid, test and "
    )
    assert "not 2,088,628, 217,646, 245,569, 33,278; longwave data check wikitext2" in note


def test_wikitext_103_orders_equally_frequent_words_by_appearance(tmp_path):
    """As the published models of it: their word numbers, and even their bins, depend on it."""
    write_wikitext2(tmp_path).rename(tmp_path / "wikitext-103")
    words = TextConfig(data="wikitext103", level="words", length=8).build(tmp_path).codec.words
    assert words[:7] == ("<eos>", "the", "=", "sea", "is", "<unk>", ".")


# Rows


def test_a_text_in_rows_is_read_with_its_true_tokens(tmp_path):
    write_wikitext2(tmp_path)
    task = TextConfig("wikitext2", level="words", length=8, rows=3).build(tmp_path)
    for split in (task.train, task.valid, task.test):
        assert isinstance(split, TokenRows)
        assert (split.rows, split.length) == (3, 8)
    assert {task.train_at(epoch, seed=0).start for epoch in range(20)} <= set(range(task.train.row_length))
    assert task.train_at(3, seed=1).start == task.train_at(3, seed=1).start != task.train_at(4, seed=1).start
    with pytest.raises(
        ValueError, match="rows: expected rows of at least 9 tokens, got 30 rows of 5 in the train set; use"
    ):
        TextConfig("wikitext2", level="words", length=8, rows=30).build(tmp_path)
    with pytest.raises(ValueError, match="rows: expected at least 0, got -1"):
        TextConfig(rows=-1)


# The state carried on


@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("cutoffs", [(), (4,)], ids=["softmax", "adaptive"])
def test_with_the_state_carried_on_the_scores_are_those_of_one_long_window(rows, cutoffs, tmp_path):
    write_wikitext2(tmp_path)
    task = TextConfig("wikitext2", level="words", length=5, rows=rows).build(tmp_path)
    config = SequenceConfig(4, n_layers=1, mixer=S4Config(d_state=4), decoder="sequence", cutoffs=cutoffs)
    model = config.resolve(task.spec).build().double().eval()
    whole = task.carried(task.test)
    batch = whole.batch(range(len(whole)))
    assert len(whole) == max(1, rows)
    assert torch.equal(batch["y"].flatten(), torch.from_numpy(task.test.targets).long())  # the same tokens
    with torch.no_grad():
        outcome = task.outcome(model, batch)
        truth = -model(batch["x"])[0].log_softmax(-1).gather(-1, batch["y"].unsqueeze(-1)).sum()
        apart = [task.outcome(model, task.test.batch([k])).loss for k in range(len(task.test))]
    assert float(outcome.loss) == pytest.approx(float(truth), rel=1e-9)
    assert float(sum(apart)) != pytest.approx(float(truth), rel=1e-6)  # context helps, or hurts
    assert task.count(batch) == outcome.scores["loss"][1] == len(task.test.targets)


def carrying_task(tmp_path, rows=3):
    write_wikitext2(tmp_path)
    return TextConfig("wikitext2", level="words", length=5, rows=rows, carry_state=True).build(tmp_path)


def test_in_training_a_window_goes_on_from_the_state_of_the_one_before(tmp_path):
    """The loss of the second window is that of a longer one, but no gradient goes back into the first."""
    task = carrying_task(tmp_path)
    assert task.carried_rows == 3
    config = SequenceConfig(4, n_layers=1, mixer=S4Config(d_state=4), decoder="sequence", cutoffs=(4,))
    model = config.resolve(task.spec).build().double().eval()
    first, second = (task.train.batch(range(k, k + 3)) for k in (0, 3))
    before = task.outcome(model, first)
    assert not any(state.requires_grad for state in before.state[0])
    after = task.outcome(model, second, before.state)
    with torch.no_grad():
        whole, _ = model.nll(*(torch.cat((first[name], second[name]), dim=1) for name in "xy"))
    assert float(before.loss.detach()) == pytest.approx(float(whole[:, :5].sum()), rel=1e-9)
    assert float(after.loss.detach()) == pytest.approx(float(whole[:, 5:].sum()), rel=1e-9)
    assert not torch.allclose(before.state[0][0], after.state[0][0])
    assert "C" in model.blocks[0].mixer._parameters  # not C~ of one length: each window would have to solve for C


def test_a_task_that_carries_a_state_is_scored_with_it(tmp_path):
    task = carrying_task(tmp_path)
    assert (len(task.test), task.test.length, task.length) == (3, task.test.row_length - 1, 5)
    with pytest.raises(ValueError, match="carry_state: expected a SequenceModel, got a ConstantModel, which"):
        task.outcome(answering(None), task.test.batch([0]))
    with pytest.raises(ValueError, match=r"carry_state: expected rows .* \(--task.rows\), got none"):
        TextConfig("wikitext2", carry_state=True)


def test_a_run_that_carried_its_state_is_scored_with_it_or_window_by_window(tmp_path):
    """As the same weights are scored in a run that never carried it; and the training set is scored as the others."""
    write_wikitext2(tmp_path)
    settings = TextConfig("wikitext2", level="words", length=5, rows=3, carry_state=True)
    model = SequenceConfig(4, n_layers=1, mixer=S4Config(d_state=4), decoder="sequence")
    loop = LoopConfig(epochs=1, batch_size=3, eval_batch_size=3)
    found = {}
    for name, task in (("carried", settings), ("apart", dataclasses.replace(settings, carry_state=False))):
        experiment = Experiment(name, task, model, OptimConfig(lr=1e-30, ssm_lr=0.0), loop)  # the weights stay
        runs.start(experiment, tmp_path / name, data_dir=tmp_path, quiet=True)
        for split in ("train", "test"):
            for option in ("carry_state", "restart_state"):
                found[name, split, option] = runs.evaluate(tmp_path / name, split, **{option: True})
            found[name, split, "default"] = runs.evaluate(tmp_path / name, split)
    for split in ("train", "test"):
        assert found["carried", split, "restart_state"] == pytest.approx(found["apart", split, "default"], rel=1e-5)
        assert found["carried", split, "default"] == pytest.approx(found["apart", split, "carry_state"], rel=1e-5)
        assert found["carried", split, "default"] == found["carried", split, "carry_state"]
        assert found["apart", split, "default"] == found["apart", split, "restart_state"]
        assert found["apart", split, "default"]["loss"] != found["apart", split, "carry_state"]["loss"]
    with pytest.raises(ValueError, match="restart_state: expected restart_state or carry_state, got both"):
        runs.evaluate(tmp_path / "carried", carry_state=True, restart_state=True)


# Training windows


def test_each_epoch_cuts_at_other_places_that_follow_from_seed_and_epoch(tmp_path):
    (tmp_path / "my.txt").write_bytes(np.arange(250, dtype=np.uint8).tobytes() * 8)
    task = TextConfig(file=tmp_path / "my.txt", length=50).build()
    everything = range(len(task.train))
    firsts = set()
    for epoch in range(20):
        split = task.train_at(epoch, seed=1)
        batch = split.batch(everything)
        assert torch.equal(batch["y"], task.train_at(epoch, seed=1).batch(everything)["y"])
        assert (batch["y"] != PADDING).all()  # whole, wherever the first begins
        assert torch.equal(batch["x"][:, 1:], batch["y"][:, :-1])
        firsts.add(int(batch["y"][0, 0]))
    assert len(firsts) > 10
    assert task.train_at(0, seed=1).start != task.train_at(0, seed=2).start
    assert len(task.train) == (1800 - 49) // 50


# Custom text


def test_a_file_is_cut_by_position(tmp_path):
    content = bytes(range(200)) * 10
    (tmp_path / "my.txt").write_bytes(content)
    task = TextConfig(file=tmp_path / "my.txt", length=64).build()
    assert bytes(task.train.tokens) == content[:1800]
    assert bytes(task.valid.tokens) == content[1800:1900]
    assert bytes(task.test.tokens) == content[1900:]


def test_the_least_that_is_asked_for_is_enough(tmp_path):
    for length in (2, 7, 64):
        path = tmp_path / f"{length}.txt"
        path.write_bytes(b"x")
        with pytest.raises(ValueError, match="expected at least") as error:
            TextConfig(file=path, length=length).build()
        least = int(str(error.value).split("at least ")[1].split(" ")[0].replace(",", ""))
        path.write_bytes(b"x" * least)
        task = TextConfig(file=path, length=length).build()
        assert min(len(task.train), len(task.valid), len(task.test)) >= 1
        path.write_bytes(b"x" * (least - 1))
        with pytest.raises(ValueError, match=f"got {least - 1}; give more text, or shorter windows"):
            TextConfig(file=path, length=length).build()


def test_a_file_that_cannot_be_read_as_text_is_refused(tmp_path):
    (tmp_path / "empty.txt").touch()
    for name, kind, message in (
        ("none.txt", FileNotFoundError, "none.txt: no such file; expected a text file"),
        ("", ValueError, "expected a text file, got a folder"),
        ("empty.txt", ValueError, "empty.txt: the file is empty; expected text"),
    ):
        with pytest.raises(kind, match=message):
            TextConfig(file=tmp_path / name).build()
    (tmp_path / "my.txt").write_bytes(b"x" * 1000)
    with pytest.raises(ValueError, match="length: expected windows of at least 2 tokens, got 1"):
        TextConfig(file=tmp_path / "my.txt", length=1).build()


@pytest.mark.parametrize(
    ("name", "level", "tokens", "vocabulary"),
    [
        ("wikitext2", "words", (2_088_628, 217_646, 245_569), 33_278),
        ("wikitext2", "bytes", (10_797_148, 1_121_681, 1_256_449), 256),
        pytest.param(
            "wikitext103", "words", (103_227_021, 217_646, 245_569), 267_735, marks=pytest.mark.slow
        ),  # two minutes
    ],
)
def test_real_text_has_the_published_sizes(name, level, tokens, vocabulary):
    folder = os.environ.get("LONGWAVE_DATA")
    if not folder:
        pytest.skip("LONGWAVE_DATA is not set: no real data to read")
    try:
        task = TextConfig(data=name, level=level).build(Path(folder))
    except catalogue.MissingData as error:
        pytest.skip(str(error).splitlines()[0])
    assert tuple(task.describe()["tokens"].values()) == tokens
    assert task.spec.vocabulary == vocabulary
    assert task.notes == ()


@pytest.mark.parametrize(
    ("config", "vocabulary"), [(TextConfig(), 256), (TextConfig("wikitext103", level="words"), 267_735)]
)
def test_random_data_has_the_shapes_of_the_text(config, vocabulary):
    task = dataclasses.replace(config, length=12).on_random_data(rows=3)
    batch = task.train.batch(range(3))
    assert batch["x"].shape == batch["y"].shape == (3, 12)
    assert task.spec.vocabulary == task.codec.size == vocabulary
    assert (task.spec.length, task.count(batch)) == (12, 36)


# Settings


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TextConfig(), "text: expected --file FILE, your text, got none"),
        (TextConfig(file=Path("a.txt"), level="words"), "level: a custom text is read by bytes; .* got words"),
        (TextConfig("wikitext2", file=Path("a.txt")), "file: expected none with data wikitext2, got a.txt"),
    ],
)
def test_a_text_has_one_source(config, message):
    with pytest.raises(ValueError, match=message):
        config.build()
