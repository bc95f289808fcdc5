"""Data larger than memory, a cluster on one machine, streams."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, first, fixed, with_circumstances
from tabular import table

TASKS = {
    "evaluate in memory": "in memory, 2 threads",
    "evaluate": "out of core, 2 threads",
    "one worker": "Dask, one worker of 2 threads",
    "two workers": "Dask, two workers of 1 thread",
}


def scale() -> str:
    report = find("scale")
    steps = {name: first(report.rows, task=name) for name in ("prepare", "fit")}
    body = table(
        ["100 million entries", "seconds", "GB of memory"],
        [
            ["`rslm prepare`, from a CSV file", f"{steps['prepare']['s']:.0f}", f"{steps['prepare']['memory GB']:.1f}"],
            ["fit, rank 10", f"{steps['fit']['s']:.0f}", f"{steps['fit']['memory GB']:.1f}"],
        ],
    )
    return with_circumstances(body, report)


def requests() -> str:
    report = find("scale")
    models = {row["task"]: row for row in report.rows if row["task"].startswith("model of")}
    lines = []
    for name, title in TASKS.items():
        row, model = first(report.rows, task=name), models.get(f"model of {name}")
        said = f"{model['evaluation s']:.3f}" if model else ""
        lines.append([title, f"{row['evaluation s']:.3f}", f"{row['Hessian product s']:.3f}", said])
    head = ["seconds", "evaluation", "Hessian product", "evaluation according to this model"]
    return with_circumstances(table(head, lines), report)


def theory() -> str:
    report = find("scale")
    rows = [row for row in report.rows if row["task"] == "model of 100 machines"]
    asked: Columns = {
        "features": ("features", lambda n: f"{n:,.0f}"),
        "computation, s": ("computing s", fixed(2)),
        "waiting for Dask, s": ("waiting s", fixed(2)),
        "transfer, s": ("travelling s", fixed(2)),
        "evaluation, s": ("evaluation s", fixed(1)),
    }
    return columns(rows, asked)


def streams() -> str:
    stream, serving = find("streaming"), find("serving")
    asked: Columns = {
        "MovieLens-1M, rank 10, C = 1000": ("", str),
        "test RMSE": ("test RMSE", fixed(4)),
        "objective above the batch fit, %": ("above the batch fit %", fixed(1)),
        "seconds": ("s", fixed(1)),
    }
    found = {row[""]: row["value"] for row in serving.rows}
    words = f"{found['fold in, samples a second']:,.0f} new samples of 100 entries are folded in per second, and a "
    words += f"single one is filled in {found['one sample filled, ms']:.1f} ms."
    return with_circumstances(f"{columns(stream.rows, asked)}\n{words}", stream, serving)


PLACES = {"scale": scale, "requests": requests, "hundred-machines": theory, "streams": streams}
