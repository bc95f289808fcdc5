"""How tables of numbers are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from measured.store import Report
from tabular import table

Row = dict[str, Any]
Form = Callable[[Any], str]
Columns = dict[str, tuple[str, Form]]  # key and form of every column, by its title


def fixed(digits: int) -> Form:
    return lambda value: f"{value:.{digits}f}"


def share(digits: int = 0) -> Form:
    return lambda value: f"{100 * value:.{digits}f} %"


def power(value: float) -> str:
    """One digit and a power of ten, for what is far below 1."""
    return f"{value:.0e}".replace("e-0", "e-") if value < 1e-2 else f"{value:.2g}"


def columns(rows: Sequence[Row], asked: Columns) -> str:
    """A line for each row; "–" where it has no such value."""
    lines = [[form(row[key]) if key in row else "–" for key, form in asked.values()] for row in rows]
    return table(list(asked), lines)


def grid(corner: str, down: Sequence[str], across: Sequence[str], cell: Callable[[str, str], str]) -> str:
    return table([corner, *across], [[row, *(cell(row, column) for column in across)] for row in down])


def first(rows: Iterable[Row], **wanted: Any) -> Row:
    """The first row with these values."""
    return next(row for row in rows if all(row.get(key) == value for key, value in wanted.items()))


def bold_least(cells: Sequence[tuple[float, str]]) -> list[str]:
    """The smallest in bold."""
    least = min(value for value, _ in cells)
    return [f"**{text}**" if value == least else text for value, text in cells]


def with_circumstances(body: str, *reports: Report) -> str:
    """A table, and below it how its numbers were measured."""
    lines = dict.fromkeys(report.circumstances for report in reports)
    return f"{body.rstrip()}\n\nMeasured by {' and '.join(lines)}.\n"
