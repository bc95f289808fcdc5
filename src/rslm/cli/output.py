"""Checks of output files before a command runs, and results as tables or JSON."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from rslm.cli.interrupts import INTERRUPTED
from rslm.data.numbers import plain_number
from rslm.estimators.checkpoints import iterations_and_seconds
from rslm.storage.atomic import target_of

#: What the words of warnings are on the command line, for `remarks_on`; advice for Python is left out.
OF_ENTRIES = {
    ". With keep_empty_features=False, transform leaves such features out": "",
    "samples": "rows",
    "features": "columns",
}


def claim(force: bool, *paths: Path | None, read: Sequence[str | Path], checkpoint: Path | None = None) -> None:
    """Check before any work that these files can be written. A checkpoint may exist; input is never overwritten."""
    for path in (*paths, checkpoint):
        if path is not None and path.resolve() in [Path(source).resolve() for source in read]:
            raise ValueError(f"{path} is read by this command and would be overwritten; write to another file")
    named = [path.resolve() for path in (*paths, checkpoint) if path is not None]
    if len(set(named)) < len(named):
        twice = next(path for path in named if named.count(path) > 1)
        raise ValueError(f"{twice} is named for two different outputs; give each its own file")
    # A command that resumes may overwrite its own output; a checkpoint of another fit will be refused.
    goes_on = checkpoint is not None and target_of(checkpoint).exists()
    for path in paths:
        if path is not None and target_of(path).exists() and not (force or goes_on):
            raise FileExistsError(f"{path} exists; add --force to overwrite it")


def done_before(console: Console, checkpoint: Path | None) -> int:
    """Print how far the fit in a checkpoint has come, and return its number of iterations."""
    done = None if checkpoint is None else iterations_and_seconds(checkpoint)
    if done is None:
        return 0
    console.print(f"Resuming from {checkpoint}: iteration {done[0]}, {done[1]:.0f} s so far")
    return done[0]


def screen(json: bool = False) -> Console:
    """The console for notes, on standard error with --json. Markup is off, so that ids are shown literally."""
    return Console(stderr=json, markup=False, highlight=False)


@contextmanager
def remarks_on(console: Console, words: dict[str, str] | None = None) -> Iterator[None]:
    """Print warnings of the library as notes after the work is done; `words` are replaced in them."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(remark.message) for remark in remarks if remark.category is not RuntimeWarning):
        for word, better in (words or {}).items():
            text = text.replace(word, better)
        console.print(f"Note: {text}.")


def end(console: Console, model: Any, checkpoint: Path | None = None) -> None:
    """Exit with code 130 if the fit was interrupted."""
    if model.outcome_ == "interrupted":
        more = "" if checkpoint is None else " The same command resumes from it."
        console.print(f"Interrupted: this is the best result so far.{more}")
        raise typer.Exit(INTERRUPTED)


def as_json(value: Any) -> str:
    """Strict JSON: numbers that are not finite become text."""
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return plain_number(value)


def show(console: Console, title: str, facts: dict[str, Any], machine: bool) -> None:
    """Facts as a table, or as JSON."""
    if machine:
        print(as_json(facts))
        return
    table = Table(show_header=False, title=title)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)
