"""The interface of a structure: a set that W lies in, or a penalty on W.

The form of a structure tells inner solvers and continuation how to treat it:

    free          all matrices
    bounds        lower ≤ W ≤ upper; solved as `soft bounds`, which W may violate at a cost
    linear        W = P(w) + W₀; solved `smoothed`, where W has low rank only approximately
    penalty       all matrices, with a quadratic cost
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats

if TYPE_CHECKING:
    from rslm.structures.box import Box
    from rslm.structures.linear import LinearStructure


FORMS = ("free", "bounds", "soft bounds", "linear", "smoothed", "penalty")


class Observed(Protocol):
    """What a structure needs to know about a measurement."""

    @property
    def intercept(self) -> bool: ...

    @property
    def at_hand(self) -> bool: ...

    @property
    def parameters(self) -> int | None: ...

    @property
    def shape(self) -> tuple[int, int]: ...


class Structure(ABC):
    """A convex set of matrices, or a convex penalty on them."""

    form: ClassVar[str]
    #: Whether columns of W depend on one another, so that they cannot be distributed over processes.
    couples_columns: ClassVar[bool] = False

    @property
    def box(self) -> Box | None:
        """The bounds, hard or soft; None where there are none."""
        return None

    @property
    def linear(self) -> LinearStructure | None:
        """The linear structure, smoothed or not; None where there is none."""
        return None

    def check_form(self) -> None:
        """Raise an error if the form is not known, or not the one of this class."""
        form = getattr(self, "form", None)
        kept = {"bounds": self.box, "soft bounds": self.box, "linear": self.linear, "smoothed": self.linear}
        if form not in FORMS or (form in kept and kept[form] is None):
            raise TypeError(
                f"{self!r} has the form {form!r}; derive your structure from LinearStructure, Penalty or Box, with "
                "a known form"
            )

    def shape_of(self, data: Observed) -> tuple[int, int]:
        """(d, T) of W, for these `data`."""
        return data.shape

    def check(self, data: Observed) -> None:
        """Raise an error if this structure cannot be used with these `data`."""
        if self.couples_columns and not data.at_hand:
            raise TypeError(
                f"{self!r} couples the columns of W, so they cannot be distributed over processes; fit it in one "
                "process, without a client"
            )

    def penalty(self, A: Floats, B: Floats) -> float:
        """The penalty on W = A Bᵀ with factors A and B."""
        return 0.0

    def simplest(self, shape: tuple[int, int]) -> tuple[Floats, Floats] | None:
        """Columns a and b such that a bᵀ, of this `shape`, is the matrix of the set nearest to 0.

        None if that matrix does not have rank 1.
        """
        d, T = shape
        return np.zeros((d, 1)), np.zeros((T, 1))

    def inward(self, X: Floats, V: Floats, misfit: Callable[[Floats, Floats], float]) -> tuple[Floats, Floats] | None:
        """X and V near the given ones with X Vᵀ in the set, found in one pass; None where that is not possible.

        Of several candidates, the one with the least `misfit` is returned.
        """
        return X, V

    def arrays(self) -> list[NDArray[Any]]:
        """The arrays that define the structure, for its fingerprint."""
        return []
