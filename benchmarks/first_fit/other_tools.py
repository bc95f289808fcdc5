"""Recommenders of other packages with their defaults, run by a Python that has them.

    python other_tools.py TOOL IN.npz OUT.npz

IN holds `shape`, `rows`, `cols`, `values` to learn from and `test_rows`, `test_cols`; OUT gets `prediction` and
`seconds`. It imports nothing of this repository, as these packages may need another NumPy. Surprise and cornac
are given the range of ratings and clip their predictions to it, as they do by default; one thread each.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np


def cmfrec(file: Any) -> tuple[Any, Any]:
    from cmfrec import CMF
    from scipy import sparse

    X = sparse.coo_matrix((file["values"], (file["rows"], file["cols"])), shape=tuple(file["shape"]))
    model = CMF(nthreads=1, verbose=False).fit(X)
    return model.predict(file["test_rows"], file["test_cols"]), file["values"].mean()


def cornac(name: str, file: Any) -> tuple[Any, Any]:
    from cornac import models
    from cornac.data import Dataset

    keys = (file["rows"].tolist(), file["cols"].tolist(), file["values"].tolist())
    data = Dataset.from_uir(list(zip(*keys, strict=True)), seed=0)
    model = getattr(models, name)(seed=0, verbose=False, num_threads=1)
    model.fit(data)
    users = [data.uid_map.get(u, data.num_users) for u in file["test_rows"].tolist()]
    items = [data.iid_map.get(i, data.num_items) for i in file["test_cols"].tolist()]
    if name == "BaselineOnly":  # which has no answer for users or items that it has not seen: they have no effect
        found = model.global_mean + np.append(model.u_biases, 0.0)[users] + np.append(model.i_biases, 0.0)[items]
        return np.clip(found, data.min_rating, data.max_rating), data.global_mean
    return [model.rate(u, i) for u, i in zip(users, items, strict=True)], data.global_mean


def surprise(name: str, file: Any) -> tuple[Any, Any]:
    import pandas as pd  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import surprise  # type: ignore[import-not-found, unused-ignore]

    table = pd.DataFrame({key: file[key] for key in ("rows", "cols", "values")})
    reader = surprise.Reader(rating_scale=(file["values"].min(), file["values"].max()))
    seed = {"random_state": 0} if name == "SVD" else {"verbose": False}
    model = getattr(surprise, name)(**seed)
    model.fit(surprise.Dataset.load_from_df(table, reader).build_full_trainset())
    pairs = zip(file["test_rows"].tolist(), file["test_cols"].tolist(), strict=True)
    return [model.predict(u, i).est for u, i in pairs], file["values"].mean()


TOOLS: dict[str, Any] = {
    "cmfrec": cmfrec,
    "cornac-MF": lambda file: cornac("MF", file),
    "cornac-Baseline": lambda file: cornac("BaselineOnly", file),
    "surprise-SVD": lambda file: surprise("SVD", file),
    "surprise-Baseline": lambda file: surprise("BaselineOnly", file),
}


def main() -> None:
    tool, source, target = sys.argv[1:]
    file = dict(np.load(source))
    began = time.perf_counter()
    prediction, mean = TOOLS[tool](file)
    seconds = time.perf_counter() - began
    prediction = np.asarray(prediction, dtype=float)
    np.savez(target, prediction=np.where(np.isfinite(prediction), prediction, mean), seconds=seconds)


if __name__ == "__main__":
    main()
