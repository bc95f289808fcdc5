"""For the reference: what the sources say in a form that its reader does not know."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Comments(griffe.Extension):
    """Comments that begin with `#:` behind an attribute."""

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Let `name: type  #: what it is` count as a docstring of `name`."""
        if attr.docstring is None and attr.lineno is not None:
            found = re.search(r"#:\s*(.+)$", "".join(attr.lines[-1:]))
            if found:
                attr.docstring = griffe.Docstring(found[1], lineno=attr.lineno, parent=attr)
