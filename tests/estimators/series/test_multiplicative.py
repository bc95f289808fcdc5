"""Series whose swings grow with their level."""

import numpy as np
import pytest

from rslm import HankelModel
from rslm.estimators.series.multiplicative import is_multiplicative

T = np.arange(120)
SEASON = np.sin(2 * np.pi * T / 12)


def noise(size, seed=0):
    return size * np.random.default_rng(seed).standard_normal(len(T))


def test_a_product_is_recognised_and_its_logarithm_is_not():
    y = np.exp(4.0 + 0.01 * T + 0.2 * SEASON + noise(0.03))
    assert is_multiplicative(y)
    assert is_multiplicative(np.where(T % 7 == 0, np.nan, y))
    assert not is_multiplicative(np.log(y))


@pytest.mark.parametrize(
    "y",
    [
        50.0 + 0.5 * T + 8.0 * SEASON + noise(2.0),  # a sum
        50.0 + 8.0 * SEASON * (1 + T / 60) + noise(2.0),  # no trend
        0.5 * T - 20.0 + 0.1 * T * SEASON,  # negative samples have no logarithm
        np.exp(4.0 + 0.01 * T),  # no swings but those of a curve
        3.0 + 10.0 * np.exp(-T / 30) * (1.2 + np.cos(T / 2)) + noise(0.05),  # it decays
        np.full(len(T), 3.0),
        np.exp(0.1 * T[:20]) * (1 + 0.2 * SEASON[:20]),  # too short
    ],
    ids=["sum", "no trend", "negative", "curve", "decay", "constant", "short"],
)
def test_others_are_not(y):
    assert not is_multiplicative(y)


def test_its_forecast_warns_and_that_of_the_logarithm_does_not():
    y = np.exp(4.0 + 0.01 * T + 0.2 * SEASON + noise(0.1))
    model = HankelModel().fit(y)
    with pytest.warns(UserWarning, match=r"fit np\.log\(y\)"):
        model.forecast(3)
    HankelModel().fit(np.log(y)).predict_interval(3)  # warnings are errors here
