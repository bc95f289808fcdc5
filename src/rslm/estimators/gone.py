"""What a checkpoint says before a fit resumes from it."""

from __future__ import annotations

from rslm.checkpoint.file import iterations_and_seconds

__all__ = ["iterations_and_seconds"]
