"""Fits that are killed, or interrupted by Ctrl-C, at random moments, and go on from their checkpoints; what these cost.

python benchmarks/interruption.py [kills]            fits of MovieLens-1M, killed
python benchmarks/interruption.py command [times]    `rslm complete` with bounds, a model, a report and a checkpoint, on
                                                     data that are generated, killed and interrupted N times each
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from common import SHARED, needed, report
from rslm import MatrixCompletion, ObservedMatrix, load
from rslm.datasets import make_ratings
from rslm.estimators.checkpoints import iterations_and_seconds

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
    model = MatrixCompletion(random_state=0, effects=None, **FITS[name])
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


# ---- the command -------------------------------------------------------------------------------------------------

WRITTEN = ("model", "report.html", "checkpoint")
SETTINGS = ("--lower", "0", "--upper", "9", "--rank", "10", "--C", "1000", "--json")
INTERRUPTED = 130


def complete(folder: Path) -> subprocess.Popen[str]:
    """The command, in a group of its own, with all that it can write."""
    words = [sys.executable, "-c", "from rslm.cli import program; program()"]
    words += ["complete", str(folder.parent / "ratings.csv")]
    words += [*SETTINGS, "--model", str(folder / "model"), "--report", str(folder / "report.html")]
    words += ["--checkpoint", str(folder / "checkpoint")]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def answer(folder: Path) -> bytes:
    model = load(folder / "model")
    return bytes(model.row_factors_.tobytes() + model.col_factors_.tobytes())


def faults_of(folder: Path, code: int, told: str, number: signal.Signals, bounds: tuple[float, float]) -> list[str]:
    """What is wrong with what a command that was stopped has left."""
    faults = []
    if number == signal.SIGINT and code not in (0, INTERRUPTED):  # 0 if it had just ended
        faults.append(f"exit code {code}")
    if "Traceback" in told:
        faults.append("a traceback")
    if number == signal.SIGINT and (left := [p.name for p in folder.iterdir() if p.name not in WRITTEN]):
        faults.append(f"left behind: {left}")
    if (folder / "model").exists():  # whole, or not there
        model = load(folder / "model")
        W = model.row_factors_ @ model.col_factors_.T
        if not (W.min() >= bounds[0] - 1e-9 and W.max() <= bounds[1] + 1e-9):
            faults.append(f"bounds are not kept: {W.min()} to {W.max()}")
    if (folder / "report.html").exists() and "</html>" not in (folder / "report.html").read_text(encoding="utf-8"):
        faults.append("half a report")
    return faults


def stopped_commands(number: signal.Signals, times: int, whole: Path, seconds: float) -> dict[str, Any]:
    """Stop the command at N random moments, starting it again each time until it ends."""
    chance, late, same_answers, faults = random.Random(0), [], 0, []
    reached, codes = [], []
    for k in range(times):
        folder = whole.parent / f"{number.name}{k}"
        folder.mkdir()
        process = complete(folder)
        moment = chance.uniform(0.0, 0.9 * seconds)  # which it may need less of another time
        time.sleep(moment)
        process.send_signal(number)
        pressed = time.perf_counter()
        told = "".join(process.communicate())
        late.append(time.perf_counter() - pressed)
        codes.append(process.returncode)
        faults += [f"{moment:.2f} s: {f}" for f in faults_of(folder, process.returncode, told, number, (0.0, 9.0))]
        done = iterations_and_seconds(folder / "checkpoint")
        reached.append(0 if done is None else done[0])
        again = complete(folder)
        told = "".join(again.communicate())
        if again.returncode != 0:
            faults.append(f"{moment:.2f} s: the same command again ends with {again.returncode}: {told[-300:]}")
        elif answer(folder) == answer(whole):
            same_answers += 1
        if left := [p.name for p in folder.iterdir() if p.name not in WRITTEN]:
            faults.append(f"{moment:.2f} s: left behind after all: {left}")
    for fault in faults:
        print(f"{number.name} after {fault}", file=sys.stderr)
    return {
        "signal": number.name,
        "times": times,
        "command s": seconds,
        "ended after s": max(late),
        "exit codes": " ".join(sorted({str(code) for code in codes})),
        "went on from iteration": " ".join(map(str, sorted(reached))),
        "bitwise the same": same_answers,
        "faults": len(faults),
    }


def command(times: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        data = make_ratings(4000, 2000, 200_000, rank=8, noise=1.0, random_state=0).data
        rows, columns = data.rows_of_entries(), data.index
        lines = (f"u{i},v{j},{v:.4f}\n" for i, j, v in zip(rows, columns, np.clip(data.values, 0, 9), strict=True))
        (Path(name) / "ratings.csv").write_text("user,item,rating\n" + "".join(lines), encoding="utf-8")
        for each in ("first", "whole"):  # the second one, when all files are in memory
            whole = Path(name) / each
            whole.mkdir()
            began = time.perf_counter()
            process = complete(whole)
            told = "".join(process.communicate())
            seconds = time.perf_counter() - began
            if process.returncode != 0:
                sys.exit(f"the command fails where nobody stops it: {told}")
        rows_of_table = [stopped_commands(n, times, whole, seconds) for n in (signal.SIGKILL, signal.SIGINT)]
    report("interruption_of_the_command", rows_of_table)


def main() -> None:
    if sys.argv[1:2] == ["command"]:
        command(int(sys.argv[2]) if len(sys.argv) > 2 else 20)
        return
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
