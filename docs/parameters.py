"""An extension for the reference pages: the type and default of each parameter from docstrings and signatures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

ITEM = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*)(?: : (?P<type>.+?))?(?:, optional|, default[ =:].+)?$")


class Parameters(griffe.Extension):
    """Corrects errors of griffe's docstring parser.

    The parser gives all names of `rank, C, tol` the type and the default of the first, takes the first of `{"a", "b"}`
    for the default, and parses English as Python: `arrays (n, rank)` becomes a call.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Runs when all signatures are known; the extension `dataclasses`, which adds theirs, must come before."""
        for obj in below(pkg):
            if obj.docstring is not None:
                mend(obj, obj.docstring)


def below(obj: griffe.Object) -> Iterator[griffe.Object]:
    yield obj
    for member in obj.members.values():
        if not isinstance(member, griffe.Alias):
            yield from below(member)


def mend(obj: griffe.Object, docstring: griffe.Docstring) -> None:
    """Correct the parsed docstring in place; it is parsed only once."""
    written = dict(types(docstring))
    signature = obj.parameters if isinstance(obj, griffe.Function | griffe.Class) else griffe.Parameters()
    for section in docstring.parsed:
        if section.kind.value not in ("parameters", "attributes", "returns"):
            continue
        for item in section.value:
            given = written.get(item.name)
            if given is not None and plain(given) != plain(str(item.annotation)):
                item.annotation = given
            if section.kind.value == "parameters" and item.name.lstrip("*") in signature:
                parameter = signature[item.name.lstrip("*")]
                item.value = None if "variadic" in parameter.kind.value else parameter.default
                if given is None:
                    item.annotation = parameter.annotation


def types(docstring: griffe.Docstring) -> Iterator[tuple[str, str]]:
    """Names with the types written after them; also whole groups of names, as in lists of attributes."""
    for line in docstring.lines:
        found = ITEM.match(line)
        if found and found["type"]:
            for name in {found["names"], *found["names"].split(", ")}:
                yield name, found["type"]


def plain(text: str) -> str:
    return text.replace("'", '"')
