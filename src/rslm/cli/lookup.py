"""Which rows and columns of a model are meant by what was given on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from rslm import ImplicitCompletion, load
from rslm.data import Labels, ObservedMatrix
from rslm.data.labels import show_id
from rslm.data.numbers import plain_number
from rslm.estimators.completion import Completion

Recommender = Completion | ImplicitCompletion


def counted(ids: NDArray[Any] | None, given: NDArray[Any], count: int, path: str) -> NDArray[Any]:
    """The given ids; if the model has no ids, the positions that belong to numbers from 1."""
    if ids is not None:
        return given
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "iu" or ((numbers < 1) | (numbers > count)).any():
        strange = next(v for v in numbers.tolist() if not isinstance(v, int) or not 1 <= v <= count)
        raise ValueError(f"{path}: the model has no ids, so a number from 1 to {count} is needed; got {strange!r}")
    return numbers - 1


def known_pairs(model: Recommender, rows: Any, cols: Any, path: str) -> NDArray[np.bool_]:
    """Which pairs have a row and a column of the model; an error if no row and no column is known."""
    of_rows = Labels("row", len(model.row_factors_), model.row_ids_)
    of_cols = Labels("column", len(model.col_factors_), model.col_ids_)
    known = of_rows.places(rows) >= 0, of_cols.places(cols) >= 0
    if not (known[0].any() or known[1].any()):
        raise ValueError(
            f"{path} has no row and no column that the model knows: it has {of_rows.count} rows, such as "
            f"{show_id(of_rows.ids, 0)}, and {of_cols.count} columns, such as {show_id(of_cols.ids, 0)}; if other "
            "columns of the file hold them, name these: --rows and --cols"
        )
    return np.asarray(known[0] & known[1])


def of_known(numbers: NDArray[Any], known: NDArray[np.bool_]) -> NDArray[Any]:
    """Numbers of the known pairs among all of them, NaN elsewhere."""
    found = np.full(len(known), np.nan)
    found[known] = numbers
    return found


def intervals(model: Recommender, rows: Any, cols: Any, coverage: float) -> tuple[Any, Any]:
    """The ends of the intervals of a model's predictions."""
    if not predicts_values(model):
        raise ValueError("--interval is for predicted values; scores of an implicit model have no intervals")
    if model.classes_ is None and model._intervals is None:  # a file does not hold what they could be computed from
        raise ValueError("--interval needs a model with held-out entries: fit one with rslm complete --interval 0.9")
    return model.predict_interval(rows, cols, coverage)


def spread_of(model: Recommender, rows: Any, cols: Any) -> Any:
    """How far the draws of a model's predictions are apart."""
    if not getattr(model, "n_draws_", 0):
        raise ValueError("--spread needs a model that averages draws: fit one with rslm complete --average 100")
    return model.predict_spread(rows, cols)


def known_ids(model: Recommender, row: Any, col: Any) -> bool:
    """Whether one of the two is an id of the model."""
    pairs = ((row, model.row_ids_), (col, model.col_ids_))
    return any(ids is None or plain_number(given) in ids.tolist() for given, ids in pairs)


def completion(path: Path) -> Completion:
    fitted = load(path)
    if not isinstance(fitted, Completion):
        raise ValueError(f"{path} holds {_with_article(fitted)}; a MatrixCompletion is needed")
    return fitted


def recommender(path: Path) -> Recommender:
    """A model with factors of rows and columns."""
    fitted = load(path)
    if not isinstance(fitted, Completion | ImplicitCompletion):
        raise ValueError(f"{path} holds {_with_article(fitted)}; a MatrixCompletion or an ImplicitCompletion is needed")
    return fitted


def predicts_values(model: Recommender) -> TypeGuard[Completion]:
    """Whether predictions are values of the data; those of `ImplicitCompletion` are scores, whatever the counts are."""
    return isinstance(model, Completion)


def _with_article(model: Any) -> str:
    """The name of its class, with an article."""
    name = type(model).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def position(ids: NDArray[Any] | None, wanted: str, count: int) -> int:
    """The position of an id given on the command line; without ids, it is a number from 1."""
    if ids is None:
        if not wanted.isdecimal() or not 1 <= int(wanted) <= count:
            raise ValueError(f"{wanted!r} is not a row; rows are numbers from 1 to {count}")
        return int(wanted) - 1
    at = [k for k, name in enumerate(ids.tolist()) if str(name) == wanted]
    if not at:
        raise ValueError(f"{wanted!r} is not a row of the model; there are {count}, such as {ids.tolist()[0]!r}")
    return at[0]


def known_of_row(model: Recommender, at: int, data: ObservedMatrix, path: str) -> ObservedMatrix:
    """The entries of the data in this row, as a matrix of the model's shape; `path` is for messages."""
    columns = np.unique(seen_by(model, at, data, path)).astype(np.int32)
    rows, cols = len(model.row_factors_), len(model.col_factors_)
    indptr = np.where(np.arange(rows + 1) > at, len(columns), 0).astype(np.int64)
    return ObservedMatrix(indptr, columns, np.ones(len(columns)), (rows, cols))


def seen_by(model: Recommender, at: int, data: ObservedMatrix, path: str) -> Any:
    """The columns in which the data have an entry in this row."""
    if (model.row_ids_ is None) != (data.row_ids is None) or (model.col_ids_ is None) != (data.col_ids is None):
        raise ValueError(f"{path} cannot be matched with the model: only one of them has ids")
    if model.row_ids_ is None or data.row_ids is None:
        row = at if at < data.shape[0] else None
    else:
        found = [k for k, name in enumerate(data.row_ids.tolist()) if name == model.row_ids_.tolist()[at]]
        row = found[0] if found else None
    if row is None:
        return np.zeros(0, dtype=np.int64)
    columns = data.index[data.indptr[row] : data.indptr[row + 1]]
    if model.col_ids_ is None or data.col_ids is None:
        return columns
    table = {name: k for k, name in enumerate(model.col_ids_.tolist())}
    return np.array([table[n] for n in data.col_ids[columns].tolist() if n in table], dtype=np.int64)


def most_similar(model: Recommender, at: int, top: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows whose factors have the smallest angles to those of one row, and the cosines."""
    length = np.linalg.norm(model.row_factors_, axis=1)
    score = model.row_factors_ @ model.row_factors_[at] / np.maximum(length * length[at], np.finfo(float).tiny)
    score[at] = -np.inf
    order = np.argsort(-score)[: min(top, len(score) - 1)]
    return (order if model.row_ids_ is None else model.row_ids_[order]), score[order]
