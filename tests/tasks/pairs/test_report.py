"""The report of a model of pairs: scores, both texts, attribution."""

import html
import re

import numpy as np
import pytest
import torch
from pair_files import pair_config, write_aan

from longwave.tasks.base import call
from longwave.tasks.pairs.report import report
from longwave.tasks.pairs.task import PairsConfig
from longwave.tasks.tokens.report import attribution, average_features, embedding


@pytest.fixture
def task(tmp_path):
    write_aan(tmp_path)
    return PairsConfig("aan", length=60).build(tmp_path)


@pytest.fixture
def model(task):
    torch.manual_seed(0)
    return pair_config().resolve(task.spec).build().eval()


def test_attributions_of_a_pair_add_up_to_its_lead_over_a_pair_of_average_texts(task, model):
    batch = task.test.batch([0, 6, 9])
    layer = embedding(model)
    average = average_features(layer, task.train.documents)
    shares = attribution(model, layer, batch, average, steps=200).reshape(2, 3, -1).swapaxes(0, 1)
    output = call(model, batch).detach()
    first, second = output.topk(2).indices.unbind(-1)
    with torch.no_grad():
        layer.weight[:] = average
    there = call(model, batch).detach()
    rows = torch.arange(3)
    lead = (output[rows, first] - output[rows, second]) - (there[rows, first] - there[rows, second])
    np.testing.assert_allclose(shares.sum((1, 2)), lead.numpy(), rtol=1e-3, atol=1e-5)
    for row, lengths in zip(shares, batch["lengths"], strict=True):
        for side, length in zip(row, lengths, strict=True):
            assert (side[length:] == 0).all()


def test_the_page_shows_both_texts_of_right_and_wrong_pairs_with_their_score(task, model):
    confusion, scores, pairs = report(model, task)
    assert [section.title for section in (confusion, scores)] == ["Confusion matrix", "Scores of the pairs"]
    assert "<img" in scores.content
    assert "score 0." in pairs.content
    assert "predicted as" in pairs.content
    assert pairs.content.count("<pre") == 12


def test_a_long_text_is_shown_to_its_first_characters(task, model, monkeypatch):
    monkeypatch.setattr("longwave.tasks.pairs.report.SHOWN", 10)
    monkeypatch.setattr("longwave.tasks.pairs.report.embedding", lambda model: None)
    texts = re.findall(r"<pre[^>]*>([^<]*)</pre>", report(model, task)[2].content)
    assert {html.unescape(text) for text in texts} <= {
        "b'on parsi\u2026",
        "b'on taggi\u2026",
        "b'a \"quote\u2026",
        "b'b'<eos>",
    }
    assert any(text.endswith("\u2026") for text in texts)


def test_a_model_without_an_embedding_has_no_colours(task, model, monkeypatch):
    monkeypatch.setattr("longwave.tasks.pairs.report.embedding", lambda model: None)
    assert "<span" not in report(model, task)[2].content
