"""What a checkpoint tells before a fit goes on from it."""

from __future__ import annotations

from rslm.solvers.checkpoint import iterations_and_seconds

__all__ = ["iterations_and_seconds"]
