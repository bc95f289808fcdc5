"""Results of contestants, kept in a file."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

OURS = ("rslm", "rslm-scaled")


@dataclass
class Results:
    """Error and seconds by data set, seed and contestant. Those of rslm are never kept in the file."""

    file: Path | None = None
    known: dict[str, dict[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.file is not None and self.file.exists():
            self.known = json.loads(self.file.read_text())

    @staticmethod
    def key(data: str, seed: int, who: str) -> str:
        return f"{data}/{seed}/{who}"

    def add(self, data: str, seed: int, who: str, error: float, seconds: float) -> None:
        new = {self.key(data, seed, who): {"error": error, "seconds": seconds}}
        self.known |= new
        if self.file is not None and who not in OURS:
            kept = json.loads(self.file.read_text()) if self.file.exists() else {}  # another run may have added some
            part = self.file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(kept | new, indent=0))
            os.replace(part, self.file)

    def has(self, data: str, seed: int, who: str) -> bool:
        return self.key(data, seed, who) in self.known

    def mean(self, data: str, seeds: list[int], who: str, what: str) -> float:
        """Over those of the seeds that there are; NaN if there are none."""
        found = [self.known[k][what] for s in seeds if (k := self.key(data, s, who)) in self.known]
        return float(np.mean(found)) if found else np.nan
