"""No structure: W is any matrix."""

from __future__ import annotations

from rslm.structures.base import Structure


class Free(Structure):
    """All matrices."""

    form = "free"

    def __repr__(self) -> str:
        return "Free()"
