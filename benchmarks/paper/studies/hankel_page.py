"""The page of the study `hankel`: tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper import drawing
from paper.cells import Result, Section
from tabular import number, table

Key = tuple[str, str, tuple[int, ...]]  # set, method, systems
Means = dict[tuple[str, str], list[float]]  # by rank

NAMES = {
    "likelihood": "RSLM, large C",
    "rslm": "RSLM, C from the noise",
    "slra": "SLRA",
    "slra short": "SLRA, short start",
    "dadm": "DADM",
    "gcg": "GCG",
}
OURS, OTHERS = ("likelihood", "rslm"), ("slra", "slra short", "dadm", "gcg")
PRINTED = {  # by rank: RSLM, SLRA, DADM, GCG
    "D1": ((0.0156, 0.0159, 0.0628, 0.1068), (0.0171, 0.0190, 0.0291, 0.0846), (0.0177, 0.0295, 0.0196, 0.0667)),
    "D2": ((0.0059, 0.0164, 0.0331, 0.0531), (0.0060, 0.0077, 0.0250, 0.0386), (0.0071, 0.0108, 0.0159, 0.0345)),
    "D3": ((0.0149, 0.0149, 0.0458, 0.0458), (0.0043, 0.0049, 0.0314, 0.0340), (0.0039, 0.0053, 0.0288, 0.0330)),
}
COLUMN = {"likelihood": 0, "rslm": 0, "slra": 1, "slra short": 1, "dadm": 2, "gcg": 3}  # of PRINTED
ASKED = 60.0  # seconds for a fit of D3
COLOURS = dict(zip(NAMES, drawing.COLOURS, strict=False))

INTRODUCTION = """
The impulse response of a random stable system, {sizes}, in noise of standard deviation 0.05; the RMSE is that of the
denoised series with respect to the truth. All methods see the same series and none sees the truth. The systems of the
paper are not published; ours are drawn much like those of `drss` of MATLAB, and the numbers are means over systems,
{systems}. So the numbers of the paper and ours compare only in order of size.

