"""scikit-learn's callback protocol as far as our estimators use it, for versions of scikit-learn that have none.

The hooks and their arguments are those of scikit-learn 1.9, so that a callback works with either. Meta-estimators of
older versions, such as `GridSearchCV`, do not pass callbacks on; clones of an estimator keep them.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
HOOKS = ("setup", "on_fit_task_begin", "on_fit_task_end", "teardown")


class Context:
    """A task of a fit: its name, and its place among the other tasks."""

    def __init__(
        self, estimator: Any, task_name: str, task_id: int, max_subtasks: int | None, parent: Context | None = None
    ) -> None:
        self.estimator_name = type(estimator).__name__
        self.task_name, self.task_id, self.max_subtasks, self.parent = task_name, task_id, max_subtasks, parent
        self._estimator, self._subtasks = estimator, 0

    def subcontext(self, task_name: str) -> Context:
        """The next task within this one."""
        self._subtasks += 1
        return Context(self._estimator, task_name, self._subtasks - 1, 0, self)

    def call_on_fit_task_begin(self, *, estimator: Any, X: Any = None) -> Self:
        self._call("on_fit_task_begin", estimator, X, None)
        return self

    def call_on_fit_task_end(
        self, *, estimator: Any, X: Any = None, reconstruction_attributes: Callable[[], dict[str, Any]] | None = None
    ) -> bool:
        """Whether a callback wants to stop; one that asks for `fitted_estimator` gets a copy with these attributes."""
        return self._call("on_fit_task_end", estimator, X, reconstruction_attributes)

    def _call(self, hook: str, estimator: Any, X: Any, attributes: Callable[[], dict[str, Any]] | None) -> bool:
        @functools.cache  # attributes may be costly: computed once for all callbacks, and only if one asks for them
        def fitted() -> Any:
            if attributes is None:
                return None
            model = copy.copy(estimator)
            vars(model).update(attributes())
            return model

        known: dict[str, Callable[[], Any]] = {
            "X": lambda: X,
            "y": lambda: None,
            "metadata": lambda: None,
            "fitted_estimator": fitted,
        }
        stop = False
        for callback in callbacks_of(estimator):
            method = getattr(callback, hook)
            asked = [p.name for p in inspect.signature(method).parameters.values() if p.kind is p.KEYWORD_ONLY]
            if unknown := set(asked) - set(known):
                raise TypeError(
                    f"{hook} of {type(callback).__name__} asks for {', '.join(sorted(unknown))}; "
                    f"a callback may ask for {', '.join(known)}"
                )
            stop |= bool(method(estimator, self, **{name: known[name]() for name in asked}))
        return stop


class CallbackSupportMixin:
    """Adds `set_callbacks` to an estimator."""

    _skl_callbacks: list[Any]

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set callbacks for the estimator.

        Parameters
        ----------
        *callbacks : callback instances
            Objects with the methods `setup`, `on_fit_task_begin`, `on_fit_task_end` and `teardown`; none removes those
            that were set.

        Returns
        -------
        self : estimator
        """
        for callback in callbacks:
            missing = [hook for hook in HOOKS if not callable(getattr(callback, hook, None))]
            if missing or isinstance(callback, type):
                what = f"the class {callback.__name__}" if isinstance(callback, type) else f"{callback!r}"
                raise TypeError(f"callbacks must be instances with the methods {', '.join(HOOKS)}; got {what}")
        if callbacks:
            self._skl_callbacks = list(callbacks)
        else:
            vars(self).pop("_skl_callbacks", None)
        return self

    def __sklearn_clone__(self) -> Any:
        clone = super().__sklearn_clone__()  # type: ignore[misc]
        if callbacks := callbacks_of(self):
            clone._skl_callbacks = callbacks
        return clone

    def _init_callback_context(self, max_subtasks: int | None = 0) -> Context:
        self._callback_fit_ctx = Context(self, "fit", 0, max_subtasks)
        self._set_up: list[Any] = []
        for callback in callbacks_of(self):
            self._set_up.append(callback)  # before it is set up: one that fails half-way is torn down, too
            callback.setup(estimator=self, context=self._callback_fit_ctx)
        return self._callback_fit_ctx


def callbacks_of(estimator: Any) -> list[Any]:
    """The callbacks that were set."""
    callbacks: list[Any] = getattr(estimator, "_skl_callbacks", [])
    return callbacks


def with_callbacks(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Tear the callbacks down after the method, whether it returns or raises."""

    @functools.wraps(method)
    def managed(estimator: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(estimator, *args, **kwargs)
        finally:
            context, errors = vars(estimator).pop("_callback_fit_ctx", None), []
            for callback in vars(estimator).pop("_set_up", ()):
                try:
                    callback.teardown(estimator=estimator, context=context)
                except Exception as error:  # the others are torn down first
                    errors.append(error)
            if len(errors) == 1:
                raise errors[0]
            if errors:
                raise ExceptionGroup("several callbacks failed at the end of the fit", errors)

    return managed
