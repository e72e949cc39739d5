"""The report of a classifier of tokens: attribution, coloured text."""

import numpy as np
import pytest
import torch
from mixer_settings import sequence_config
from token_files import write_reviews

from longwave.models import SequenceModel
from longwave.tasks.base import call
from longwave.tasks.tokens.report import attribution, average_features, coloured, embedding, in_words, report
from longwave.tasks.tokens.task import TokensConfig


@pytest.fixture
def task(tmp_path):
    write_reviews(tmp_path)
    return TokensConfig("imdb", length=60).build(tmp_path)


@pytest.fixture
def model(task):
    config = sequence_config(d_model=8, n_layers=1, bidirectional=True)
    return SequenceModel(config.resolve(task.spec)).eval()


def test_attributions_of_a_row_add_up_to_its_lead_over_an_average_row(task, model):
    batch = task.test.batch([0, 3, 13])
    layer = embedding(model)
    average = average_features(layer, task.train)
    shares = attribution(model, layer, batch, average, steps=200)
    output = call(model, batch).detach()
    first, second = output.topk(2).indices.unbind(-1)
    with torch.no_grad():
        layer.weight[:] = average
    there = call(model, batch).detach()
    rows = torch.arange(3)
    lead = (output[rows, first] - output[rows, second]) - (there[rows, first] - there[rows, second])
    np.testing.assert_allclose(shares.sum(1), lead.numpy(), rtol=1e-3, atol=1e-5)
    assert (shares[0, int(batch["lengths"][0]) :] == 0).all()


def test_the_average_features_are_those_of_the_tokens_without_padding(task, model):
    batch = task.train.batch(range(len(task.train)))
    rows = zip(batch["x"], batch["lengths"], strict=True)
    expected = torch.cat([model.encoder.values(row[:length]) for row, length in rows]).mean(0)
    torch.testing.assert_close(average_features(model.encoder.values, task.train), expected.detach())


def test_tokens_are_escaped_and_coloured_by_their_sign():
    page = coloured(["<b>", "&", "x", "y"], np.array([1.0, 1.0, 0.0, -0.5]), " ")
    assert "<b>" not in page
    assert page.count("<span") == 2
    assert "&lt;b&gt; &amp; </span>x <span" in page
    assert "<span" not in coloured(["a", "b"], np.zeros(2), "")


def test_characters_are_coloured_word_by_word_and_their_shares_add_up():
    tokens, shares = [*"Ab  cd.\n", "<unk>", *"e f", "<eos>"], np.arange(1.0, 14.0)
    words, sums = in_words(tokens, shares)
    assert words == ["Ab  ", "cd.\n", "<unk>", "e ", "f", "<eos>"]
    assert sums.tolist() == [10, 26, 9, 21, 12, 13]
    assert sums.sum() == shares.sum()
    page = coloured([*"no yes"], np.array([-1.0, -1.0, 0.0, 2.0, 2.0, -1.0]), "")
    assert page.count("<span") == 2
    assert ">no </span><span" in page


def test_the_page_shows_texts_of_both_kinds(task, model):
    confusion, texts = report(model, task)
    assert confusion.title == "Confusion matrix"
    assert "predicted as" in texts.content
    assert "<pre" in texts.content
    assert "&lt;eos&gt;" in texts.content


def test_a_model_without_an_embedding_has_no_attribution(task, model, monkeypatch):
    monkeypatch.setattr("longwave.tasks.tokens.report.embedding", lambda model: None)
    assert [section.title for section in report(model, task)] == ["Confusion matrix"]
