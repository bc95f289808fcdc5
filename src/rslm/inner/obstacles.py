"""Reasons why an inner solver cannot solve a problem; None where there is none."""

from __future__ import annotations

from rslm.problem import Problem


def not_entries_alone(problem: Problem) -> str | None:
    """The obstacle of solvers for entries without structure."""
    return has_structure(problem) or not_entries(problem)


def has_effects(problem: Problem) -> str | None:
    """The obstacle of solvers that support neither a location nor weights of observations."""
    if problem.location is not None:
        return f"does not support {problem.location!r}"
    return "does not support weights of observations" if problem.data.weighted else None


def has_structure(problem: Problem) -> str | None:
    """The obstacle of solvers that do not support structures."""
    return None if problem.structure.form == "free" else f"does not support {problem.structure!r}"


def has_kinks(problem: Problem) -> str | None:
    """The obstacle of solvers that need a second derivative of the loss."""
    return None if problem.loss.smooth else f"needs a second derivative, {problem.loss!r} has kinks"


def not_entries(problem: Problem) -> str | None:
    """The obstacle of solvers for entries only."""
    return None if "entries" in problem.data.traits else f"needs entries, the problem has {problem.data!r}"
