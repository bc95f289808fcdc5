"""The tables and figures of matrix completion."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Result, Section
from paper.drawing import COLOURS, curve, panels, times
from paper.methods.completion import OTHERS, OURS, SAME_PROBLEM, SPECTRAHEDRON
from tabular import mean_std, number, small, table

PRINTED = {  # test RMSE: Netflix, MovieLens-10M, MovieLens-20M
    "rslm_tr": ("0.8443 ± 0.0001", "0.8026 ± 0.0005", "0.7962 ± 0.0003"),
    "rslm_cg": ("0.8449 ± 0.0003", "0.8026 ± 0.0005", "0.7963 ± 0.0003"),
    "r3mc": ("0.8478 ± 0.0001", "0.8070 ± 0.0004", "0.7982 ± 0.0003"),
    "rtrmc": ("0.8489 ± 0.0001", "0.8161 ± 0.0004", "0.8044 ± 0.0005"),
    "apgl": ("0.8587 ± 0.0005", "0.8283 ± 0.0009", "0.8160 ± 0.0013"),
    "active_alt": ("0.8463 ± 0.0005", "0.8116 ± 0.0012", "0.8033 ± 0.0008"),
    "mmbs": ("0.8454 ± 0.0002", "0.8226 ± 0.0015", "0.8053 ± 0.0008"),
    "lmafit": ("0.8484 ± 0.0001", "0.8082 ± 0.0005", "0.7996 ± 0.0003"),
    "prp": ("0.8488 ± 0.0007", "0.8068 ± 0.0006", "0.7987 ± 0.0008"),
}
IN_PAPER = ("Netflix", "ML-10M", "ML-20M")
MOST = 500  # iterations of every method: one that ends there has not converged
SECOND_ORDER = ("rslm_tr", "mmbs", "rtrmc")
METHODS = OURS + OTHERS
SETTINGS = dict[tuple[str, str], Result]
FITS = dict[tuple[str, str, int, str], Result]  # data, method, split, criterion by which the weight was chosen
SAME_FITS = dict[tuple[str, str, int], Result]


def section(names: Sequence[str], tuned: SETTINGS, fits: FITS, same: SAME_FITS) -> Section:
    here = [name for name in names if any(key[0] == name for key in tuned)]
    parts = [PROTOCOL]
    figures = {}
    for name in here:
        of = {(m, kind): good(fits, name, m, kind) for m in METHODS for kind in ("end", "early")}
        ends = {m: of[m, "end"] for m in METHODS if of[m, "end"]}
        parts += [f"### {name}\n", measured(name, of, tuned), verdict(of)]
        figures[f"completion-{name.lower()}"] = draw(ends)
        parts.append(
            f"![Test error against time on {name}, in two panels](pictures/paper/completion-{name.lower()}.png)\n"
        )
        shared = same_splits(same, name)
        if shared:
            parts += [f"### {name}: the same problem for all\n", same_problem(tuned[name, "rslm_tr"]["end"], shared)]
            figures[f"objective-{name.lower()}"] = draw_objectives(shared)
            parts.append(f"![Objective against time on {name}](pictures/paper/objective-{name.lower()}.png)\n")
        failed = [module(m).NAME for m in METHODS if m not in ends]
        parts += [f"Failed here: {'; '.join(failed)}.\n"] if failed else []
    parts += ["### The paper's table\n", paper_table(fits)]
    return Section("Matrix completion", "\n".join(parts), figures)


def good(fits: FITS, name: str, method: str, kind: str) -> list[Result]:
    """The fits that have not failed, in the order of the splits."""
    return [r for (n, m, _, k), r in fits.items() if (n, m, k) == (name, method, kind) and "error" not in r]


def same_splits(same: SAME_FITS, name: str) -> dict[str, list[Result]]:
    """By method, of the splits that all methods have."""
    found = {
        m: {s: r for (n, k, s), r in same.items() if (n, k) == (name, m) and "error" not in r} for m in SAME_PROBLEM
    }
    common = [seed for seed in found["rslm_tr"] if all(seed in of for of in found.values())]
    return {m: [of[seed] for seed in common] for m, of in found.items()} if common else {}


PROTOCOL = """\
Rank 10, random splits into 80 % and 20 %: five, in a quick run two. Every method has one thread. Methods of fixed
rank start from the leading singular vectors of the data; R3MC and LMaFit raise the rank one by one from there, and
APGL, Active ALT and PRP start from zero, from where the first step leads to these vectors. Regularisation is chosen
on 5 % of the training part of the first split, in decades and then between them; the test parts of the other splits
overlap with that training part, for all methods alike. "At the end" is the test error where the method has converged,
or after 60 CPU seconds or 500 iterations. "Least along a run" is what the paper reports: the least test error of all
iterates, with the weight whose least held-out error is smallest. That is a choice on the test set. "To within 0.001"
is the time from which on the test error stays that close to its value at the end. The time of scoring does not count;
as many fits as there are cores run at the same time. The gap is that of `C ‖P_Ω(W − Y)‖² + ½‖W‖_*²` without a limit
on the rank, at the C to which the method's own regularisation corresponds; a large one says that the limit on the
rank is active.

