"""Zeros at all entries: what is accepted, and what is refused up front with the reason."""

import numpy as np
import pytest
from scipy import sparse

from rslm import ObservedMatrix, Problem
from rslm.location import Location
from rslm.losses import Huber, Logistic, Square
from rslm.measurements import AllEntries, Entries
from rslm.structures import Box, Hankel, Smooth
from rslm.testing import check_measurement

Y = sparse.random_array((6, 8), density=0.4, random_state=np.random.default_rng(0)).tocsr()


def test_its_map_is_that_of_the_observed_entries():
    data = AllEntries(Y, alpha0=0.1)
    check_measurement(data)
    assert len(data) == Y.nnz
    assert data.background == 0.1
    assert "6 × 8" in repr(data)
    assert "alpha0=0.1" in repr(data)


def test_weights_are_given_or_those_of_the_matrix():
    weights = np.arange(1.0, Y.nnz + 1)
    observed = ObservedMatrix.from_any(Y)
    given, own = AllEntries(Y, weights, alpha0=0.1), AllEntries(observed.weighted(weights), alpha0=0.1)
    np.testing.assert_array_equal(given.weights, own.weights)
    assert AllEntries(Y, alpha0=0.1).weights is None


def test_entries_in_hand_are_shared():
    entries = Entries(Y)
    data = AllEntries.of(entries, 0.5)
    assert data.columns is entries.columns
    assert data.values is entries.values
    assert data.background == 0.5


def test_another_weight_of_zeros_is_another_fingerprint():
    one, same, other = (AllEntries(Y, alpha0=a).fingerprint() for a in (0.1, 0.1, 0.2))
    assert one == same != other


@pytest.mark.parametrize(
    ("alpha0", "message"),
    [
        (0, "MatrixCompletion"),
        (-1.0, "alpha0 must be a positive finite number; got -1.0"),
        (np.nan, "alpha0 must be a positive finite number"),
        (np.inf, "alpha0 must be a positive finite number"),
        ("much", "alpha0 must be a positive finite number; got 'much'"),
        (None, "alpha0 must be a positive finite number; got None"),
        (True, "alpha0 must be a positive finite number; got True"),
    ],
)
def test_a_weight_of_zeros_that_is_none(alpha0, message):
    with pytest.raises(ValueError, match=message):
        AllEntries(Y, alpha0=alpha0)


@pytest.mark.parametrize(
    ("loss", "parts", "message"),
    [
        (Huber(1.0), {}, "need the square loss"),
        (Logistic(), {}, "need the square loss"),
        (Square(), {"structure": Box(0.0, None)}, "cannot be combined with Box"),
        (Square(), {"structure": Hankel(6, 8)}, "cannot be combined with Hankel"),
        (Square(), {"structure": Smooth(Smooth.path(6))}, "cannot be combined with Smooth"),
        (Square(), {"location": Location(True, 1.0, 1.0)}, "cannot be combined with a location"),
    ],
)
def test_other_parts_are_refused_by_the_problem(loss, parts, message):
    with pytest.raises(ValueError, match=message):
        Problem(loss, AllEntries(Y, alpha0=0.1), **parts)
