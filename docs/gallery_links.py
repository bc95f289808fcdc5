"""An extension for the reference pages: links from classes and functions to the examples that use them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))
import gallery

sys.path.pop(0)


class GalleryLinks(griffe.Extension):
    """Adds a line with links to the docstring of what an example of the gallery imports."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Runs when all names are known."""
        if pkg.path != "rslm":
            return
        for path, examples in gallery.examples_of().items():
            thing = pkg[path.removeprefix("rslm.")]
            thing = thing.final_target if isinstance(thing, griffe.Alias) else thing
            if thing.docstring is not None:
                links = ", ".join(f"[{example.title}][gallery-{example.name}]" for example in examples)
                line = griffe.DocstringSectionText(f"In the gallery: {links}.")
                thing.docstring.parsed.insert(1, line)
