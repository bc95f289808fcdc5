"""Searches of scikit-learn that hand tasks to `fit`, but not to `score`: an error instead of scores that are all NaN.

Without metadata routing, ``GridSearchCV(…).fit(X, y, tasks=tasks)`` and other searches give `tasks` to `fit` alone.
Then every score fails, scikit-learn writes NaN for it and takes the first setting for the best. An error in `score`
would be turned into NaN too. One in `set_params` ends the search at once, with one sentence. Where no parameter is set,
one in `fit` remains: scikit-learn collects such errors, and raises one of its own that quotes them with tracebacks.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

SEARCH = "sklearn.model_selection._validation", "_fit_and_score"  # where all searches fit and score
SCORER = "sklearn.metrics._scorer"  # scorers from elsewhere may know what tasks the rows are of
TASKS = "tasks"
MESSAGE = (
    "tasks reach fit, but not score; call sklearn.set_config(enable_metadata_routing=True), and search with "
    "{}(…).set_fit_request(tasks=True).set_score_request(tasks=True)"
)


def check_scores_get_tasks(estimator: Any) -> None:
    """An error where this fit is part of a search whose scores are going to need tasks, and will have none."""
    search = _search()
    if search is not None and _scores_lack_tasks(search):
        raise ValueError(MESSAGE.format(type(estimator).__name__))


def tasks_without_scores() -> Any | None:
    """The tasks that a search is about to give to `fit`, if it keeps them from scores that need them."""
    search = _search()
    if search is None or not _scores_lack_tasks(search):
        return None
    given = search.get("fit_params") or {}
    return next((value for name, value in given.items() if name.rpartition("__")[2] == TASKS), None)


def _search() -> dict[str, Any] | None:
    """The variables of the function of scikit-learn that fits and scores, if it is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == SEARCH:
            return frame.f_locals
        frame = frame.f_back
    return None


def _scores_lack_tasks(search: dict[str, Any]) -> bool:
    return type(search.get("scorer")).__module__ == SCORER and TASKS not in (search.get("score_params") or {})
