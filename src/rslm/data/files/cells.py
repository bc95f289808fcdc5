"""The content of a cell of a text table: a number, nothing, or something that was meant as a number."""

from __future__ import annotations

import re

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?")
POWER, INFINITE = "([eE][+-]?[0-9]+)?", "[+-]?(?i:inf|infinity)"
# Not Python's float(), which accepts 1_000 as a number; Polars does not.
NUMBER = rf"^([+-]?([0-9]+\.?[0-9]*|\.[0-9]+){POWER}|{INFINITE})$"
COMMA_NUMBER = rf"^([+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+){POWER}|{INFINITE})$"
GROUPED = r"[+-]?[0-9]{1,3}([,_' ][0-9]{3})+(\.[0-9]+)?|[+-]?[0-9]{1,3}(\.[0-9]{3})+,[0-9]+|[0-9]+(_[0-9]+)+"
PERCENT, TRUTH = r"[+-]?[0-9]+([.,][0-9]+)?\s?%", "(?i:true|false)"
MONEY, COMMA = r"[$€£]\s?[0-9][0-9.,]*|[0-9][0-9.,]*\s?[$€£]", "[+-]?[0-9]+,[0-9]+"
REMEDIES = {
    PERCENT: "write it without the percent sign",
    TRUTH: "write 1 and 0",
    GROUPED: "write it without separators of thousands, and with a decimal point",
    COMMA: "write it with a decimal point",
    MONEY: "write it without the currency",
}
ALMOST = f"^({'|'.join(REMEDIES)})$"  #: not a number, but meant as one

_number, _comma_number, _almost = (re.compile(pattern) for pattern in (NUMBER, COMMA_NUMBER, ALMOST))


def is_number(cell: str, comma: bool = False) -> bool:
    """Whether a cell is a number or says that it is missing; with `comma`, 1,5 is a number too."""
    cell = cell.strip()
    return cell in MISSING or (_comma_number if comma else _number).match(cell) is not None


def was_meant_as_number(cell: str) -> bool:
    return _almost.match(cell.strip()) is not None


def no_number(cell: str, otherwise: str = "") -> str:
    """A message that the cell is not a number, and what to write instead if that is clear."""
    shown = cell if len(cell) <= 40 else cell[:40] + "…"
    remedy = next((text for pattern, text in REMEDIES.items() if re.fullmatch(pattern, cell.strip())), otherwise)
    return f"{shown!r} is not a number{'; ' if remedy else ''}{remedy}"
