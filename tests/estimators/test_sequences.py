"""Estimators of sequences: scikit-learn's methods on the engine of the commands."""

import copy
import io
import logging
import pickle
import shutil
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import longwave
from longwave import S4Classifier, S4Regressor, S4Tagger
from longwave.tasks.sequences.data import from_arrays, save_npz

SMALL = {"d_model": 8, "n_layers": 1, "epochs": 2, "random_state": 0}


def bumps(count=40, channels=2, length=30, noise=1.0):
    """Two classes, of which the second has a bump in the first channel."""
    rng = np.random.default_rng(0)
    x, y = noise * rng.standard_normal((count, channels, length)), np.array(["flat", "bump"])[np.arange(count) % 2]
    x[y == "bump", 0, 10:15] += 3
    return x, y


@pytest.fixture(scope="module")
def fitted():
    x, y = bumps()
    return S4Classifier(**SMALL).fit(x, y), x, y


def test_classes_are_those_of_y_and_probabilities_stand_in_their_order(fitted):
    clf, x, y = fitted
    assert clf.classes_.tolist() == ["bump", "flat"]
    chances = clf.predict_proba(x)
    np.testing.assert_allclose(chances.sum(1), 1, rtol=1e-6)
    assert (clf.predict(x) == clf.classes_[chances.argmax(1)]).all()
    assert clf.score(x, y) > 0.9
    assert clf.n_features_in_ == 2


def test_names_of_classes_that_look_like_numbers_keep_the_order_of_scikit_learn():
    x, y = bumps()
    names = np.where(y == "bump", "10", "9")
    clf = S4Classifier(**SMALL).fit(x, names)
    assert clf.classes_.tolist() == ["10", "9"]
    assert clf.score(x, names) > 0.9


def test_channels_may_come_first_or_last_and_lengths_may_differ(fitted):
    clf, x, y = fitted
    last = S4Classifier(**SMALL, channels="last").fit(x.transpose(0, 2, 1), y)
    np.testing.assert_array_equal(last.predict_proba(x.transpose(0, 2, 1)), clf.predict_proba(x))
    rows = [row[:, : 20 + k % 11] for k, row in enumerate(x)]
    unequal = S4Classifier(**SMALL).fit(rows, y)
    assert unequal.predict(rows).shape == (40,)
    with pytest.raises(ValueError, match="expected sequences of 2 channels, as in fit, got 1"):
        unequal.predict([row[0] for row in rows])
    with pytest.raises(ValueError, match="channels: expected 'first' or 'last', got 'middle'"):
        S4Classifier(channels="middle").fit(x, y)


def test_an_array_that_looks_transposed_is_warned_of(fitted):
    _, x, y = fitted
    with pytest.warns(UserWarning, match=r"x has 30 channels and only 2 steps: .*channels='last'"):
        S4Classifier(**SMALL).fit(x.transpose(0, 2, 1), y)
    run = longwave.train_classifier(x, y, experiment=S4Classifier(**SMALL)._experiment(channels="last"), quiet=True)
    assert any("x has 30 channels and only 2 steps" in note for note in run.notes)


def test_all_rows_train_and_none_is_kept_for_a_test(fitted):
    clf, x, _ = fitted
    assert clf.run_.facts["examples"]["train"] == len(x)
    assert clf.run_.facts["examples"]["test"] == 0
    assert clf.result_["test"] == {}
    assert set(clf.result_["valid"]) == {"accuracy", "loss"}


def test_a_copy_predicts_the_same_also_when_its_folder_is_gone(tmp_path, fitted):
    clf, x, y = fitted
    kept = S4Classifier(**SMALL, folder=tmp_path / "run").fit(x, y)
    assert (tmp_path / "run" / "report.html").exists()
    np.testing.assert_array_equal(kept.predict_proba(x), clf.predict_proba(x))
    np.testing.assert_array_equal(S4Classifier.load(tmp_path / "run").predict_proba(x), clf.predict_proba(x))
    content = pickle.dumps(kept)
    shutil.rmtree(tmp_path / "run")
    for other in (pickle.loads(content), copy.deepcopy(kept), kept):
        np.testing.assert_array_equal(other.predict_proba(x), clf.predict_proba(x))
    assert not hasattr(clone(kept), "run_")


