"""Reports as they were measured, one JSON file each, kept with the sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from common import ROOT
from rslm.storage.atomic import atomic_text

STORED = ROOT / "benchmarks" / "stored"
SETS = {"avx512": "AVX-512", "avx2": "AVX2"}


@dataclass(frozen=True)
class Report:
    """What one command has printed as a table, and the circumstances."""

    name: str
    content: dict[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.content["rows"]
        return found

    @property
    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = self.content["facts"]
        return found

    @cached_property
    def machine(self) -> str:
        of = self.content["machine"]
        vectors = SETS.get(of["instruction set"], of["instruction set"])
        return f"{of['processor']}, {of['cores']} cores, {vectors}"

    @property
    def circumstances(self) -> str:
        """Command, date, commit and machine."""
        of = self.content
        return f"`{of['command']}` on {of['date']} at commit {of['commit']} ({self.machine})"


class NotMeasuredError(Exception):
    """A report that is not stored."""


def find(name: str) -> Report:
    path = STORED / f"{name}.json"
    if not path.exists():
        raise NotMeasuredError(f"benchmarks/stored/{name}.json is not there: `make benchmarks` measures it")
    return Report(name, json.loads(path.read_text(encoding="utf-8")))


def keep(written: Path, command: str) -> Report:
    """Store what a benchmark has written, with the command that repeats it."""
    content = json.loads(written.read_text(encoding="utf-8")) | {"command": command}
    STORED.mkdir(exist_ok=True)
    with atomic_text(STORED / written.name) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return Report(written.stem, content)
