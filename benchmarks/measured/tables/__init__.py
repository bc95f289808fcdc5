"""One function a place in a page: stored reports in, Markdown out. A module for each subject."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

SUBJECTS: tuple[str, ...] = (
    "bounds",
    "clicks",
    "first_fits",
    "forecasts",
    "intervals",
    "kernels",
    "large",
    "losses",
    "panels",
)
SUBJECTS += ("ratings", "readme", "series", "systems")

#: By the name of the place.
TABLES: dict[str, Callable[[], str]] = {
    name: function
    for subject in SUBJECTS
    for name, function in import_module(f"measured.tables.{subject}").PLACES.items()
}
