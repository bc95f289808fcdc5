"""Refuse options that do not apply to a format, so that they are not silently ignored."""

from __future__ import annotations

from typing import Any


def refuse_given(name: str, kind: str, options: dict[str, Any]) -> None:
    """`kind`: what the file is, for the message; `options`: those that do not apply, None where not given."""
    given = [option for option, value in options.items() if value is not None]
    if given:
        listed = " and ".join([", ".join(given[:-1]), given[-1]] if len(given) > 1 else given)
        apply = "does not apply; leave it out" if len(given) == 1 else "do not apply; leave them out"
        raise ValueError(f"{name} is {kind}, to which {listed} {apply}")
