"""What the benchmarks share: where the data are, how to time, how to report."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import rslm
from rslm.kernels import instruction_set

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("RSLM_SHARED", ROOT.parent / "shared"))
OUT = Path(os.environ.get("RSLM_OUT", ROOT / "out" / "benchmarks"))


def needed(path: Path) -> Path:
    """A file outside the repository; the benchmark says so and ends where it is not there."""
    if not path.exists():
        sys.exit(f"This benchmark needs {path.relative_to(SHARED)}; set RSLM_SHARED to the folder that holds it.")
    return path


def best_seconds(f: Callable[[], object], repeats: int = 5) -> tuple[float, float]:
    """Least wall and least CPU seconds of one call, after one that warms up."""
    f()
    wall = cpu = np.inf
    for _ in range(repeats):
        a, b = time.perf_counter(), time.process_time()
        f()
        wall, cpu = min(wall, time.perf_counter() - a), min(cpu, time.process_time() - b)
    return float(wall), float(cpu)


def peak_memory() -> int:
    """Most bytes that this process has had in memory so far."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the kernel does not tell the peak memory")


def forget_peak() -> None:
    """Let the peak memory count from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def rmse(left: Any, right: Any, rows: Any, cols: Any, values: Any) -> float:
    """Root mean square error of u_iᵀ v_t at pairs, in blocks."""
    total = 0.0
    for k in range(0, len(values), 1 << 20):
        at = slice(k, k + (1 << 20))
        error = np.einsum("ij,ij->i", left[rows[at]], right[cols[at]]) - values[at]
        total += float(error @ error)
    return float(np.sqrt(total / len(values)))


def report(name: str, rows: list[dict[str, Any]], **facts: Any) -> None:
    """Print a table and write it, with the circumstances, as JSON."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[_show(row.get(c, "")) for c in columns] for row in rows]
    widths = [max(len(c), *(len(line[k]) for line in cells)) for k, c in enumerate(columns)]
    print("  ".join(c.rjust(w) for c, w in zip(columns, widths, strict=True)))
    for line in cells:
        print("  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)))
    for key, value in facts.items():
        print(f"{key}: {_show(value)}")
    machine = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "instruction set": instruction_set(),
        "rslm": rslm.__version__,
        "python": platform.python_version(),
    }
    found = {"benchmark": name, "commit": commit(), "date": today(), "machine": machine, "rows": rows, "facts": facts}
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(found, indent=1, default=float, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"written to {path}")


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d")


def commit() -> str:
    """The last commit that has changed the package or a benchmark, with a plus if files differ from it."""
    git, sources = ["git", "-C", str(ROOT)], ["--", "src", "CMakeLists.txt", "benchmarks/*.py", ":!benchmarks/measured"]
    try:
        last = [*git, "log", "-1", "--format=%h", "--abbrev=10", *sources]
        head = subprocess.run(last, capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", *sources], check=False)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.returncode else "")


def processor() -> str:
    """The name of the processor, where the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
