"""Writes docs/paper.md from the stored cells."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path

from common import ROOT, processor
from paper.cells import Section, Store
from rslm.kernels import instruction_set
from rslm.storage.atomic import atomic_text

INTRODUCTION = """\
# The paper, reproduced

Every table and figure of *Structured low-rank matrix learning: algorithms and applications*, with every baseline,
measured by one command:

```
make paper            # an hour or two; stop it at any time, it continues from where it was
make paper QUICK=1    # minutes: small data, the same code
```

The baselines were written for this comparison from the descriptions in their papers, in NumPy, SciPy and the kernels of
rslm (`benchmarks/paper/methods`). They are not their authors' programs, and may be faster or slower than those. Each
is tested on a small problem: that its objective falls, and that it reaches the optimum that an independent solver
finds (`tests/paper`). Numbers that the paper prints were measured by its authors on their machine. Where the formulas
of the paper had to be corrected is on [a page of its own](corrections.md).
"""


def write(sections: Sequence[Section], store: Store, docs: Path, quick: bool) -> Path:
    """The page and its pictures; returns where the page is."""
    pictures = docs / "pictures" / "paper"
    pictures.mkdir(parents=True, exist_ok=True)
    for section in sections:
        for name, figure in section.figures.items():
            figure.savefig(pictures / f"{name}.png", dpi=110, metadata={"Software": None})
    parts = [INTRODUCTION, circumstances(store, quick), *(f"## {s.title}\n\n{s.body}" for s in sections)]
    with atomic_text(docs / "paper.md") as file:
        file.write("\n".join(part.rstrip() + "\n" for part in parts))
    return docs / "paper.md"


def measured(store: Store) -> tuple[str, str, float]:
    """Dates and commits of the cells, in words, and the hours that they took."""
    cells = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(store.folder.rglob("*.json"))]
    dates, commits = ([*dict.fromkeys(c[key] for c in cells)] for key in ("date", "commit"))
    when = dates[0] if len(set(dates)) == 1 else f"{min(dates)} to {max(dates)}"
    which = f"{'commit' if len(commits) == 1 else 'commits'} {', '.join(sorted(commits))}"
    return when, which, sum(c["seconds"] for c in cells) / 3600


def circumstances(store: Store, quick: bool) -> str:
    """Date, commit and machine of the cells."""
    when, commits, hours = measured(store)
    kind = "This is a quick run, on small data: its numbers say that the code works, and little else. " if quick else ""
    return (
        f"{kind}Measured {when} at {commits} (+ marks a tree with changes), {hours:.1f} hours of one core, on "
        f"{processor()} ({os.cpu_count()} cores, kernels for {instruction_set()}), Python {platform.python_version()}. "
        "Every method has one thread.\n"
    )


DOCS = ROOT / "docs"