def test_saved_is_what_the_commands_open_and_what_they_wrote_is_loaded(tmp_path, fitted, monkeypatch):
    clf, x, _ = fitted
    clf.save(tmp_path / "saved")
    save_npz(tmp_path / "new.npz", from_arrays(x.transpose(0, 2, 1)))
    run = longwave.open(tmp_path / "saved")
    assert run.result == clf.result_
    found = run.predict(x)
    np.testing.assert_array_equal(found.probabilities, clf.predict_proba(x))
    loaded = S4Classifier.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.predict_proba(x), clf.predict_proba(x))
    assert loaded.get_params()["d_model"] == 8
    with pytest.raises(ValueError, match="expected a run of kind regress, got one of classify"):
        S4Regressor.load(tmp_path / "saved")


def test_a_grid_search_over_a_pipeline_finds_a_setting():
    x, y = bumps(channels=1)
    pipeline = make_pipeline(StandardScaler(), S4Classifier(**SMALL))
    search = GridSearchCV(pipeline, {"s4classifier__d_model": [4, 8]}, cv=2).fit(x[:, 0], y)
    assert search.best_score_ > 0.6
    assert set(search.cv_results_["param_s4classifier__d_model"]) == {4, 8}
    assert search.predict(x[:3, 0]).shape == (3,)


def test_the_same_seed_gives_the_same_bits_and_the_callers_generator_is_left_alone(fitted):
    clf, x, y = fitted
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    again = S4Classifier(**SMALL).fit(x, y)
    assert torch.equal(torch.rand(2), expected)
    np.testing.assert_array_equal(again.predict_proba(x), clf.predict_proba(x))
    other = S4Classifier(**{**SMALL, "random_state": 1}).fit(x, y)
    assert (other.predict_proba(x) != clf.predict_proba(x)).any()


def test_nothing_is_printed_and_progress_goes_to_the_log(capfd, caplog):
    x, y = bumps()
    with caplog.at_level(logging.INFO, logger="longwave"):
        S4Classifier(**SMALL).fit(x, y)
    assert any("validation accuracy" in line for line in caplog.messages)
    assert capfd.readouterr() == ("", "")
    S4Classifier(**SMALL, verbose=1).fit(x, y)
    assert "validation accuracy" in capfd.readouterr().err


def test_a_bump_that_was_planted_is_what_explains_the_class():
    x, y = bumps(80, channels=1, noise=0.3)
    clf = S4Classifier(d_model=16, n_layers=1, epochs=30, random_state=0).fit(x, y)
    shares = clf.explain(x[1:21:2])  # all of them have the bump
    assert shares.shape == (10, 1, 30)
    assert (np.abs(shares)[:, 0, 10:15].sum() / np.abs(shares).sum()) > 0.8
    deep = clf.run_.model.deep
    split, _ = clf._split(x[1:21:2])
    batch = split.batch(range(10))
    average = torch.from_numpy(np.load(io.BytesIO(clf.run_.artifact("average.npy"))))
    with torch.no_grad():
        here, there = deep(batch["x"])[0], deep(average)[0]
    first, second = here.topk(2).indices.unbind(-1)
    rows = torch.arange(10)
    lead = (here[rows, first] - here[rows, second]) - (there[0, first] - there[0, second])
    np.testing.assert_allclose(shares.sum((1, 2)), lead, rtol=0.01)
    clf.run_.model.share.fill_(1.0)
    with pytest.raises(ValueError, match="explain: the S4 has no weight in this model"):
        clf.explain(x)


