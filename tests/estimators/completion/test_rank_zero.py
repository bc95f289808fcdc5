"""Rank 0 is an answer, with which everything works."""

import numpy as np

from rslm import MatrixCompletion
from rslm.report import plot_path, plot_spectrum


def noise(seed, shape=(40, 30)):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(shape)
    X[rng.random(shape) < 0.5] = np.nan
    return X


def test_effects_alone_are_certified_and_drawn():
    X = noise(0)
    model = MatrixCompletion(random_state=0).fit(X)
    assert model.rank_ == 0
    assert model.certify(X).relative_gap < 1e-6
    assert "effects alone" in plot_path(model).get_title()
    axes = plot_spectrum(model)
    assert not axes.lines
    assert "rank 0" in axes.texts[0].get_text()
