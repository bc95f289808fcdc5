"""All that differs between the supported versions of scikit-learn; no other module asks which one is installed.

The callback protocol is experimental in scikit-learn 1.9 and absent before; there, ours takes its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin
    from sklearn.callback import with_callbacks as _with_callbacks
except ImportError:  # before 1.9
    from rslm.estimators.callback_protocol import CallbackSupportMixin
    from rslm.estimators.callback_protocol import with_callbacks as _with_callbacks

__all__ = ["CallbackSupportMixin", "callback_context", "has_callbacks", "with_callbacks"]


def with_callbacks(fit: Callable[..., Any]) -> Any:
    """Decorate a `fit` that makes a `callback_context`: callbacks are called when it ends, even by an error."""
    return _with_callbacks(fit)


def callback_context(estimator: Any, max_subtasks: int | None) -> Any:
    """The task of a whole fit, which has at most `max_subtasks` tasks within it; None if that is not known."""
    return estimator._init_callback_context(max_subtasks=max_subtasks)


def has_callbacks(estimator: Any) -> bool:
    """Whether callbacks were set, by the user or by a meta-estimator."""
    return bool(getattr(estimator, "_skl_callbacks", ()))