def test_attributions_of_unequal_lengths_are_a_list(fitted):
    _, x, y = fitted
    rows = [row[:, : 20 + k % 3] for k, row in enumerate(x)]
    clf = S4Classifier(**SMALL).fit(rows, y)
    clf.run_.model.share.fill_(0.5)
    assert [share.shape for share in clf.explain(rows[:3])] == [(2, 20), (2, 21), (2, 22)]


def test_a_model_without_convolutions_is_explained_too(fitted, monkeypatch):
    _, x, y = fitted
    monkeypatch.setattr("longwave.tasks.classify.baselines.are_few", lambda rows, numbers: False)  # as of a large set
    clf = S4Classifier(**SMALL).fit(x, y)
    assert clf.run_.model.convolutions is None
    assert clf.explain(x[:2]).shape == (2, 2, 30)


def test_features_are_pooled_over_the_steps(fitted):
    clf, x, _ = fitted
    features = clf.transform(x)
    assert features.shape == (40, 8)
    np.testing.assert_allclose(clf.transform(x[3:4]), features[3:4], rtol=1e-4, atol=1e-5)


def test_weights_of_classes_and_examples_change_what_is_learnt(fitted):
    _, x, y = fitted
    heavy = S4Classifier(**SMALL, class_weight={"flat": 1000, "bump": 0.001}).fit(x, y)
    assert (heavy.predict(x) == "flat").all()
    weight = np.where(y == "flat", 1000, 0.001)
    same = S4Classifier(**SMALL).fit(x, y, sample_weight=weight)
    np.testing.assert_array_equal(same.predict_proba(x), heavy.predict_proba(x))
    balanced = S4Classifier(**SMALL, class_weight="balanced").fit(x, y)
    assert "balanced_accuracy" in balanced.result_["valid"]
    with pytest.raises(ValueError, match="at least one non-zero number"):
        S4Classifier(**SMALL).fit(x, y, sample_weight=np.zeros(40))


@pytest.mark.parametrize("targets", [1, 2])
def test_a_regressor_predicts_in_the_shape_of_y(targets):
    x, _ = bumps()
    y = x[:, 0, 10:15].mean(1) if targets == 1 else np.stack([x[:, 0].mean(1), x[:, 1].mean(1)], 1)
    reg = S4Regressor(**SMALL).fit(x, y, sample_weight=np.ones(40))
    assert reg.predict(x).shape == y.shape
    assert S4Regressor(**SMALL).fit(x, y).predict(x) == pytest.approx(reg.predict(x))
    assert np.isfinite(reg.score(x, y))


def test_a_tagger_labels_each_step_and_unknown_ones_do_not_count():
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 2, (30, 4)), 5, axis=1)
    x = (3 * y + rng.standard_normal(y.shape))[:, None]
    y[0, :7] = -1
    tagger = S4Tagger(**{**SMALL, "epochs": 20}).fit(x, y)
    assert tagger.classes_.tolist() == [0, 1]
    assert tagger.predict(x).shape == y.shape
    assert tagger.score(x, y) > 0.8
    assert tagger.predict_proba(x)[0].shape == (20, 2)
    names = np.where(y == 1, "up", "down")
    assert tagger.set_params(epochs=1).fit(x, names).classes_.tolist() == ["down", "up"]  # not those of before


def test_an_estimator_that_was_not_fitted_says_so():
    with pytest.raises(ValueError, match="not fitted yet"):
        S4Classifier().predict(np.zeros((2, 5)))


def test_ctrl_c_is_the_interruption_that_notebooks_expect(monkeypatch, fitted):
    from longwave.train.loop import Run

    _, x, y = fitted

    def interrupt(self, batch, is_ours=True):
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "step", interrupt)
    with pytest.raises(KeyboardInterrupt, match="a run without a folder cannot be resumed"):
        S4Classifier(**SMALL).fit(x, y)


def test_a_notebook_shows_scores(fitted):
    clf, _, _ = fitted
    assert "<table>" in clf._repr_html_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "S4Classifier" in S4Classifier()._repr_html_()
