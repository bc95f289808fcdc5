"""Data sets: synthetic ones with known truth, and published ones, from a path or a download."""

from rslm.datasets.low_rank import make_low_rank
from rslm.datasets.movielens import load_movielens
from rslm.datasets.netflix import load_netflix
from rslm.datasets.parkinsons import load_parkinsons
from rslm.datasets.ratings import Ratings, make_ratings
from rslm.datasets.school import load_school
from rslm.datasets.series import Series, make_series
from rslm.datasets.tasks import MadeTasks, Regressions, make_tasks

__all__ = [
    "MadeTasks",
    "Ratings",
    "Regressions",
    "Series",
    "load_movielens",
    "load_netflix",
    "load_parkinsons",
    "load_school",
    "make_low_rank",
    "make_ratings",
    "make_series",
    "make_tasks",
]
