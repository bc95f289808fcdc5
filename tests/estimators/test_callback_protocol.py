"""The callback protocol for versions of scikit-learn without one; it is tested whatever version is installed."""

import ast

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone

from rslm.estimators.callback_protocol import CallbackSupportMixin, with_callbacks
from test_layers import MODULES, ROOT


class Counter(CallbackSupportMixin, BaseEstimator):
    """Counts to `n`, one task each."""

    def __init__(self, n=3):
        self.n = n

    @with_callbacks
    def fit(self, X, fails=False):
        context = self._init_callback_context(max_subtasks=self.n)
        context.call_on_fit_task_begin(estimator=self, X=X)
        for k in range(1, self.n + 1):
            self.count_ = k
            task = context.subcontext(task_name=f"number {k}")
            task.call_on_fit_task_begin(estimator=self, X=X)
            if fails:
                raise RuntimeError("the fit failed")
            if task.call_on_fit_task_end(
                estimator=self,
                X=X,
                reconstruction_attributes=lambda: {"shown_": self.count_, "cost_": next(self.cost)},
            ):
                break
        context.call_on_fit_task_end(estimator=self, X=X)
        return self


class Recorder:
    """Writes down what it is told."""

    def __init__(self, stop_at=None, error=None):
        self.told, self.models, self.stop_at, self.error = [], [], stop_at, error

    def setup(self, estimator, context):
        self.told.append(f"setup {context.estimator_name}")

    def on_fit_task_begin(self, estimator, context):
        self.told.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, X, fitted_estimator=None):
        self.told.append(f"end {context.task_name} of {context.parent.task_name if context.parent else None}, {len(X)}")
        self.models.append(fitted_estimator)
        return context.task_name == self.stop_at

    def teardown(self, estimator, context):
        self.told.append("teardown")
        if self.error is not None:
            raise self.error


X = np.zeros((7, 1))


def counter(*callbacks, **parameters):
    model = Counter(**parameters).set_callbacks(*callbacks)
    model.cost = iter(range(100))
    return model


def test_all_tasks_are_told_in_order():
    recorder = Recorder()
    counter(recorder, n=2).fit(X)
    assert recorder.told == [
        "setup Counter",
        "begin fit",
        "begin number 1",
        "end number 1 of fit, 7",
        "begin number 2",
        "end number 2 of fit, 7",
        "end fit of None, 7",
        "teardown",
    ]


def test_a_copy_has_the_attributes_which_are_computed_once_for_all_callbacks():
    one, other = Recorder(), Recorder()
    model = counter(one, other).fit(X)
    assert [shown.shown_ for shown in one.models[:-1]] == [1, 2, 3]
    assert [shown.cost_ for shown in other.models[:-1]] == [0, 1, 2]
    assert one.models[-1] is None
    assert not hasattr(model, "shown_")


def test_a_callback_stops_the_fit():
    assert counter(Recorder(stop_at="number 2")).fit(X).count_ == 2


def test_a_fit_that_fails_is_torn_down_and_leaves_nothing():
    recorder = Recorder()
    model = counter(recorder)
    with pytest.raises(RuntimeError, match="the fit failed"):
        model.fit(X, fails=True)
    assert recorder.told[-1] == "teardown"
    assert set(vars(model)) == {"n", "_skl_callbacks", "cost", "count_"}


def test_all_are_torn_down_if_some_fail():
    first, second, third = Recorder(error=ValueError("a")), Recorder(error=ValueError("b")), Recorder()
    with pytest.raises(ExceptionGroup, match="several callbacks failed") as caught:
        counter(first, second, third).fit(X)
    assert [str(error) for error in caught.value.exceptions] == ["a", "b"]
    assert third.told[-1] == "teardown"
    with pytest.raises(ValueError, match="a"):
        counter(first, third).fit(X)


def test_clones_keep_callbacks():
    recorder = Recorder()
    assert clone(counter(recorder))._skl_callbacks == [recorder]
    assert not hasattr(clone(counter()), "_skl_callbacks")


def test_none_removes_those_that_were_set():
    recorder = Recorder()
    counter(recorder).set_callbacks().fit(X)
    assert recorder.told == []


@pytest.mark.parametrize(("given", "words"), [(print, "<built-in function print>"), (Recorder, "the class Recorder")])
def test_what_is_no_callback_is_refused(given, words):
    with pytest.raises(TypeError, match=f"methods setup, on_fit_task_begin, on_fit_task_end, teardown; got {words}"):
        counter(given)


def test_an_unknown_argument_is_refused():
    class Asks(Recorder):
        def on_fit_task_begin(self, estimator, context, *, weather):
            pass

    with pytest.raises(TypeError, match="on_fit_task_begin of Asks asks for weather; a callback may ask for X, y"):
        counter(Asks()).fit(X)


def test_one_module_imports_the_protocol_of_scikit_learn():
    found = set()
    for path in MODULES:
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if any(name.startswith("sklearn.callback") for name in names):
                found.add(path.as_posix())
    assert found == {"estimators/scikit_learn.py"}
