"""Estimators are abstract or final, and share what a result becomes."""

import inspect

import numpy as np
import pytest

from plain import plain_completion
from rslm import HankelModel, MatrixCompletion, MultiTaskRegressor, estimators, load
from rslm.estimators.base import Estimator
from rslm.estimators.completion import Completion

FINAL = [thing for name in estimators.__all__ if inspect.isclass(thing := getattr(estimators, name))]
X = np.random.default_rng(0).standard_normal((12, 3)) + np.arange(12.0)[:, None] * [1.0, -1.0, 0.5]


@pytest.mark.parametrize("kind", FINAL)
def test_what_can_be_made_is_not_inherited_from(kind):
    assert issubclass(kind, Estimator)
    assert not [k for k in kind.__subclasses__() if k.__module__.startswith("rslm.")]
    assert all(inspect.isabstract(base) for base in kind.__mro__[1:] if issubclass(base, Estimator))


def test_a_base_cannot_be_made():
    with pytest.raises(TypeError, match="abstract"):
        Completion()


@pytest.mark.parametrize(
    "fit",
    [
        lambda: plain_completion(2, 10.0, max_iter=1, tol=0.0).fit(X),
        lambda: MatrixCompletion(max_iter=1, tol=0.0, random_state=0).fit(X),
        lambda: MultiTaskRegressor(2, 10.0, max_iter=1, tol=0.0).fit(X[:, :2], X[:, 2]),
        lambda: HankelModel(2, 10.0, max_iter=1, tol=0.0).fit(np.cos(np.arange(40.0)) + 0.1),
    ],
    ids=["completion", "search", "tasks", "series"],
)
def test_a_result_has_the_same_attributes_everywhere(fit, tmp_path):
    with pytest.warns(UserWarning, match="not converged after max_iter=1 ") as caught:
        model = fit()
    assert {w.filename for w in caught} == {__file__}
    assert (model.outcome_, model.converged_, model.n_iter_) == ("iterations", False, 1)
    model.save(tmp_path / "m")
    read = load(tmp_path / "m")
    assert (read.outcome_, read.converged_, read.n_iter_) == ("iterations", False, 1)
    assert repr(read.certificate_) == repr(model.certificate_)
    assert list(read.history_) == list(model.history_)
    for name, values in model.history_.items():
        np.testing.assert_array_equal(read.history_[name], values)
