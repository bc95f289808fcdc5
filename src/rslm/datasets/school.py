"""The School data: examination scores of 15,362 students in 139 schools in London."""

from __future__ import annotations

from typing import Any

import numpy as np

from rslm.data.files import matlab
from rslm.datasets.archives import only
from rslm.datasets.published import AnyPath, data_folder, existing, first_of
from rslm.datasets.tasks import Regressions

FILE = "school.mat"
WHERE = (
    "There is no download, as it has no permanent address and no licence; most people take data/school.mat from the "
    "MALSAR package (https://github.com/jiayuzhou/MALSAR). The records are those of the Inner London Education "
    "Authority, 1985 to 1987."
)


def load_school(path: AnyPath | None = None, *, folder: AnyPath | None = None) -> Regressions:
    """School: predict the examination score of a student; each of 139 schools is a task.

    The file has 15,362 rows of 28 features, most of which are 0 or 1; the last one is always 1.

    Parameters
    ----------
    path : path, optional
        school.mat, or a folder or archive with it: cells X{t} and Y{t} are the rows and scores of school t. If None,
        `folder` is searched for school.mat or school/school.mat. There is no download.
    folder : path, optional
        The folder of data sets; $RSLM_DATA if None, or else ~/.cache/rslm.

    Returns
    -------
    Regressions
        Tasks are 0 to 138, in the order of the file; features have no names.
    """
    if path is None:
        home = data_folder(folder)
        found = first_of(home, (FILE, f"school/{FILE}"))
        if found is None:
            raise FileNotFoundError(f"School is not in {home}. {WHERE} Put it there, or pass path=….")
    else:
        found = existing(path)
    with only(found, FILE) as (name, stream):
        X, y = _cells(name, stream)
    counts = [len(part) for part in y]
    return Regressions(np.vstack(X), np.concatenate(y), np.repeat(np.arange(len(y)), counts), None)


def _cells(name: str, stream: Any) -> tuple[list[Any], list[Any]]:
    needed = "MATLAB cells X and Y, a matrix of features and a vector of scores for every school, are needed"
    try:
        content = matlab.variables(stream.read())
    except ValueError as error:
        raise ValueError(f"{name} is damaged or not a MATLAB file up to version 7: {error}; {needed}.") from None
    cells = [_listed(content.get(variable)) for variable in ("X", "Y")]
    try:
        X = [np.asarray(x, dtype=np.float64) for x in cells[0]]  # 8-bit integers in the file
        y = [np.asarray(v, dtype=np.float64).reshape(-1) for v in cells[1]]
    except (TypeError, ValueError):  # sparse matrices, text and nested cells
        raise ValueError(f"{name} has cells that are not matrices of numbers; {needed}.") from None
    fits = len(X) == len(y) > 0 and all(x.ndim == 2 and len(x) == len(v) for x, v in zip(X, y, strict=True))
    if not fits or len({x.shape[1] for x in X}) > 1:
        shapes = f"{len(X)} and {len(y)} cells" if X or y else "no such cells"
        raise ValueError(f"{name} has {shapes}, or they do not fit together; {needed}.")
    if not all(np.isfinite(part).all() for part in (*X, *y)):
        raise ValueError(f"{name} has numbers that are not finite; {needed}.")
    return X, y


def _listed(value: Any) -> list[Any]:
    return list(value.ravel()) if isinstance(value, np.ndarray) and value.dtype == object else []
