"""The Parkinsons Telemonitoring data of the UCI Machine Learning Repository."""

from __future__ import annotations

import io
from typing import IO, Literal

import numpy as np

from rslm.datasets.archives import only
from rslm.datasets.download import Progress
from rslm.datasets.published import AnyPath, Published
from rslm.datasets.tasks import Regressions
from rslm.runtime.types import Floats

FILE = "parkinsons_updrs.data"
SUBJECT, TARGETS = "subject#", ("motor_UPDRS", "total_UPDRS")
LARGEST = 1e9  # allowed number of a patient
PARKINSONS = Published(
    "Parkinsons Telemonitoring",
    f"https://archive.ics.uci.edu/ml/machine-learning-databases/parkinsons/telemonitoring/{FILE}",
    "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39",
    "1 MB",
    "It may be used by anybody who names its authors (CC BY 4.0): "
    "https://archive.ics.uci.edu/dataset/189/parkinsons+telemonitoring.",
    (f"parkinsons/{FILE}", "parkinsons+telemonitoring.zip"),
)


def load_parkinsons(
    path: AnyPath | None = None,
    *,
    target: Literal["motor_UPDRS", "total_UPDRS"] = "total_UPDRS",
    download: bool = False,
    folder: AnyPath | None = None,
    progress: Progress | None = None,
) -> Regressions:
    """Parkinsons Telemonitoring: predict a score of symptoms from recordings of the voice; 42 patients are 42 tasks.

    There are 5,875 rows of 19 features: age, sex, the day of the recording, and 16 of the voice. They are not scaled,
    and of very different magnitudes: scale them before a fit.

    Parameters
    ----------
    path : path, optional
        parkinsons_updrs.data, a folder with it, or the archive of the repository. No checksum is verified. If None,
        `folder` is searched.
    target : {"total_UPDRS", "motor_UPDRS"}
        Which score; the other one is left out.
    download, folder, progress
        As in `load_movielens`; the download is from archive.ics.uci.edu.

    Returns
    -------
    Regressions
        Tasks are the numbers of the patients, 1 to 42; features have names.
    """
    if target not in TARGETS:
        raise ValueError(f"target is {target!r}, but must be {' or '.join(map(repr, TARGETS))}.")
    with only(PARKINSONS.find(path, download, folder, progress), FILE) as (name, stream):
        names, table = _table(name, stream)
    features = [k for k, column in enumerate(names) if column not in (SUBJECT, *TARGETS)]
    tasks = table[:, names.index(SUBJECT)].astype(np.int64)
    return Regressions(table[:, features], table[:, names.index(target)], tasks, tuple(names[k] for k in features))


def _table(name: str, stream: IO[bytes]) -> tuple[list[str], Floats]:
    names = stream.readline(10_000).decode("utf-8", "replace").strip().split(",")
    if not {SUBJECT, *TARGETS} <= set(names):
        raise ValueError(
            f"{name} begins with {','.join(names)[:60]!r}, but a header with {SUBJECT}, {' and '.join(TARGETS)} is "
            "needed."
        )
    below = stream.read()
    if not below.strip():
        raise ValueError(f"{name} has nothing below its header.")
    try:
        table = np.loadtxt(io.BytesIO(below), delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{name} has something other than numbers below its header: {error}") from None
    if table.shape[1] != len(names):
        raise ValueError(f"{name} has {len(names)} names in its header, but {table.shape[1]} columns below it.")
    wrong = ~np.isfinite(table)
    subjects = table[:, names.index(SUBJECT)]
    wrong[:, names.index(SUBJECT)] |= (subjects != np.rint(subjects)) | (np.abs(subjects) > LARGEST)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        line = [k for k, text in enumerate(below.splitlines(), start=2) if text][row]
        needed = "the number of a patient" if names[column] == SUBJECT else "a finite number"
        raise ValueError(f"{name}, line {line}: {names[column]} is {table[row, column]:g}, but {needed} is needed.")
    return names, table