RSLM-tr begins with conjugate-gradient steps. Their number was raised after a first run of this table, in which
RSLM-tr took 0.40 s to within 0.001. Of thirteen other problems, two take longer, by a seventh and by
a quarter.
"""


def module(method: str) -> Any:
    return importlib.import_module(f"paper.methods.completion.{method}")


def values(results: Sequence[Result], key: str) -> list[float]:
    return [float(r[key]) for r in results]


def measured(name: str, of: dict[tuple[str, str], list[Result]], tuned: SETTINGS) -> str:
    rows = []
    for method in METHODS:
        found, early = of[method, "end"], of[method, "early"]
        if not found:
            continue
        ended = sum(r["ended"] == "converged" and r["iterations"] < MOST for r in found)
        weights = [tuned[name, method][kind] for kind in ("end", "early")]
        rows.append(
            [
                module(method).NAME,
                " / ".join(f"{w:.3g}" for w in dict.fromkeys(weights)),
                mean_std(values(found, "final"), 4),
                mean_std(values(early, "least"), 4),
                number(float(np.mean(values(found, "seconds"))), 1),
                number(float(np.mean(values(found, "close"))), 2),
                small(float(np.median(values(found, "gap")))) if method in SAME_PROBLEM else "–",
                f"{ended} of {len(found)}",
            ]
        )
    header = ["", "C or weight", "RMSE at the end", "least along a run"]
    header += ["CPU s", "s to within 0.001", "gap", "converged"]
    legend = "\n".join(f"- {module(m).NAME}: {module(m).PROBLEM}" for m in METHODS)
    return table(header, rows) + "\n" + legend + "\n"


def verdict(of: dict[tuple[str, str], list[Result]]) -> str:
    """Who is lowest and who is first, and where a baseline is better than RSLM-tr in most splits."""
    plain = [m for m in (*SPECTRAHEDRON, *OTHERS) if of[m, "end"]]
    ends = {m: float(np.mean(values(of[m, "end"], "final"))) for m in plain}
    least = {m: float(np.mean(values(of[m, "early"], "least"))) for m in plain if of[m, "early"]}
    close = {m: float(np.mean(values(of[m, "end"], "close"))) for m in plain}
    lines = [
        f"Without weights and effects: lowest at the end {lowest(ends, 4)}; lowest along a run {lowest(least, 4)};"
    ]
    lines.append(f"first to within 0.001 of its error at the end, in seconds, {lowest(close, 2)}.")
    wins = []
    for other in OTHERS:
        for words, kind, key in (
            ("at the end", "end", "final"),
            ("along a run", "early", "least"),
            ("time", "end", "close"),
        ):
            pairs = list(zip(values(of[other, kind], key), values(of["rslm_tr", kind], key), strict=False))
            below = sum(a < b for a, b in pairs)
            if pairs and below > len(pairs) / 2:
                wins.append(f"{module(other).NAME} ({words}: in {below} of {len(pairs)} splits)")
    none = "No baseline is better than RSLM-tr in most splits, in any of these."
    lines.append(f"Better than RSLM-tr in most splits: {', '.join(wins)}." if wins else none)
    return " ".join(lines) + "\n"


def same_problem(C: float, of: dict[str, list[Result]]) -> str:
    """Methods with a trace norm, at weights that make their problems the same."""
    best = [min(r["objective"] for r in split) for split in zip(*of.values(), strict=True)]
    rows = []
    for method, found in of.items():
        excess = [r["objective"] / b - 1.0 for r, b in zip(found, best, strict=True)]
        near = [seconds_near(r, b) for r, b in zip(found, best, strict=True)]
        rows.append(
            [
                module(method).NAME,
                mean_std(values(found, "final"), 5),
                small(float(np.mean(excess))),
                number(float(np.mean(values(found, "seconds"))), 2),
                number(float(np.mean(values(found, "close"))), 2),
                number(float(np.mean(near)), 2),
                small(float(np.median(values(found, "gap")))),
            ]
        )
    header = [
        "",
        "RMSE at the end",
        "objective above the lowest",
        "CPU s",
        "s to within 0.001",
        f"s to {NEAR:g} above the lowest",
    ]
    text = SAME.format(C=f"{C:.3g}") + "\n" + table([*header, "gap"], rows)
    ends = {m: float(np.mean(values(found, "final"))) for m, found in of.items()}
    first = {m: float(np.mean(values(found, "close"))) for m, found in of.items()}
    apart = small(max(ends.values()) - min(ends.values()))
    text += f"\nThe errors at the end differ by at most {apart}. "
    text += f"First to within 0.001 of its error at the end, in seconds: {lowest(first, 2)}.\n"
    return text


NEAR = 1e-3  # relative
SAME = """\
An optimum of `‖P_Ω(W − Y)‖² + μ‖W‖_*` is one of `C ‖P_Ω(W − Y)‖² + ½‖W‖_*²` with `C = ‖W‖_* / μ`. Here all methods have
the C of RSLM, {C}, and in every split the μ at which RSLM's answer is stationary for them too. The objective is that of
RSLM; "above the lowest" is relative to the lowest of all methods in the same split, as a mean.
"""


def seconds_near(result: Result, best: float) -> float:
    """When the objective comes within NEAR of the best; not a number if it never does."""
    seconds = result["curve"][0]
    return next((s for s, v in zip(seconds, result["objectives"], strict=True) if v <= (1.0 + NEAR) * best), np.nan)


def draw_objectives(of: dict[str, list[Result]]) -> Any:
    """The first split: how far each objective is above the lowest."""
    figure, axes = panels(2)
    best = min(min(found[0]["objectives"]) for found in of.values())
    for (method, found), colour in zip(of.items(), COLOURS, strict=False):
        seconds, errors = found[0]["curve"]
        above = [max(v / best - 1.0, 1e-9) for v in found[0]["objectives"]]
        ours = method in SPECTRAHEDRON
        curve(axes[0, 0], [seconds, above], module(method).NAME, colour, ours)
        curve(axes[0, 1], [seconds, errors], module(method).NAME, colour, ours)
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_ylabel("objective above the lowest, relative")
    axes[0, 1].set_ylabel("test RMSE")
    ends = [found[0]["final"] for found in of.values()]
    axes[0, 1].set_ylim(min(ends) - 0.004, min(ends) + 0.08)
    for axis in axes[0]:
        times(axis, [found[0]["curve"] for found in of.values()])
        axis.legend(fontsize=7)
    return figure


def lowest(means: dict[str, float], digits: int) -> str:
    """The name of the lowest and its number, and those of the next."""
    if not means:
        return "none"
    first, *others = sorted(means, key=lambda m: means[m])
    next_ = f" (next {module(others[0]).NAME}, {number(means[others[0]], digits)})" if others else ""
    return f"{module(first).NAME} with {number(means[first], digits)}{next_}"


def draw(of: dict[str, list[Result]]) -> Any:
    """The first split: first-order methods, and second-order ones with those of rslm."""
    figure, axes = panels(2)
    colours = dict(zip(METHODS, COLOURS, strict=False))
    for axis, second in zip(axes[0], (False, True), strict=True):
        chosen = [m for m in of if of[m] and (m in SECOND_ORDER or m in ("rslm_weighted", "rslm_effects")) == second]
        for method in chosen:
            curve(axis, of[method][0]["curve"], module(method).NAME, colours[method], method in OURS)
        ends = [r["final"] for m in chosen for r in of[m][:1]]
        if ends:
            axis.set_ylim(min(ends) - 0.004, min(ends) + 0.08)
        times(axis, [of[method][0]["curve"] for method in chosen])
        axis.set_title("second-order methods, and variants of ours" if second else "first-order methods")
        axis.legend(fontsize=7)
    axes[0, 0].set_ylabel("test RMSE")
    return figure


def paper_table(fits: FITS) -> str:
    rows = []
    for method, printed in PRINTED.items():
        row = [module(method).NAME]
        for name, value in zip(IN_PAPER, printed, strict=True):
            found = good(fits, name, method, "early")
            row += [value, mean_std(values(found, "least"), 4) if found else "not here"]
        rows.append(row)
    header = ["", *(cell for name in IN_PAPER for cell in (f"{name}, printed", "measured, least along a run"))]
    missing = [name for name in IN_PAPER if not any(key[0] == name for key in fits)]
    note = [f"{name} is {ratings.absent(name)}" for name in missing]
    return table(header, rows) + ("\n" + "; ".join(note) + ".\n" if note else "")
