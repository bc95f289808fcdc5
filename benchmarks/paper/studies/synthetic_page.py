"""The table and the figure of the synthetic set."""

from __future__ import annotations

import importlib
from typing import Any

from paper.cells import Result, Section
from paper.drawing import COLOURS, curve, panels
from tabular import number, small, table

TEXT = """\
A matrix of {size} of rank 5, {count} of its entries, without noise; as many other entries for the test. One thread,
at most {limit}. All methods know the rank and end at the accuracy that is asked of RSLM, not at the one for ratings.
The paper prints 2.46e-7 for RSLM-tr and shows the others in a figure without numbers. The gap is computed for the
subspace of an iterate, at the C of the problem (1e10). The last digits of RSLM are those of its C: the trace norm
pulls W to zero by about 1500/C.
"""


def section(fits: dict[str, Result], gaps: dict[str, Result], quick: bool) -> Section:
    size, count, limit = (
        ("400 × 4,000", "120,000", "5 seconds") if quick else ("5,000 × 500,000", "15,149,850", "120 seconds")
    )
    rows = []
    for method, found in fits.items():
        name = importlib.import_module(f"paper.methods.completion.{method}").NAME
        if "error" in found:
            rows.append([name, f"failed: {found['error']}", *"––––"])
            continue
        printed = "2.46e-07" if method == "rslm_tr" else "–"
        final = f"{found['final']:.2e}"
        ended = "iteration limit" if method in gaps and found["iterations"] >= 100 else found["ended"]
        rows.append([name, printed, final, number(found["seconds"], 1), found["iterations"], ended])
    text = TEXT.format(size=size, count=count, limit=limit)
    text += "\n" + table(["", "printed", "test RMSE", "CPU s", "iterations", "ended"], rows) + "\n" + verdict(fits)
    for method, found in gaps.items():
        if "error" not in found:
            name = importlib.import_module(f"paper.methods.completion.{method}").NAME
            text += f" The gap of {name} falls from {small(found['gaps'][0])} to {small(found['gaps'][-1])}."
    text += (
        "\n\n![Test error against time, and relative duality gap against iterations](pictures/paper/synthetic.png)\n"
    )
    return Section("Synthetic data", text, {"synthetic": draw(fits, gaps)})


def verdict(fits: dict[str, Result]) -> str:
    good = {m: f for m, f in fits.items() if "error" not in f}
    first = min(good, key=lambda m: good[m]["final"])
    names = {m: importlib.import_module(f"paper.methods.completion.{m}").NAME for m in good}
    reached = [f"{names[m]} after {seconds_to(f, 2.46e-7):.0f} s" for m, f in good.items() if f["final"] <= 2.46e-7]
    return f"{names[first]} ends lowest. At or below 2.46e-7: {', '.join(reached) or 'none'}."


def seconds_to(found: Result, error: float) -> float:
    seconds, errors = found["curve"]
    return float(next((s for s, e in zip(seconds, errors, strict=True) if e <= error), found["seconds"]))


def draw(fits: dict[str, Result], gaps: dict[str, Result]) -> Any:
    figure, axes = panels(2)
    for (method, found), colour in zip(fits.items(), COLOURS, strict=False):
        if "error" not in found:
            name = importlib.import_module(f"paper.methods.completion.{method}").NAME
            curve(axes[0, 0], found["curve"], name, colour, method in gaps)
            if method in gaps and "error" not in gaps[method]:
                curve(axes[0, 1], [gaps[method]["iterations"], gaps[method]["gaps"]], name, colour, True)
    for axis, words in zip(axes[0], (("CPU seconds", "test RMSE"), ("iteration", "relative duality gap")), strict=True):
        axis.set_yscale("log")
        axis.set_xlabel(words[0])
        axis.set_ylabel(words[1])
        axis.legend(fontsize=7)
    axes[0, 0].set_xscale("log")
    return figure
