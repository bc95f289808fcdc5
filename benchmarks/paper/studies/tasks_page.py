"""What the page says about multi-task feature learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paper.cells import Result, Section
from paper.methods.tasks.mtfl import NAME as MTFL
from paper.methods.tasks.rslm_tasks import NAME as RSLM
from tabular import mean_std, number, small, table

TITLE = "Multi-task feature learning"
GAP = 1e-5  # counts as the global optimum

ABOUT = """The figure of the paper shows test NMSE (mean square error over the variance of the test targets) against
the rank, and the relative duality gap of RSLM. It prints no numbers. MTFL (Argyriou, Evgeniou and Pontil, 2008)
minimises the trace norm problem without a limit on the rank and traces its weight over 2⁻⁸, 2⁻⁷, …, 2²⁴, each from
the answer of the one before; its rank is the number of singular values above a thousandth of the largest. RSLM has a
fixed C and the ranks 1 to d.

What differs from the paper, or is not printed there: {splits} random splits with three quarters of the rows of every
task to learn from; every task has an intercept that is not penalised, in both methods; the target of Parkinsons is
the total UPDRS, its features are age, sex, day and 16 measures of the voice, scaled to unit variance. C of RSLM is
chosen in every split by threefold cross-validation within the training rows, with C in 0.03 to 10 and ranks 1, 2, 3
and 5; the table also has the errors of the C and rank, and of the weight of MTFL, that were chosen this way. The
curves are means over the splits. The best point of a curve is chosen on the test rows, for both methods alike.

"""


def page(there: Sequence[str], results: Sequence[tuple[str, Result]]) -> Section:
    if not there:
        return Section(
            TITLE, "Neither School nor Parkinsons is there: not measured. RSLM_SHARED is the folder of the data.\n"
        )
    failed = sorted({r["error"] for _, r in results if "error" in r})
    if failed:
        return Section(TITLE, "Not measured: " + "; ".join(failed) + "\n")
    curves = {
        (data, m): [r for d, r in results if d == data and r["method"] == m] for data in there for m in (RSLM, MTFL)
    }
    splits = len(curves[there[0], RSLM])
    body = ABOUT.format(splits={10: "ten", 2: "two"}.get(splits, splits))
    rows = [row(data, m, curves[data, m]) for data in there for m in (RSLM, MTFL)]
    header = ["", "best of the curve", "at rank", "with", "chosen in training", "its rank", "largest gap at the best"]
    body += table(header, rows) + "\n" + "\n\n".join(sentence(data, curves) for data in there) + "\n\n"
    body += "![Test error and relative duality gap against the rank](pictures/paper/tasks.png)\n"
    if missing := sorted({"Parkinsons", "School"} - set(there)):
        body += f"\n{missing[0]} is not there: not measured.\n"
    return Section(TITLE, body, {"tasks": figure(there, curves)})


def means(splits: Sequence[Result], key: str) -> Any:
    return np.mean([r[key] for r in splits], axis=0)


def least(splits: Sequence[Result]) -> int:
    return int(np.argmin(means(splits, "errors")))


def row(data: str, method: str, splits: Sequence[Result]) -> list[str]:
    k, digits = least(splits), 4 if data == "School" else 5
    setting = [r["settings"][k] for r in splits]
    if method == RSLM:
        with_ = "C " + " to ".join(f"{C:g}" for C in sorted({min(setting), max(setting)}))
    else:
        with_ = f"weight {setting[0]:g}"
    chosen = [r["errors"][r["chosen"]] for r in splits]
    ranks = [float(r["ranks"][r["chosen"]]) for r in splits]
    return [
        f"{data}, {method}",
        mean_std([r["errors"][k] for r in splits], digits),
        number(float(means(splits, "ranks")[k]), 0 if method == RSLM else 1),
        with_,
        mean_std(chosen, digits),
        number(float(np.mean(ranks)), 1),
        small(max(r["gaps"][k] for r in splits)),
    ]


def near(splits: Sequence[Result]) -> float:
    """The least rank at which the error is at most 1 % above the best of the curve."""
    errors, ranks = means(splits, "errors"), means(splits, "ranks")
    return float(min(ranks[errors <= 1.01 * min(errors)]))


def sentence(data: str, curves: dict[tuple[str, str], list[Result]]) -> str:
    """Who is better, at its best and as chosen in training, at which ranks, and where the gap is closed."""
    ours, theirs = curves[data, RSLM], curves[data, MTFL]
    a, b = float(min(means(ours, "errors"))), float(min(means(theirs, "errors")))
    better, other = (RSLM, MTFL) if a < b else (MTFL, RSLM)
    best = f"**{data}**: at its best {better} has the lower error, by {100 * abs(a - b) / max(a, b):.2f} % of that of"
    best += (
        f" {other}. RSLM is within 1 % of its best from rank {near(ours):.0f} on, MTFL from rank {near(theirs):.1f} on"
    )
    more = [x["errors"][x["chosen"]] - y["errors"][y["chosen"]] for x, y in zip(ours, theirs, strict=True)]
    wins = f"With settings chosen in training, RSLM is better in {sum(m < 0 for m in more)} of {len(more)} splits"
    wins += f" and MTFL in {sum(m > 0 for m in more)}"
    wide = np.logical_or.accumulate((np.max([r["gaps"] for r in ours], axis=0) > GAP)[::-1])[::-1]
    closed = [rank for rank, w in zip(ours[0]["ranks"], wide, strict=True) if not w]
    gap = f"are below {GAP:g} from rank {closed[0]} on" if closed else f"stay above {GAP:g}"
    return f"{best}. {wins}. The relative gaps of RSLM {gap}."


def figure(there: Sequence[str], curves: dict[tuple[str, str], list[Result]]) -> Any:
    from matplotlib.figure import Figure
    from matplotlib.ticker import ScalarFormatter

    picture = Figure(figsize=(9.5, 3.3 * len(there)), layout="constrained")
    for (left, right), data in zip(picture.subplots(len(there), 2, squeeze=False), there, strict=True):
        ours, theirs = curves[data, RSLM], curves[data, MTFL]
        for splits, style, colour, name in (
            (ours, "o-", "#1f3b73", RSLM),
            (theirs, "x--", "#c1272d", f"{MTFL}, all weights"),
        ):
            left.plot(means(splits, "ranks"), means(splits, "errors"), style, ms=4, lw=1.3, color=colour, label=name)
            k = least(splits)
            left.plot(means(splits, "ranks")[k], means(splits, "errors")[k], "o", ms=11, mfc="none", color=colour)
        low, high = min(means(theirs, "errors")), max(means(ours, "errors"))
        low = min(low, min(means(ours, "errors")))
        left.set_ylim(
            low - 0.15 * (high - low), high + 0.6 * (high - low)
        )  # weights that leave almost nothing are above
        left.set_ylabel(f"{data}: test NMSE")
        left.legend(frameon=False)
        right.plot(means(ours, "ranks"), np.max([r["gaps"] for r in ours], axis=0), "o-", ms=4, lw=1.3, color="#1f3b73")
        right.set_yscale("log")
        right.set_ylabel("relative gap of RSLM, largest of the splits")
        for axis in (left, right):
            axis.set_xlabel("rank")
            axis.set_xscale("log")
            axis.set_xticks([1, 2, 3, 5, 10, 20])
            axis.minorticks_off()
            axis.xaxis.set_major_formatter(ScalarFormatter())
    return picture
