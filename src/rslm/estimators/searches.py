"""Searches of scikit-learn that hand tasks to `fit`, but not to `score`: an error instead of scores that are all NaN.

Without metadata routing, ``GridSearchCV(…).fit(X, y, tasks=tasks)`` and its kin give `tasks` to `fit` alone. Then every
score fails, scikit-learn writes NaN for it and takes the first setting for the best. An error in `score` cannot tell of
that, because it is what is turned into NaN; one in `fit` can, because a search of which all fits fail is an error.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

SEARCH = "sklearn.model_selection._validation", "_fit_and_score"  # where all searches fit and score
SCORER = "sklearn.metrics._scorer"  # scorers from elsewhere may know what tasks the rows are of


def check_scores_get_tasks(estimator: Any) -> None:
    """An error where this fit is part of a search whose scores are going to need tasks, and will have none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__"), frame.f_code.co_name) == SEARCH:
            known = frame.f_locals
            scorer, given = known.get("scorer"), known.get("score_params") or {}
            if type(scorer).__module__ == SCORER and "tasks" not in given:
                name = type(estimator).__name__
                raise ValueError(
                    f"this search gives tasks to fit, but not to score, where every row needs one too; call "
                    "sklearn.set_config(enable_metadata_routing=True), and search with "
                    f"{name}(…).set_fit_request(tasks=True).set_score_request(tasks=True)"
                )
            return
        frame = frame.f_back
