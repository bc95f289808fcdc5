"""Splits keep every entry once, in one of the two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rslm.data import ObservedMatrix, as_generator, holdout

RNG = np.random.default_rng(0)
DENSE = np.where(RNG.random((40, 30)) < 0.3, RNG.standard_normal((40, 30)), np.nan)
DATA = ObservedMatrix.from_any(DENSE)


@pytest.mark.parametrize("fraction", [0.001, 0.1, 0.5, 0.9])
def test_parts_make_the_whole(fraction: float) -> None:
    fraction = max(fraction, 1 / len(DATA))
    train, held = holdout(DATA, fraction, 0)
    assert len(held) == round(fraction * len(DATA))
    a, b = train.to_dense(), held.to_dense()
    assert not np.any(~np.isnan(a) & ~np.isnan(b))
    np.testing.assert_array_equal(np.where(np.isnan(a), b, a), DENSE)
    for part in train, held:
        assert part.indptr.dtype == np.int64
        assert part.index.dtype == np.int32
        assert part.shape == DATA.shape


def test_ids_and_precision_are_kept() -> None:
    data = ObservedMatrix.from_ratings(list("abcd"), list("wxyz"), np.arange(4, dtype=np.float32))
    for part in holdout(data, 0.5, 0):
        assert part.row_ids is data.row_ids
        assert part.col_ids is data.col_ids
        assert part.values.dtype == np.float32


def test_seeds() -> None:
    def held(seed: Any) -> list[float]:
        return holdout(DATA, 0.2, seed)[1].values.tolist()

    assert held(3) == held(3) == held(np.random.default_rng(3))
    assert held(3) != held(4)
    assert held(np.random.RandomState(3)) == held(np.random.RandomState(3))
    assert held(None) != held(None)
    generator = np.random.default_rng(3)
    assert as_generator(generator) is generator
    assert held(generator) != held(generator)


def test_every_entry_is_equally_likely() -> None:
    data = ObservedMatrix.from_any(np.ones((2, 5)))
    often = sum(np.nan_to_num(holdout(data, 0.3, seed)[1].to_dense()) for seed in range(2000))
    assert np.all(np.abs(often / 2000 - 0.3) < 0.05)


@pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
def test_fraction_outside(fraction: float) -> None:
    with pytest.raises(ValueError, match=f"fraction is {fraction}.*between 0 and 1"):
        holdout(DATA, fraction, 0)


@pytest.mark.parametrize(("fraction", "part"), [(0.1, "held-out"), (0.9, "training")])
def test_empty_part(fraction: float, part: str) -> None:
    data = ObservedMatrix.from_any(np.ones((1, 3)))
    with pytest.raises(ValueError, match=f"fraction {fraction} of 3 observed entries leaves the {part} part empty"):
        holdout(data, fraction, 0)
