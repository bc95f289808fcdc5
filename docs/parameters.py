"""For the reference: types and defaults as docstrings and signatures have them, parameter by parameter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import griffe

ITEM = re.compile(r"^(?P<names>[\w*]+(?:, [\w*]+)*)(?: : (?P<type>.+?))?(?:, optional|, default[ =:].+)?$")


class Parameters(griffe.Extension):
    """Mends what the reader of docstrings does.

    It gives all names of `rank, C, tol` the type and the default of the first, takes the first of `{"a", "b"}` for the
    default, and reads English as Python: `arrays (n, rank)` becomes a call.
    """

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """When all signatures are known; `dataclasses` has to come before, which makes those of dataclasses."""
        for obj in below(pkg):
            if obj.docstring is not None:
                mend(obj, obj.docstring)


def below(obj: griffe.Object) -> Iterator[griffe.Object]:
    yield obj
    for member in obj.members.values():
        if not isinstance(member, griffe.Alias):
            yield from below(member)


def mend(obj: griffe.Object, docstring: griffe.Docstring) -> None:
    """Change the parsed docstring, which is parsed only once."""
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
    """Names with the types that are written behind them; groups of names as a whole too, as attributes have them."""
    for line in docstring.lines:
        found = ITEM.match(line)
        if found and found["type"]:
            for name in {found["names"], *found["names"].split(", ")}:
                yield name, found["type"]


def plain(text: str) -> str:
    return text.replace("'", '"')
