"""The checks that scikit-learn, aeon and sktime have for estimators, and captum's integrated gradients."""

import io

import numpy as np
import pandas as pd
import pytest
import torch
from aeon.testing.estimator_checking import check_estimator as check_aeon
from captum.attr import IntegratedGradients
from sklearn.utils.estimator_checks import check_estimator

import longwave
from longwave import S4Classifier, S4Regressor
from longwave.estimators.sequences import EXPLAINING_STEPS

BATCHES = "training draws batches, in which a row that is there twice is not a row of weight 2"
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": BATCHES,
    "check_sample_weight_equivalence_on_sparse_data": BATCHES,
}
pytestmark = pytest.mark.filterwarnings("ignore")  # those of the checks themselves


@pytest.mark.parametrize(
    "estimator",
    [S4Classifier(d_model=8, n_layers=1, epochs=10), S4Regressor(n_layers=2, epochs=40)],
    ids=["classifier", "regressor"],
)
def test_scikit_learn_has_nothing_to_object_to(estimator):
    results = check_estimator(estimator, expected_failed_checks=EXPECTED, on_fail=None)
    assert [found["check_name"] for found in results if found["status"] == "failed"] == []
    assert len(results) > 50


@pytest.mark.parametrize("name", ["S4Classifier", "S4Regressor"])
def test_aeon_has_nothing_to_object_to(name):
    from longwave import aeon

    results = check_aeon(getattr(aeon, name), raise_exceptions=False)
    assert {check: found for check, found in results.items() if found != "PASSED"} == {}
    assert len(results) > 20


def test_aeons_classifier_equals_the_estimator():
    from longwave import aeon

    x, y = np.random.default_rng(0).standard_normal((20, 2, 15)), np.arange(20) % 2
    settings = {"d_model": 8, "n_layers": 1, "epochs": 2, "random_state": 0}
    other = S4Classifier(**settings).fit(x, y)
    np.testing.assert_allclose(aeon.S4Classifier(**settings).fit(x, y).predict_proba(x), other.predict_proba(x))


@pytest.mark.parametrize("index", [pd.period_range("2000-01", periods=120, freq="M"), pd.RangeIndex(120)], ids=type)
def test_sktimes_forecaster_equals_the_estimator(index):
    from longwave import sktime

    values = 10 + np.sin(np.arange(120) / 4)
    settings = {"context": 12, "d_model": 8, "n_layers": 1, "epochs": 1, "random_state": 0}
    forecaster = sktime.S4Forecaster(**settings)
    found = forecaster.fit(pd.Series(values[:110], index=index[:110]), fh=[1, 2, 5]).predict()
    dates = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else None
    own = longwave.S4Forecaster(5, **settings).fit(
        pd.Series(values[:110], dates if dates is None else dates[:110], name="y")
    )
    np.testing.assert_array_equal(found.to_numpy(), np.asarray(own.predict()["y"])[[0, 1, 4]])
    assert found.index.tolist() == index[[110, 111, 114]].tolist()
    forecaster.update(pd.Series(values[110:112], index=index[110:112]), update_params=False)
    assert forecaster.predict().index[0] == index[112]


def test_explanations_are_captums_integrated_gradients():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 2, 20)), np.arange(40) % 2
    x[y == 1, 0, 5:9] += 2
    clf = S4Classifier(d_model=8, n_layers=1, epochs=5, random_state=0).fit(x, y)
    clf.run_.model.share.fill_(0.5)
    split, _ = clf._split(x[:6])
    batch = split.batch(range(6))["x"]
    average = torch.from_numpy(np.load(io.BytesIO(clf.run_.artifact("average.npy"))))
    deep = clf.run_.model.deep
    with torch.no_grad():
        first, second = deep(batch)[0].topk(2).indices.unbind(-1)

    def lead(points):
        output = deep(points)[0]
        copies = len(points) // len(batch)
        rows = torch.arange(len(points))
        return output[rows, first.repeat(copies)] - output[rows, second.repeat(copies)]

    expected = IntegratedGradients(lead).attribute(
        batch, average.expand_as(batch), n_steps=EXPLAINING_STEPS, method="riemann_middle"
    )
    np.testing.assert_allclose(clf.explain(x[:6]), expected.transpose(1, 2).numpy(), atol=1e-4)
