"""Medians with weights and of groups, compared with NumPy's."""

import numpy as np
import pytest

from rslm.estimators.medians import median, medians_of_groups


@pytest.mark.parametrize("n", [1, 2, 5, 8, 101])
def test_a_weight_is_a_number_of_values(n):
    rng = np.random.default_rng(n)
    values, weights = rng.standard_normal(n), rng.integers(0, 4, n).astype(float)
    weights[0] += 1.0
    assert median(values, weights) == pytest.approx(np.median(np.repeat(values, weights.astype(int))), rel=1e-15)
    assert median(values) == np.median(values)
    assert median(values, np.ones(n)) == pytest.approx(np.median(values), rel=1e-15)


def test_groups():
    rng = np.random.default_rng(0)
    values, groups = rng.standard_normal(200), rng.choice([0, 1, 3, 4], 200)
    groups[groups == 4] = np.where(
        np.arange((groups == 4).sum()) == 0, 4, 3
    )  # a group with one value, and one with none
    found = medians_of_groups(values, groups, 6)
    for g in range(6):
        assert found[g] == (pytest.approx(np.median(values[groups == g]), rel=1e-15) if (groups == g).any() else 0.0)
