"""The numbers of README.md, from what `make paper` has stored.

    python benchmarks/readme.py     # writes them again, for instance after a change of the text around them

A test fails if the table in README.md is another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from common import ROOT, processor
from rslm.storage.atomic import atomic_text

STORED = ROOT / "benchmarks" / "stored" / "paper.json"
README = ROOT / "README.md"
REGION = re.compile(r"(<!-- numbers -->\n).*?(<!-- end of numbers -->)", re.DOTALL)
WEIGHTED = "RSLM, weighted, effects"


def store(numbers: dict[str, Any], date: str, commits: str) -> None:
    """Keep the numbers of the sections of docs/paper.md, with when and at which commits they were measured."""
    STORED.parent.mkdir(parents=True, exist_ok=True)
    with atomic_text(STORED) as file:
        found = {"date": date, "commits": commits, "processor": processor(), "numbers": numbers}
        file.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


def write() -> None:
    text = README.read_text(encoding="utf-8")
    with atomic_text(README) as file:
        file.write(with_numbers(text, json.loads(STORED.read_text(encoding="utf-8"))))


def with_numbers(text: str, stored: dict[str, Any]) -> str:
    """README.md with the table between its marks made anew."""
    return REGION.sub(lambda m: m[1] + table(stored) + m[2], text)


def table(stored: dict[str, Any]) -> str:
    """One line for each study that is stored: ours, the best other, the command."""
    found = stored["numbers"]
    rows = [row(found[title]) for title, row in ROWS.items() if title in found]
    lines = [["", "rslm", "best other method of the paper", "command"], ["---", "---:", "---:", "---"]]
    lines += [[*row[:3], f"`make paper ONLY={row[3]}`"] for row in rows]
    body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{body}\n\nMeasured {stored['date']} at {stored['commits']}, one thread of {stored['processor']}.\n"


def completion(found: dict[str, Any]) -> list[str]:
    errors = {name: of["final"] for name, of in found["ML-1M"].items()}
    name, other = lowest({k: v for k, v in errors.items() if not k.startswith("RSLM")})
    return ["MovieLens-1M, rank 10: test RMSE", f"{errors[WEIGHTED]:.4f}", f"{other:.4f}, {name}", "completion"]


def nonnegative(found: dict[str, Any]) -> list[str]:
    errors = {k.removesuffix(", rank 10"): v for k, v in found["ML-1M"].items() if k.endswith("rank 10")}
    name, other = lowest({k: v for k, v in errors.items() if not k.startswith("RSLM")})
    return ["the same, non-negative", f"{errors['RSLM, weighted']:.4f}", f"{other:.4f}, {name}", "nonnegative"]


def robust(found: dict[str, Any]) -> list[str]:
    (_, ours), (_, other) = (lowest({k: v for k, v in found.items() if k.startswith(n)}) for n in ("RSLM", "RMC"))
    return ["the same, with robust losses", f"{ours:.4f}", f"{other:.4f}, RMC", "robust"]


def hankel(found: dict[str, Any]) -> list[str]:
    """Each set at the rank that is its true order."""
    at = {name: {method: errors[k] for method, errors in found[name].items()} for k, name in enumerate(found)}
    ours = " / ".join(f"{of['RSLM, C from the noise']:.4f}" for of in at.values())
    others = [lowest({k: v for k, v in of.items() if not k.startswith("RSLM")}) for of in at.values()]
    errors, names = " / ".join(f"{error:.4f}" for _, error in others), " / ".join(name for name, _ in others)
    return ["Impulse responses of order 5 / 10 / 20: RMSE to the truth", ours, f"{errors}, {names}", "hankel"]


def tasks(found: dict[str, Any]) -> list[str]:
    ours, other = found["School"]["RSLM"], found["School"]["MTFL"]
    return ["School, 139 regressions: error relative to variance", f"{ours:.4f}", f"{other:.4f}, MTFL", "tasks"]


ROWS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "Matrix completion": completion,
    "Non-negative completion": nonnegative,
    "Robust completion": robust,
    "Hankel matrix learning": hankel,
    "Multi-task feature learning": tasks,
}


def lowest(values: dict[str, float]) -> tuple[str, float]:
    name = min(values, key=lambda k: values[k])
    return name, values[name]


if __name__ == "__main__":
    write()
