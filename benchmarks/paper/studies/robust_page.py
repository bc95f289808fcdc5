"""The tables and the figure of robust completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paper import ratings
from paper.cells import Result, Section
from paper.drawing import COLOURS, curve, panels
from tabular import mean_std, number, table

Run = tuple[str, bool]  #: method, and whether the mean was subtracted
NAMES = {"rmc": "RMC", "svr": "RSLM, ε-SVR loss", "absolute": "RSLM, ℓ1 loss"}
PRINTED = {"rmc": "0.868", "svr": "0.857", "absolute": "0.869"}  # Netflix
COLOUR = dict(zip(NAMES, (COLOURS[5], COLOURS[0], COLOURS[1]), strict=True))


def section(
    name: str,
    tuned: Mapping[Run, Result],
    fits: Mapping[Run, Sequence[Result]],
    spoilt: Mapping[Run, Result],
) -> Section:
    if not any(fits.values()):
        return Section("Robust completion", f"{PROTOCOL}\n{name} is {ratings.absent(name)}.\n")
    parts = [PROTOCOL, f"### {name}\n", measured(tuned, fits), verdict(fits)]
    parts += [f"![Test error against time on {name}, in two panels](pictures/paper/robust.png)\n"]
    parts += ["### With wrong entries\n", wrong(fits, spoilt)]
    return Section("Robust completion", "\n".join(parts), {"robust": draw(fits)})


PROTOCOL = """\
Rank 10, random splits into 80 % and 20 %, one thread. The paper has one experiment, on Netflix, and prints its three
test errors; they are in the last column, and Netflix is not computed here. RMC minimises `Σ_Ω √(δ² + (w − y)²) + λ
Σ_{not Ω} w²` at rank 10, with δ from 1 to 0.001 of the size of the data in four stages; RSLM minimises `C Σ_Ω max(|w
− y| − ε, 0) + ½‖W‖_*²`, with ε = 0 for the ℓ1 loss. λ, C and ε are chosen by RMSE on 5 % of the training part of the
first split, in decades, then between them. RMC pulls what is not observed to zero and RSLM pulls W to zero, so all
methods are run on the ratings as they are, as in the paper, and on the ratings less their mean, which the paper does
not do.
"""


def label(run: Run) -> str:
    return NAMES[run[0]] + (", ratings less their mean" if run[1] else "")


def mean(results: Sequence[Result], key: str) -> float:
    return float(np.mean([r[key] for r in results]))


def measured(tuned: Mapping[Run, Result], fits: Mapping[Run, Sequence[Result]]) -> str:
    rows = []
    for run, found in fits.items():
        if not found:
            continue
        setting = f"λ = {tuned[run]['weight']:.2g}" if run[0] == "rmc" else f"C = {tuned[run]['weight']:.3g}"
        setting += f", ε = {tuned[run]['epsilon']:g}" if run[0] == "svr" else ""
        columns = [mean_std([r[key] for r in found], 4) for key in ("rmse", "mae")]
        ended = sum(r["ended"] == "converged" for r in found)
        printed = "–" if run[1] else PRINTED[run[0]]
        last = [number(mean(found, "seconds"), 1), f"{ended} of {len(found)}", printed]
        rows.append([label(run), setting, *columns, *last])
    header = ["", "settings", "RMSE at the end", "MAE at the end", "CPU s", "ended by itself"]
    return table([*header, "RMSE in the paper, Netflix"], rows)


def verdict(fits: Mapping[Run, Sequence[Result]]) -> str:
    """Where RMC is better than either of ours, as measured."""
    lines = []
    for centred in (False, True):
        here = {run[0]: found for run, found in fits.items() if run[1] == centred and found}
        for what, key in (("RMSE", "rmse"), ("MAE", "mae")):
            means = {m: mean(found, key) for m, found in here.items()}
            if "rmc" not in means or len(means) < 2:
                continue
            order = " < ".join(f"{NAMES[m]} {means[m]:.4f}" for m in sorted(means, key=lambda m: means[m]))
            beaten = [NAMES[m] for m in means if m != "rmc" and means["rmc"] < means[m]]
            wins = f" RMC is better than {' and '.join(beaten)}." if beaten else ""
            lines.append(f"- {what}, {'less the mean' if centred else 'ratings as they are'}: {order}.{wins}")
    return "\n".join(lines) + "\n"


def wrong(fits: Mapping[Run, Sequence[Result]], spoilt: Mapping[Run, Result]) -> str:
    text = (
        "5 % of the training entries of the first split are multiplied by 10; the test part is as it was, and so are\n"
    )
    text += "the settings, which were chosen on clean entries.\n\n"
    rows = [
        [label(run), number(fits[run][0]["rmse"], 4), number(r["rmse"], 4), number(r["mae"], 4)]
        for run, r in spoilt.items()
        if fits.get(run)
    ]
    return text + table(["", "RMSE, clean", "RMSE, wrong entries", "MAE, wrong entries"], rows)


def draw(fits: Mapping[Run, Sequence[Result]]) -> Any:
    """The first split, as in the paper's figure (c)."""
    figure, axes = panels(2)
    for axis, centred in zip(axes[0], (False, True), strict=True):
        chosen = {run[0]: found[0] for run, found in fits.items() if run[1] == centred and found}
        for method, result in chosen.items():
            curve(axis, result["curve"], NAMES[method], COLOUR[method], method != "rmc")
        if chosen:
            ends = [r["rmse"] for r in chosen.values()]
            axis.set_ylim(min(ends) - 0.01, max(ends) + 0.1)
            axis.legend(fontsize=7)
        axis.set_xscale("log")
        axis.set_xlabel("CPU seconds")
        axis.set_title("ratings less their mean" if centred else "ratings as they are")
    axes[0, 0].set_ylabel("test RMSE")
    return figure
