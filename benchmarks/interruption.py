"""Fits of MovieLens-1M that are killed at random moments and go on from their checkpoints, and what checkpoints cost.

python benchmarks/interruption.py [kills]
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import SHARED, needed, report
from rslm import MatrixCompletion, ObservedMatrix
from rslm.estimators.resuming import iterations_and_seconds

FITS: dict[str, dict[str, Any]] = {
    "square": {"rank": 20, "C": 1e3, "weighting": 0.5},
    "absolute": {"rank": 10, "C": 50.0, "loss": "absolute"},
}
REPEATS = 3  # of the fits that are timed; the least time counts


def fit(name: str, checkpoint: str, answer: str) -> None:
    """What the processes do that are killed."""
    file = np.load(needed(SHARED / "data" / "ml-1m" / "ml-1m.npz"))
    values = file["value"].astype(np.float64)
    data = ObservedMatrix.from_triplets(file["col"], file["row"], values, shape=(6040, 3706))
    model = MatrixCompletion(random_state=0, **FITS[name])
    print("begins", flush=True)
    wall, cpu = time.perf_counter(), time.process_time()
    model.fit(data, checkpoint=checkpoint or None)
    spent = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "iterations": model.n_iter_}
    np.savez(answer, rows=model.row_factors_, cols=model.col_factors_, objective=model.history_["objective"])
    print(json.dumps(spent))


def begun(name: str, checkpoint: Path | str, answer: Path) -> subprocess.Popen[str]:
    """A process whose fit has just begun."""
    words = [sys.executable, __file__, "--fit", name, str(checkpoint), str(answer)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def ended(process: subprocess.Popen[str]) -> dict[str, float]:
    told = process.communicate()[0]
    if process.returncode != 0:
        sys.exit("the fit has failed")
    spent: dict[str, float] = json.loads(told)
    return spent


def same(one: Path, other: Path) -> bool:
    with np.load(one) as a, np.load(other) as b:
        return all(a[name].tobytes() == b[name].tobytes() for name in a.files)


def row(name: str, kills: int, folder: Path) -> dict[str, Any]:
    plain, kept, chance = [], [], random.Random(0)
    for k in range(REPEATS):
        plain.append(ended(begun(name, "", folder / "plain.npz")))
        kept.append(ended(begun(name, folder / f"whole{k}", folder / "whole.npz")))
    seconds = min(spent["wall"] for spent in kept)
    equal, reached = 0, []
    for k in range(kills):
        checkpoint, answer = folder / f"part{k}", folder / f"part{k}.npz"
        process = begun(name, checkpoint, answer)
        time.sleep(chance.uniform(0.0, seconds))
        process.kill()
        process.communicate()
        done = iterations_and_seconds(checkpoint)
        reached.append(0 if done is None else done[0])
        ended(begun(name, checkpoint, answer))
        equal += same(folder / "whole.npz", answer)
        left = [path.name for path in folder.iterdir() if path.name.startswith(".")]
        if left:
            sys.exit(f"left behind: {left}")
    least = [min(spent["cpu"] for spent in spents) for spents in (plain, kept)]
    return {
        "loss": name,
        "iterations": kept[0]["iterations"],
        "wall s": seconds,
        "CPU s without": least[0],
        "with checkpoint": least[1],
        "cost %": 100.0 * (least[1] / least[0] - 1.0),
        "size MB": (folder / "whole0").stat().st_size / 1e6,
        "kills": kills,
        "went on from iteration": " ".join(map(str, sorted(reached))),
        "bitwise the same": equal,
    }


def main() -> None:
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for name in FITS:
            (Path(folder) / name).mkdir()
            rows.append(row(name, kills, Path(folder) / name))
    report("interruption", rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--fit"]:
        fit(*sys.argv[2:])
    else:
        main()
