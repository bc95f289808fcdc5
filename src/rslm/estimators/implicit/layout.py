"""From users × items to a problem with zeros at all entries, and back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rslm.data import Labels
from rslm.estimators.completion.layout import Layout, average_where_empty
from rslm.estimators.implicit.item_space import ItemSpace
from rslm.linalg.low_rank import thin_svd
from rslm.location import Effects
from rslm.measurements import AllEntries, Entries
from rslm.measurements.base import Measurement
from rslm.runtime.types import Floats


@dataclass(frozen=True)
class ImplicitLayout(Layout):
    """Ones with confidences, and zeros of weight `alpha0` at all entries."""

    alpha0: float = 1.0

    @cached_property
    def largest(self) -> float:
        return 1.0  # all values are ones

    def _measurement(self) -> Measurement:
        entries = Entries.of_transposed(self.data) if self.features_first else Entries(self.data)
        return AllEntries.of(entries, self.alpha0)

    def model(self, U: Floats, V: Floats, rounding: float, effects: Effects | None = None) -> dict[str, Any]:
        """Balanced factors: with diag(√p) W diag(√q) = P Σ Qᵀ they are P √Σ and Q √Σ, with weights p and q divided out.

        Users without an item have the average factors of the others. An item that nobody took has factors of 0.
        """
        right = V if self._q is None else V * np.sqrt(self._q)[:, None]
        P, sizes, Q = thin_svd(U, right)
        left, right = P * np.sqrt(sizes), Q * np.sqrt(sizes)
        left = left if self._p is None else left / np.sqrt(self._p)[:, None]
        right = right if self._q is None else right / np.sqrt(self._q)[:, None]
        users, items = (right, left) if self.features_first else (left, right)
        row_counts = self.data.row_counts()
        users = average_where_empty(users, row_counts)
        items[self.data.col_counts() == 0] = 0.0  # up to rounding errors they are
        space = ItemSpace(items, float(sizes.sum()), self.C, self.alpha0, self.weighting, float(row_counts.mean()))
        return {
            "n_features_in_": self.data.shape[1],
            "row_factors_": users,
            "col_factors_": items,
            "_rows": Labels("row", self.data.shape[0], self.data.row_ids),
            "_cols": Labels("column", self.data.shape[1], self.data.col_ids),
            "_space": space,
            "_taken": self.data if self.at_hand else None,
            "_average_user": users[row_counts > 0].mean(axis=0),
        }
