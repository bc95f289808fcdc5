"""CPU seconds of a few kernels and fits, here and at another revision: `make compare BASE=HEAD~1`.

python benchmarks/compare.py HEAD~1

The other revision is taken from git to build/compare and compiled there, or gets the compiled module of this tree if
its C++ is the same; interpreter and dependencies are the same. Both sides are run in turn, in new processes of one
thread, and the least time of every case counts. `spread` is the median relative to the least time of the noisier side,
`answer` the relative difference of what a case computes. The table is written to out/benchmarks/compare.json, the time
of every call to compare_calls.json. The exit status is 1 if a case is slower than the limit, or fails here.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ("src/rslm/kernels/native", "CMakeLists.txt")  # what the compiled module is made from
FACTORS = 10  # rank of the kernels' cases
Call = Callable[[], float]


# ---- the cases: each makes its data, and returns the call that is timed, which returns a number to compare -----------


def evaluation() -> Call:
    evaluate, point, _ = _objective()
    return lambda: float(sum(evaluate(point).value for _ in range(20)))


def hessian_products() -> Call:
    evaluate, point, direction = _objective()
    at = evaluate(point)
    return lambda: float(sum((at.hessian_product(direction) ** 2).sum() for _ in range(20)))


def predictions() -> Call:
    import numpy as np

    from rslm.kernels import predict_pairs

    rng = np.random.default_rng(0)
    left, right = (rng.standard_normal((n, FACTORS)) for n in (6000, 4000))
    i, t = rng.integers(6000, size=10_000_000), rng.integers(4000, size=10_000_000)
    return lambda: float(np.square(predict_pairs(i, t, left, right, 1)).sum())


def ratings() -> Call:
    return _ratings(300_000, loss="square")


def ratings_between_bounds() -> Call:
    return _ratings(10_000, loss="square", bounds=(1.0, 5.0), effects=None, max_iter=10)


def ratings_robust() -> Call:
    return _ratings(60_000, loss="absolute", effects=None, max_iter=30)


def clicks() -> Call:
    import numpy as np
    from scipy import sparse

    from rslm import ImplicitCompletion

    rng = np.random.default_rng(0)
    users, items = (rng.dirichlet(np.full(8, 0.2), n) for n in (6000, 2000))
    counts = sparse.csr_array(rng.poisson(0.5 * users @ items.T))
    model = ImplicitCompletion(rank=8, C=1.0, alpha0=0.1, weighting=0.0, random_state=0, n_threads=1)
    return lambda: float(model.fit(counts).certificate_.primal)


def series() -> Call:
    from rslm import HankelModel
    from rslm.datasets import make_series

    made = make_series(1000, frequencies=3, noise=0.3, missing=0.05, random_state=0)
    return lambda: float(HankelModel(rank=6).fit(made.y).signal_.std())


def tasks() -> Call:
    from rslm import MultiTaskRegressor
    from rslm.datasets import make_tasks

    made = make_tasks(100, 20, 15, random_state=0)
    model = MultiTaskRegressor(rank=3, C=1.0, random_state=0, n_threads=1)
    return lambda: float(model.fit(made.X, made.y, tasks=made.tasks).certificate_.primal)


def _objective() -> tuple[Callable[[Any], Any], Any, Any]:
    """A function that evaluates the objective of 500,000 ratings, a point, and a direction."""
    import numpy as np

    from rslm import Objective, Problem
    from rslm.datasets import make_ratings
    from rslm.losses import Square
    from rslm.measurements import Entries

    data = make_ratings(3000, 2000, 500_000, random_state=0).data
    rng = np.random.default_rng(1)
    U, direction = (rng.standard_normal((data.shape[0], FACTORS)) for _ in range(2))
    return Objective(Problem(Square(), Entries(data), C=1.0), 1).evaluate, U / np.linalg.norm(U), direction


def _ratings(n_ratings: int, **settings: Any) -> Call:
    from rslm import MatrixCompletion
    from rslm.datasets import make_ratings

    data = make_ratings(1000, 600, n_ratings, random_state=0).data
    model = MatrixCompletion(rank=5, C=0.5, weighting=0.0, random_state=0, n_threads=1, **settings)
    return lambda: float(model.fit(data).certificate_.primal)


CASES: dict[str, Callable[[], Call]] = {
    "evaluation": evaluation,
    "Hessian products": hessian_products,
    "predictions": predictions,
    "ratings": ratings,
    "ratings between bounds": ratings_between_bounds,
    "ratings, absolute loss": ratings_robust,
    "clicks": clicks,
    "series": series,
    "tasks": tasks,
}


def run(repeats: int) -> dict[str, dict[str, Any]]:
    """Time all cases in this process: CPU seconds of every repetition, and the number that a case computes."""
    import warnings

    warnings.simplefilter("ignore")  # a fit may end at its limit of iterations
    found: dict[str, dict[str, Any]] = {}
    for name, make in CASES.items():
        try:
            call = make()
            answer = call()  # which warms up, too
            seconds = []
            for _ in range(repeats):
                before = time.process_time()
                call()
                seconds.append(time.process_time() - before)
            found[name] = {"seconds": seconds, "answer": answer}
        except Exception as error:  # the other revision may not have what a case uses
            found[name] = {"error": f"{type(error).__name__}: {error}"}
    return found


# ---- the two sides --------------------------------------------------------------------------------------------------


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE, check=True).stdout


def folder_of(base: str) -> Path:
    """A folder with the package of the other revision, compiled; made once."""
    folder = ROOT / "build" / "compare" / base
    site = folder / "site"
    if (folder / "made").exists():
        return site
    shutil.rmtree(folder, ignore_errors=True)
    sources = folder / "sources"
    with tarfile.open(fileobj=io.BytesIO(git("archive", base))) as archive:
        archive.extractall(sources, filter="data")
    same = subprocess.run(["git", "-C", str(ROOT), "diff", "--quiet", base, "--", *NATIVE], check=False).returncode == 0
    if same:
        from rslm.kernels import _native

        shutil.copytree(sources / "src", site)
        shutil.copy2(_native.__file__, site / "rslm" / "kernels")
    else:
        print(f"compiling {base}", file=sys.stderr)
        options = ["--no-deps", "--target", str(site), "-C", "cmake.define.RSLM_INSTRUCTION_SETS=host"]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "install"]
        subprocess.run([*pip, *options, str(sources)], check=True)
    (folder / "made").touch()
    return site


def started(site: Path, repeats: int) -> dict[str, dict[str, Any]]:
    """What a new process finds with the package in this folder."""
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    one = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **one, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(Path(__file__).resolve()), "--run", "--repeats", str(repeats)]
    output = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    found: dict[str, Any] = json.loads(output)
    if Path(found["package"]).resolve() != (site / "rslm").resolve():
        raise RuntimeError(f"the package of {site} was to be timed, and {found['package']} was")
    cases: dict[str, dict[str, Any]] = found["cases"]
    return cases


def compared(base: list[dict[str, Any]], here: list[dict[str, Any]], limit: float) -> dict[str, Any]:
    """One row of the table, from the rounds of one case on both sides."""
    failed = [next((r["error"] for r in side if "error" in r), None) for side in (base, here)]
    if any(failed):
        # What only the other revision cannot do is new here.
        return {"verdict": "fails here" if failed[1] else "not in BASE", "error": failed[1] or failed[0]}
    before, now = (sorted(s for r in side for s in r["seconds"]) for side in (base, here))
    ratio = now[0] / before[0]
    answers = base[0]["answer"], here[0]["answer"]
    row = {
        "base s": before[0],
        "here s": now[0],
        "ratio": ratio,
        "spread": max(before[len(before) // 2] / before[0], now[len(now) // 2] / now[0]),
        "answer": abs(answers[1] - answers[0]) / max(abs(answers[0]), 1e-300),
    }
    return {**row, "verdict": "slower" if ratio > limit else "faster" if ratio < 1 / limit else ""}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", nargs="?", help="the other revision: a tag, a branch or a commit")
    parser.add_argument("--rounds", type=int, default=4, help="processes per side")
    parser.add_argument("--repeats", type=int, default=2, help="timed calls per case and process")
    parser.add_argument("--limit", type=float, default=1.15, help="the largest ratio that is not an error")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        import rslm

        json.dump({"package": str(Path(rslm.__file__).parent), "cases": run(given.repeats)}, sys.stdout)
        return
    if given.base is None:
        parser.error("name a revision, such as HEAD~1")

    from common import OUT, report

    base = git("rev-parse", "--short=10", f"{given.base}^{{commit}}").decode().strip()
    import rslm

    sites = [folder_of(base), Path(rslm.__file__).resolve().parents[1]]
    rounds: list[list[dict[str, dict[str, Any]]]] = [[], []]
    for k in range(given.rounds):
        for side in (0, 1) if k % 2 == 0 else (1, 0):  # neither is always the first
            rounds[side].append(started(sites[side], given.repeats))
    rows = [
        {"case": name, **compared([r[name] for r in rounds[0]], [r[name] for r in rounds[1]], given.limit)}
        for name in CASES
    ]
    report("compare", rows, base=base, limit=given.limit, calls=given.rounds * given.repeats)
    calls = json.dumps({"base": rounds[0], "here": rounds[1]}, indent=1)
    (OUT / "compare_calls.json").write_text(calls + "\n", encoding="utf-8")
    sys.exit(any(row["verdict"] in ("slower", "fails here") for row in rows))


if __name__ == "__main__":
    main()
