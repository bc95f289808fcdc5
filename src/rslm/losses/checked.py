"""The functions of a loss, with a look at their answers: the loss may come from a user."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rslm._typing import Floats
from rslm.losses.base import Loss


class CheckedLoss:
    """Calls a function of the loss by its name; what it answers has the right shape and is not nonsense."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def try_out(self, y: Floats) -> None:
        """Call every function once, for some targets and predictions of 0, where none may overflow."""
        with np.errstate(all="ignore"):
            for name in ("value", "gradient", "hessian"):
                answer = self(name, y, np.zeros_like(y))
                if name != "value":  # of data that are too large for it, the solver tells
                    self._refuse(name, ~np.isfinite(answer), answer, y, np.zeros_like(y))

    def __call__(self, name: str, y: Floats, w: Floats) -> Floats:
        answer = np.asarray(getattr(self.loss, name)(y, w))
        if answer.shape != y.shape:
            raise ValueError(
                f"{name} of {self.loss!r} has shape {answer.shape} for targets and predictions of shape {y.shape}; it "
                "must give one number for every entry"
            )
        if answer.dtype.kind not in "fiub":
            raise TypeError(f"{name} of {self.loss!r} has dtype {answer.dtype}, but real numbers are needed")
        self._refuse(name, ~(answer >= 0) if name == "hessian" else np.isnan(answer), answer, y, w)
        return answer

    def _refuse(self, name: str, wrong: NDArray[np.bool_], answer: Floats, y: Floats, w: Floats) -> None:
        if wrong.any():
            k = int(np.argmax(wrong))
            raise ValueError(
                f"{name} of {self.loss!r} is {answer[k]} at y = {y[k]:g}, w = {w[k]:g}; a loss must be convex and its "
                "functions finite for all targets that it accepts. rslm.testing.check_loss finds such mistakes"
            )
