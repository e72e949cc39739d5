"""Mean, deviation, scale and digest of arrays."""

import numpy as np
import pytest

from longwave.tasks.statistics import deviation_or_one, digest, mean_and_deviation, standardised


def test_standardised_columns_have_mean_0_and_deviation_1():
    values = np.random.default_rng(0).normal(size=(200, 3)) * [1, 1e3, 1e-3] + 7
    mean, deviation = mean_and_deviation(values, "here")
    standard = standardised(values, mean, deviation_or_one(deviation))
    np.testing.assert_allclose(standard.mean(axis=0), 0, atol=1e-11)  # 7 / 1e-3 in units of the last bit
    np.testing.assert_allclose(standard.std(axis=0), 1, rtol=1e-9)


def test_a_constant_column_has_deviation_0_and_is_divided_by_1():
    values = np.full((1000, 1), 0.1)  # whose mean rounds to another number
    _, deviation = mean_and_deviation(values, "here")
    assert deviation.tolist() == [0.0]
    assert deviation_or_one(deviation) == (1.0,)


def test_of_known_values_alone_the_others_may_be_anything():
    rng = np.random.default_rng(0)
    values, known = rng.normal(size=(50, 3)), rng.random((50, 3)) < 0.5
    mean, deviation = mean_and_deviation(np.where(known, values, 1e9), "here", known)
    for k in range(3):
        assert mean[k] == pytest.approx(values[known[:, k], k].mean(), rel=1e-12)
        assert deviation[k] == pytest.approx(values[known[:, k], k].std(), rel=1e-12)


def test_values_that_overflow_are_refused():
    with pytest.raises(ValueError, match="here: values up to 1e\\+200 are too large to be standardised"):
        mean_and_deviation(np.array([[1e200], [-1e200]]), "here")
    with pytest.raises(ValueError, match=r"column 1: values up to 1e\+60 are too far from the training set"):
        standardised(np.array([[0, 1e60]]), (0, 0), (1, 1))


def test_a_digest_depends_on_values_types_shapes_and_order_and_not_on_the_layout_in_memory():
    a, b = np.arange(6), np.arange(3.0)
    different = {digest(a), digest(a.astype(np.int32)), digest(a.reshape(2, 3)), digest(a, b), digest(b, a), digest()}
    assert len(different) == 6
    assert digest(a.reshape(2, 3)) == digest(np.asfortranarray(a.reshape(2, 3)))
