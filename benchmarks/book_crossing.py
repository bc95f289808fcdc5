"""A file like those of Book-Crossing: a million rows, all in quotes, some of which are escaped, titles in Latin-1.

python benchmarks/book_crossing.py [rows]

Prints how many rows Python's own reader finds, and how many `read_source` and `prepare` do, with the seconds and the
peak of memory of each, in a process of its own.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROWS, USERS, BOOKS = 1_149_780, 105_283, 340_556
MEASURED = """
import resource, sys, time
from rslm.data import read_source
from rslm.data.prepared.write import prepare
path, way = sys.argv[1:]
began, cpu, before = time.perf_counter(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if way == "prepare":
    made = prepare(path, path + ".prepared")
    rows, how = made.entries, made.how
else:
    source = read_source(path)
    rows, how = len(source.data), source.how
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
took = f"{time.perf_counter() - began:.1f} s ({time.process_time() - cpu:.1f} s of CPU)"
print(f"{way}: {rows:,} rows, {took}, peak {peak / 1024:.0f} MB ({before / 1024:.0f} before)")
print(f"  {how}")
"""


def write(path: Path, rows: int) -> None:
    """User, book, rating and title; one book in a hundred has a quote in its id, or a title with two."""
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, USERS * BOOKS, 2 * rows))
    chosen = np.sort(rng.choice(pairs, rows, replace=False))
    users, books, ratings = chosen // BOOKS, chosen % BOOKS, rng.integers(0, 11, rows)
    with path.open("w", encoding="latin-1", newline="") as file:
        file.write('"User-ID";"ISBN";"Book-Rating";"Title"\r\n')
        for user, book, rating in zip(users.tolist(), books.tolist(), ratings.tolist(), strict=True):
            quote = '\\"' if book % 100 == 0 else ""
            title = f"Die {quote}Verwandlung{quote} für Anfänger, Band {book % 37}; ein Märchen"
            file.write(f'"{user}";"{quote}{book:010d}";"{rating}";"{title}"\r\n')


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "books.csv"
        write(path, rows)
        with path.open(encoding="latin-1", newline="") as file:
            found = sum(1 for _ in csv.reader(file, delimiter=";", escapechar="\\")) - 1
        print(f"{path.stat().st_size / 1e6:.0f} MB; csv: {found:,} rows")
        for way in ("read_source", "prepare"):
            subprocess.run([sys.executable, "-c", MEASURED, str(path), way], check=True)


if __name__ == "__main__":
    main()
