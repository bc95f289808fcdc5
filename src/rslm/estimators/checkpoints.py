"""The progress that a checkpoint file states, for the command line."""

from __future__ import annotations

from rslm.checkpoint.file import iterations_and_seconds

__all__ = ["iterations_and_seconds"]
