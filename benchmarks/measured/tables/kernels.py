"""What an evaluation and a Hessian product cost."""

from __future__ import annotations

from measured.store import find
from measured.written import with_circumstances
from tabular import table


def kernels() -> str:
    report = find("kernel")
    sets = [name for name in ("avx2", "avx512") if any(row["on"] == name for row in report.rows)]
    names = {"avx2": "AVX2", "avx512": "AVX-512"}
    lines = []
    for rank in sorted({row["rank"] for row in report.rows}):
        for where in sets:
            of = {row["kernel"]: row for row in report.rows if row["rank"] == rank and row["on"] == where}
            yardstick = next((row for row in report.rows if row["rank"] == rank and "yardstick" in row["kernel"]), None)
            whole = of["evaluation"]
            ratio = whole.get("/haswell yardstick", whole.get("/native yardstick")) if yardstick else None
            lines.append(
                [
                    str(rank),
                    names[where],
                    f"{whole['cpu s']:.3f}",
                    "–" if ratio is None else f"{ratio:.2f}",
                    f"{of['evaluation single']['cpu s']:.3f}",
                    f"{of['Hessian product']['cpu s']:.3f} / {of['Hessian product single']['cpu s']:.3f}",
                ]
            )
    head = ["rank", "instructions", "evaluation, CPU s", "relative to the yardstick", "in single precision"]
    return with_circumstances(table([*head, "Hessian product, double / single"], lines), report)


PLACES = {"kernels": kernels}
