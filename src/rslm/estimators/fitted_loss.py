"""The loss of an estimator: what was given, and what the last fit made of it."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, Self, cast

from sklearn.utils.validation import check_is_fitted

from rslm.data import parts
from rslm.estimators.base import Estimator
from rslm.estimators.choices import as_loss
from rslm.estimators.defaults import needs_width
from rslm.losses import Loss
from rslm.storage.container import Arrays, Facts


class FittedLoss(Estimator):
    """An estimator with a parameter `loss`; a width that it needs and does not have is found by `fit`."""

    _fitted_loss: Loss | None = None  # of the last fit

    @property
    def loss_(self) -> Loss:
        """The loss of the fit: that of "huber" and of "epsilon_insensitive" has a width in the units of the data."""
        check_is_fitted(self)
        try:
            return self._checked_loss()
        except ValueError as e:  # a user's own loss, which is not in the file: the model has none, and shows itself
            raise AttributeError(str(e)) from None

    def _checked_loss(self) -> Loss:
        found = self._fitted_loss
        return found if found is not None and needs_width(self.loss) else as_loss(self.loss)

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        if self._fitted_loss is not None and needs_width(self.loss):
            facts["width"] = astuple(cast(Any, self._fitted_loss))[0]
        return arrays, facts

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        if "width" in facts:  # older versions had widths that did not depend on the data
            model._fitted_loss = as_loss(f"{model.loss}:{parts.number(facts, 'width', least=0.0)!r}")
        return model
