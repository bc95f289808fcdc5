"""The tables and figures of non-negative completion."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Result, Section
from paper.drawing import COLOURS, curve, panels
from tabular import mean_std, number, small, table

Key = tuple[str, str, int]  #: data, method, rank
Fits = Mapping[tuple[str, str, int, str], Sequence[Result]]  #: and by which error C was chosen: "end" or "early"
PRINTED = {  # test RMSE: rank → RSLM, BMC, BMA
    "ML-1M": {
        5: ("0.8651 ± 0.0014", "0.8672 ± 0.0014", "0.9476 ± 0.0112"),
        10: ("0.8574 ± 0.0015", "0.8529 ± 0.0014", "0.9505 ± 0.0025"),
        20: ("0.8678 ± 0.0016", "0.8691 ± 0.0012", "0.9520 ± 0.0033"),
    },
    "ML-10M": {
        5: ("0.8135 ± 0.0004", "0.8237 ± 0.0004", "0.8989 ± 0.0088"),
        10: ("0.8031 ± 0.0004", "0.8038 ± 0.0007", "0.8832 ± 0.0055"),
        20: ("0.8148 ± 0.0008", "0.8842 ± 0.0061", "0.8904 ± 0.0041"),
    },
    "ML-20M": {
        5: ("0.8142 ± 0.0005", "0.8454 ± 0.0021", "–"),
        10: ("0.8014 ± 0.0003", "0.8477 ± 0.0004", "–"),
        20: ("0.8065 ± 0.0015", "0.9130 ± 0.0013", "–"),
    },
}
IN_PAPER = ("rslm_nonnegative", "bmc", "bma")
COLOUR = {"rslm_nonnegative": COLOURS[0], "rslm_weighted": COLOURS[1], "bmc": COLOURS[5], "bma": COLOURS[4]}
PROTOCOL = """\
W ≥ 0, random splits into 80 % and 20 %, one thread, at most 45 CPU seconds a fit. C is chosen for each method and
rank on 5 % of the training part of the first split, in decades and then between them; the fits for it end after 12
seconds, those of BMA, which has no C, after 45. "Least along a run" is the least test error of all iterates, a choice
on the test set, as the paper has it for completion; C is the one with the least held-out error along a fit. RSLM and
BMC minimise `C ‖P_Ω(W − Y)‖² + ½‖W‖_*²`; BMA minimises the squares alone; the weighted RSLM is not in the paper.
"Converged" counts the fits that ended on their own: the others were ended by the limit, and their errors are those of
the limit. Before the last iterate, those of RSLM and BMC may have negative entries.
"""


def section(
    names: Sequence[str],
    here: Sequence[str],
    tuned: Mapping[Key, Result],
    fits: Fits,
    curves: Mapping[tuple[str, str, int, float], Result],
) -> Section:
    parts: list[str] = [PROTOCOL]
    figures: dict[str, Any] = {}
    for name in here:
        of, early = (
            {key[:3]: found for key, found in fits.items() if (key[0], key[3]) == (name, kind) and found}
            for kind in ("end", "early")
        )
        parts += [f"### {name}\n", measured(of, early, tuned), verdict(of, "rmse"), verdict(early, "least")]
        parts += [objectives(name, curves)]
        file = f"nonnegative-{name.lower()}"
        figures |= {f"{file}-objective": draw_objectives(name, curves), f"{file}-error": draw_errors(of)}
        parts += [f"![Objective against time on {name}](pictures/paper/{file}-objective.png)\n"]
        parts += [f"![Test error against time on {name}](pictures/paper/{file}-error.png)\n"]
    parts += ["### The paper's table\n", paper_table(fits)]
    missing = [name for name in names if name not in here]
    parts += ["; ".join(f"{name} is {ratings.absent(name)}" for name in missing) + ".\n"] if missing else []
    return Section("Non-negative completion", "\n".join(parts), figures)


def title(method: str) -> str:
    return str(importlib.import_module(f"paper.methods.nonnegative.{method}").NAME)


def values(results: Sequence[Result], key: str) -> list[float]:
    return [float(r[key]) for r in results]


def measured(
    of: Mapping[Key, Sequence[Result]], early: Mapping[Key, Sequence[Result]], tuned: Mapping[Key, Result]
) -> str:
    rows = []
    for key in sorted(of, key=lambda k: k[2]):
        found, weights = of[key], dict.fromkeys(tuned[key][kind] for kind in ("end", "early"))
        ended = sum(r["ended"] == "converged" for r in found)
        row = [f"{title(key[1])}, rank {key[2]}", " / ".join(f"{C:.3g}" if C else "–" for C in weights)]
        row += [mean_std(values(found, "rmse"), 4), mean_std(values(early.get(key, ()), "least"), 4)]
        row += [small(min(values(found, "smallest"))), number(float(np.mean(values(found, "seconds"))), 1)]
        rows.append([*row, f"{ended} of {len(found)}"])
    return table(["", "C", "RMSE at the end", "least along a run", "smallest entry", "CPU s", "converged"], rows)


def verdict(of: Mapping[Key, Sequence[Result]], what: str) -> str:
    """Where a baseline is below RSLM, as measured."""
    words = {"rmse": "At the end", "least": "Least along a run"}[what]
    lines = []
    for rank in sorted({key[2] for key in of}):
        means = {key[1]: float(np.mean(values(found, what))) for key, found in of.items() if key[2] == rank}
        order = ", ".join(f"{title(m)} {means[m]:.4f}" for m in sorted(means, key=lambda m: means[m]))
        ours = means.get("rslm_nonnegative", np.inf)
        below = [title(m) for m in ("bmc", "bma") if means.get(m, np.inf) < ours]
        lines.append(f"- {words}, rank {rank}: {order}." + (f" {' and '.join(below)} below RSLM." if below else ""))
    return "\n".join(lines) + "\n"


def objectives(name: str, curves: Mapping[tuple[str, str, int, float], Result]) -> str:
    rows = []
    for (data, method, rank, C), r in curves.items():
        if data == name:
            row = [f"{title(method)}, rank {rank}, C = {C:g}", f"{r['objective']:.6g}", number(r["rmse"], 4)]
            rows.append([*row, small(r["smallest"]), number(r["seconds"], 1), r["ended"]])
    note = "The objective at the end, for the same rank and C. A W with negative entries may be below the optimum.\n\n"
    return note + table(["", "objective", "test RMSE", "smallest entry", "CPU s", "ended"], rows)


def draw_objectives(name: str, curves: Mapping[tuple[str, str, int, float], Result]) -> Any:
    settings = sorted({key[2:] for key in curves if key[0] == name})
    figure, axes = panels(max(1, len(settings)))
    for axis, (rank, C) in zip(axes[0], settings, strict=False):
        for (data, method, r, c), result in curves.items():
            if (data, r, c) == (name, rank, C):
                curve(axis, result["objectives"], title(method), COLOUR[method], method != "bmc")
        finish(axis, f"rank {rank}, C = {C:g}")
        axis.set_yscale("log")
    axes[0, 0].set_ylabel("objective")
    return figure


def draw_errors(of: Mapping[Key, Sequence[Result]]) -> Any:
    """The first split, with the C chosen."""
    ranks = sorted({key[2] for key in of})
    figure, axes = panels(max(1, len(ranks)))
    for axis, rank in zip(axes[0], ranks, strict=False):
        chosen = {key[1]: found[0] for key, found in of.items() if key[2] == rank}
        for method, result in chosen.items():
            curve(axis, result["curve"], title(method), COLOUR[method], method.startswith("rslm"))
        least = min(r["rmse"] for r in chosen.values())
        axis.set_ylim(least - 0.005, least + 0.1)
        finish(axis, f"rank {rank}")
    axes[0, 0].set_ylabel("test RMSE")
    return figure


def finish(axis: Any, title: str) -> None:
    axis.set_xscale("log")
    axis.set_xlabel("CPU seconds")
    axis.set_title(title)
    axis.legend(fontsize=7)


def paper_table(fits: Fits) -> str:
    rows = []
    for name, ranks in PRINTED.items():
        for rank, printed in ranks.items():
            row = [f"{name}, rank {rank}"]
            for method, value in zip(IN_PAPER, printed, strict=True):
                found = fits.get((name, method, rank, "early"), [])
                row += [value, mean_std(values(found, "least"), 4) if found else "not here"]
            rows.append(row)
    header = [cell for method in IN_PAPER for cell in (f"{title(method)}, printed", "measured, least along a run")]
    return table(["", *header], rows)