Of RSLM there are two rows. *Large C* is `HankelModel(rank).fit(y)` with default settings: the limit of large C, which
is the maximum of the likelihood, and the rank is the largest order, so that it may choose a smaller one; the others use
the rank as it is. *C from the noise* is the problem of the paper, with its window and the rank as it is; C is computed
from the noise that the first row leaves. A constant in that rule, the λ of GCG and the penalty of DADM were chosen on
systems that are not in the table, or for speed. SLRA starts from the poles of Kung's method with the window of the set,
and once more with a short window. DADM and GCG have the trace norm without a limit on the rank: their weight is tuned
until the solution has the rank; where none that was tried has it, it is the largest rank below. DADM ends at a relative
duality gap of 2·10⁻⁴, and its rank is that of the matrix it has by then; an exact solution may have a larger one.
"""


def section(results: dict[Key, Result], sets: Mapping[str, tuple[int, ...]], ranks: tuple[int, ...]) -> Section:
    names = list(dict.fromkeys(name for name, _, _ in results))
    errors, seconds = _means(results, "rmse"), _means(results, "seconds")
    systems = {name: len({s for n, _, seeds in results if n == name for s in seeds}) for name in names}
    head = INTRODUCTION.format(
        sizes="; ".join(f"{n}: order {sets[n][0]}, {sets[n][1]} × {sets[n][2]}" for n in names),
        systems=", ".join(f"{count} of {n}" for n, count in systems.items()),
    )
    failed = [f"{n}, {NAMES[m]}, systems {s}: {r['error']}" for (n, m, s), r in results.items() if "error" in r]
    body = head + "\nRMSE, of the paper / ours:\n\n" + _errors(names, errors, ranks)
    body += "\n" + _verdict(names, errors, ranks)
    body += (
        "\nCPU seconds for one rank; a third of their whole path for DADM and GCG, which compute all ranks on it:\n\n"
    )
    body += _seconds(names, seconds, ranks) + _long(seconds)
    if failed:
        body += "\nFailed, and not in the means: " + "; ".join(failed) + ".\n"
    body += "\n![RMSE against rank](pictures/paper/hankel-ranks.png)\n"
    body += "\n![A series of D1, by each method](pictures/paper/hankel-series.png)\n"
    figures = {"hankel-ranks": _ranks(names, errors, ranks), "hankel-series": _series(results, names[0], ranks[1])}
    return Section("Hankel matrix learning", body, figures)


def _means(results: dict[Key, Result], what: str) -> Means:
    """Over the systems; by set and method, NaN where all have failed."""
    found: dict[tuple[str, str], list[Any]] = {}
    for (name, method, _), result in results.items():
        found.setdefault((name, method), []).extend(result.get(what, [[np.nan] * 3]))
    return {
        key: [float(np.mean(kept)) if len(kept := column[~np.isnan(column)]) else np.nan for column in np.array(rows).T]
        for key, rows in found.items()
    }


def _errors(names: list[str], errors: Means, ranks: tuple[int, ...]) -> str:
    rows = []
    for name in names:
        for k, rank in enumerate(ranks):
            cells = {m: f"{number(PRINTED[name][k][COLUMN[m]], 4)} / {number(errors[name, m][k], 4)}" for m in NAMES}
            rows.append([f"{name}, rank {rank}", *cells.values()])
    return table(["", *NAMES.values()], rows)


def _verdict(names: list[str], errors: Means, ranks: tuple[int, ...]) -> str:
    """Where each row of RSLM is not at or below the others; cells that failed do not count."""
    lines = []
    for ours in OURS:
        cells = [(name, k) for name in names for k in range(len(ranks)) if np.isfinite(errors[name, ours][k])]
        above = [
            f"{name} rank {ranks[k]}: " + ", ".join(f"{NAMES[m]} {number(errors[name, m][k], 4)}" for m in better)
            for name, k in cells
            if (better := [m for m in OTHERS if errors[name, m][k] < errors[name, ours][k]])
        ]
        text = f"*{NAMES[ours]}* is at or below SLRA, DADM and GCG in {len(cells) - len(above)} of {len(cells)} cells."
        text += " It may choose a smaller order than the rank, which SLRA may not." if ours == OURS[0] else ""
        lines.append(text + (f" Below it: {'; '.join(above)}." if above else ""))
    return "\n\n".join(lines) + "\n"


def _seconds(names: list[str], seconds: Means, ranks: tuple[int, ...]) -> str:
    rows = [
        [f"{name}, rank {rank}", *(number(seconds[name, m][k], 2) for m in NAMES)]
        for name in names
        for k, rank in enumerate(ranks)
    ]
    return table(["", *NAMES.values()], rows)


def _long(seconds: Means) -> str:
    if ("D3", OURS[0]) not in seconds:
        return ""
    worst = {NAMES[m]: max(seconds["D3", m]) for m in OURS}
    text = ", ".join(f"{name} {number(value, 1)} s" for name, value in worst.items())
    held = "below" if max(worst.values()) < ASKED else "not all below"
    return f"\nA fit of D3 takes at most, as a mean over systems: {text}; {held} the {ASKED:.0f} s asked for.\n"


def _ranks(names: list[str], errors: Means, ranks: tuple[int, ...]) -> Any:
    figure, axes = drawing.panels(len(names), width=3.2, height=3.2)
    for axis, name in zip(axes[0], names, strict=True):
        for method, label in NAMES.items():
            ours = method in OURS
            axis.plot(ranks, errors[name, method], "o-", color=COLOURS[method], label=label, lw=2.4 if ours else 1.3)
        axis.set(title=name, xlabel="rank", yscale="log", xticks=ranks)
    axes[0, 0].set_ylabel("RMSE")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    return figure


def _series(results: dict[Key, Result], name: str, rank: int) -> Any:
    """The first samples of the first system, by each method at one rank."""
    figure, axes = drawing.panels(3, 2, width=3.4, height=2.4)
    for axis, (method, label) in zip(axes.flat, NAMES.items(), strict=True):
        for (n, m, seeds), result in results.items():
            if (n, m) == (name, method) and 0 in seeds and "error" not in result:
                axis.plot(result["seen"], ".", color="0.75", markersize=3)
                axis.plot(result["truth"], color="0.2", lw=1)
                axis.plot(result["signal"], color=COLOURS[method], lw=1.4)
        axis.set_title(f"{label}, rank {rank}", fontsize="small")
    return figure
