"""An extension for the reference pages: attribute comments, which griffe does not read."""

from __future__ import annotations

import re
from typing import Any

import griffe


class Comments(griffe.Extension):
    """Reads comments that begin with `#:` after an attribute."""

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Use the comment in `name: type  #: what it is` as the docstring of `name`."""
        if attr.docstring is None and attr.lineno is not None:
            found = re.search(r"#:\s*(.+)$", "".join(attr.lines[-1:]))
            if found:
                attr.docstring = griffe.Docstring(found[1], lineno=attr.lineno, parent=attr)
