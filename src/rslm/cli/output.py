"""Files that are not overwritten by accident; results for people and for machines."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from rslm.data.numbers import plain_number

INTERRUPTED = 130  # exit code, as of a program that Ctrl-C has ended


def claim(force: bool, *paths: Path | None) -> None:
    """See that these files can be written, before any work that would be lost without them."""
    named = [path.absolute() for path in paths if path is not None]
    if len(set(named)) < len(named):
        twice = next(path for path in named if named.count(path) > 1)
        raise ValueError(f"{twice} is named twice, for two different things; give each a file of its own")
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder; name a file in it")
        if path.exists() and not force:
            raise FileExistsError(f"{path} exists; add --force to overwrite it")
        if not path.parent.exists():
            raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first")


@contextmanager
def remarks_on(console: Console) -> Iterator[None]:
    """What the library warns of becomes notes, once the work is done."""
    with warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        yield
    for remark in remarks:
        console.print(f"Note: {remark.message}.")


def end(model: Any) -> None:
    """Exit with the code that says how the fit has ended."""
    if model.outcome_ == "interrupted":
        raise typer.Exit(INTERRUPTED)


def show(console: Console, title: str, facts: dict[str, Any], as_json: bool) -> None:
    """Facts as a table, or as JSON."""
    if as_json:
        print(json.dumps({k: plain_number(v) for k, v in facts.items()}))
        return
    table = Table(show_header=False, title=title)
    for key, value in facts.items():
        table.add_row(key.replace("_", " "), f"{value:.4g}" if isinstance(value, float) else str(value))
    console.print(table)
