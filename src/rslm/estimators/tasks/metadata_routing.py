"""An error for searches of scikit-learn that pass tasks to `fit`, but not to `score`: all their scores would be NaN.

Without metadata routing, ``GridSearchCV(…).fit(X, y, tasks=tasks)`` and other searches pass `tasks` to `fit` only.
Then every score fails, and scikit-learn records NaN and takes the first setting for the best. It turns an error in
`score` into NaN too. An error in `set_params` ends the search at once. A search that sets no parameter gets an error in
`fit`: scikit-learn collects these and raises an error of its own that quotes them with tracebacks.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

SEARCH = "sklearn.model_selection._validation", "_fit_and_score"  # where all searches fit and score
SCORER = "sklearn.metrics._scorer"  # other scorers may know the tasks of the rows
TASKS = "tasks"
MESSAGE = (
    "tasks reach fit, but not score; call sklearn.set_config(enable_metadata_routing=True), and search with "
    "{}(…).set_fit_request(tasks=True).set_score_request(tasks=True)"
)


def check_scores_get_tasks(estimator: Any) -> None:
    """Raise an error if this fit is part of a search whose scores lack tasks."""
    search = _search()
    if search is not None and _scores_lack_tasks(search):
        raise ValueError(MESSAGE.format(type(estimator).__name__))


def tasks_without_scores() -> Any | None:
    """The tasks that a running search passes to `fit`, if it does not pass them to `score`."""
    search = _search()
    if search is None or not _scores_lack_tasks(search):
        return None
    given = search.get("fit_params") or {}
    return next((value for name, value in given.items() if name.rpartition("__")[2] == TASKS), None)


def _search() -> dict[str, Any] | None:
    """The local variables of the scikit-learn function that fits and scores, if it is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == SEARCH:
            return frame.f_locals
        frame = frame.f_back
    return None


def _scores_lack_tasks(search: dict[str, Any]) -> bool:
    return type(search.get("scorer")).__module__ == SCORER and TASKS not in (search.get("score_params") or {})
