"""Every loss passes the public check and has the values that its formula says; the check finds what is wrong."""

import copy
import math
import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from poisson import Poisson
from rslm.losses import (
    BY_NAME,
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    Quantile,
    Square,
    SquaredHinge,
)
from rslm.measurements import Entries
from rslm.problem import Problem
from rslm.testing import check_loss

KINKED = [Absolute(), EpsilonInsensitive(0.3), Quantile(0.1), Quantile(0.9), Hinge()]
LOSSES = [
    *(kind() for kind in BY_NAME.values()),
    *(EpsilonInsensitive(0), EpsilonInsensitive(0.3), Huber(0.1), Huber(3.0), Quantile(0.1), Quantile(0.9)),
    *(loss.rounded(0.2) for loss in [*KINKED, Huber(), SquaredHinge()]),
    Absolute().rounded(0.1).rounded(0.1),
]
BINARY = [Logistic(), Hinge(), SquaredHinge(), Hinge().rounded(0.2)]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_passes_the_check(loss, seed):
    check_loss(loss, random_state=seed)


def test_passes_the_check_where_it_is_told_to():
    check_loss(Square(), y=np.array([[1.0, -2.0]]), w=np.array([[1.0, 1e3]]))
    check_loss(Hinge(), y=np.array([0, 1, 1]), w=np.array([0.3, 0.3, 7.0]))
    with pytest.raises(AssertionError, match="gradient of"):  # points that are given are not left out, kink or not
        check_loss(Absolute(), y=np.zeros(3), w=np.array([1.0, 2.0, 0.003]))
    with pytest.raises(ValueError, match="two classes"):
        check_loss(Hinge(), y=np.array([0.3]))


# Kinks have gradient and hessian 0, or any slope between those on either side.
BY_HAND = [  # loss, y, w, value, gradient, hessian
    (Square(), 3.0, 1.0, 4.0, -4.0, 2.0),
    (Square(), -1.0, -1.0, 0.0, 0.0, 2.0),
    (Absolute(), 3.0, 1.0, 2.0, -1.0, 0.0),
    (Absolute(), -3.0, 1.0, 4.0, 1.0, 0.0),
    (Absolute(), 1.0, 1.0, 0.0, 0.0, 0.0),
    (EpsilonInsensitive(0.25), 3.0, 1.0, 1.75, -1.0, 0.0),
    (EpsilonInsensitive(0.25), 1.0, 1.125, 0.0, 0.0, 0.0),
    (EpsilonInsensitive(0.25), 1.0, 1.25, 0.0, 0.0, 0.0),
    (EpsilonInsensitive(0.25), 1.0, 1.5, 0.25, 1.0, 0.0),
    (EpsilonInsensitive(0.25).rounded(0.5), 1.0, 1.5, 0.0625, 0.5, 2.0),
    (EpsilonInsensitive(0.25).rounded(0.5), 1.0, 1.125, 0.0, 0.0, 0.0),
    (Huber(2.0), 3.0, 2.0, 0.5, -1.0, 1.0),
    (Huber(2.0), 3.0, -2.0, 8.0, -2.0, 0.0),
    (Huber(2.0), 0.0, 3.0, 4.0, 2.0, 0.0),
    (Quantile(0.25), 3.0, 1.0, 0.5, -0.25, 0.0),
    (Quantile(0.25), 1.0, 3.0, 1.5, 0.75, 0.0),
    (Quantile(0.25).rounded(2.0), 1.0, 1.5, 0.0625, 0.25, 0.5),
    (Logistic(), 1.0, 0.0, math.log(2), -0.5, 0.25),
    (Logistic(), -1.0, math.log(3), math.log(4), 0.75, 0.1875),
    (Logistic(), 1.0, 1000.0, 0.0, 0.0, 0.0),
    (Logistic(), -1.0, 1000.0, 1000.0, 1.0, 0.0),
    (Hinge(), 1.0, -1.0, 2.0, -1.0, 0.0),
    (Hinge(), -1.0, -0.5, 0.5, 1.0, 0.0),
    (Hinge(), -1.0, -2.0, 0.0, 0.0, 0.0),
    (Hinge().rounded(0.5), -1.0, -0.75, 0.0625, 0.5, 2.0),
    (SquaredHinge(), 1.0, -1.0, 4.0, -4.0, 2.0),
    (SquaredHinge(), -1.0, -0.5, 0.25, 1.0, 2.0),
    (SquaredHinge(), -1.0, -2.0, 0.0, 0.0, 0.0),
    (SquaredHinge().rounded(0.5), 1.0, -1.0, 2.0, -2.0, 1.0),
]


@pytest.mark.parametrize(("loss", "y", "w", "value", "gradient", "hessian"), BY_HAND)
def test_by_hand(loss, y, w, value, gradient, hessian):
    # 1e-15 are a few roundings of numbers about 1, as only the logarithms do not come out exactly.
    close = {"rel": 1e-15, "abs": 1e-15}
    for shape in [(), (1,), (2, 3)]:
        ys, ws = np.full(shape, y), np.full(shape, w)
        for name, wanted in (("value", value), ("gradient", gradient), ("hessian", hessian)):
            got = np.asarray(getattr(loss, name)(ys, ws))
            assert got.shape == shape
            assert got == pytest.approx(np.full(shape, wanted), **close), name


CONJUGATES = [  # loss, y, {s: conjugate}
    (Square(), 3.0, {2.0: 7.0, 0.0: 0.0, -100.0: 2200.0}),
    (Absolute(), 3.0, {1.0: 3.0, -1.0: -3.0, 0.5: 1.5, 0.0: 0.0, 1.001: np.inf, -2.0: np.inf}),
    (EpsilonInsensitive(0.25), 3.0, {1.0: 3.25, -1.0: -2.75, 0.0: 0.0, 1.001: np.inf, -1.001: np.inf}),
    (Huber(2.0), 3.0, {1.0: 3.5, -2.0: -4.0, 2.0: 8.0, 2.001: np.inf, -2.001: np.inf}),
    (Quantile(0.25), 3.0, {0.75: 2.25, -0.25: -0.75, 0.0: 0.0, 0.751: np.inf, -0.251: np.inf}),
    (Logistic(), 1.0, {0.0: 0.0, -1.0: 0.0, -0.5: -math.log(2), 0.001: np.inf, -1.001: np.inf}),
    (Logistic(), -1.0, {0.0: 0.0, 1.0: 0.0, 0.5: -math.log(2), -0.001: np.inf, 1.001: np.inf}),
    (Hinge(), 1.0, {0.0: 0.0, -1.0: -1.0, -0.5: -0.5, 0.001: np.inf, -1.001: np.inf}),
    (Hinge(), -1.0, {0.0: 0.0, 1.0: -1.0, 0.5: -0.5, -0.001: np.inf, 1.001: np.inf}),
    (Hinge().rounded(0.5), -1.0, {0.0: 0.0, 1.0: -0.75, -0.001: np.inf, 1.001: np.inf}),
    (SquaredHinge(), 1.0, {0.0: 0.0, -2.0: -1.0, -100.0: 2400.0, 0.001: np.inf}),
    (SquaredHinge(), -1.0, {0.0: 0.0, 2.0: -1.0, 100.0: 2400.0, -0.001: np.inf}),
]


@pytest.mark.parametrize(("loss", "y", "wanted"), CONJUGATES)
def test_conjugate_by_hand(loss, y, wanted):
    got = loss.conjugate(np.full(len(wanted), y), np.array(list(wanted)))
    assert got == pytest.approx(np.array(list(wanted.values())), rel=1e-15, abs=1e-15)  # a few roundings


BOXES = [  # loss, the interval of s for y > 0, ε, δ
    (Absolute(), -1.0, 1.0, 0.0, 0.0),
    (EpsilonInsensitive(0.3), -1.0, 1.0, 0.3, 0.0),
    (EpsilonInsensitive(0.3).rounded(0.2), -1.0, 1.0, 0.3, 0.2),
    (Quantile(0.1), -0.9, 0.1, 0.0, 0.0),
    (Quantile(0.9).rounded(0.2), -0.1, 0.9, 0.0, 0.2),
    (Huber(3.0), -3.0, 3.0, 0.0, 1.0),
    (Huber(0.1).rounded(0.2), -0.1, 0.1, 0.0, 1.2),
    (Hinge(), 0.0, 1.0, 0.0, 0.0),
    (Hinge().rounded(0.2), 0.0, 1.0, 0.0, 0.2),
    (SquaredHinge(), 0.0, np.inf, 0.0, 0.5),
]


@pytest.mark.parametrize(("loss", "lower", "upper", "epsilon", "delta"), BOXES)
def test_box_dual_against_a_grid_of_s(loss, lower, upper, epsilon, delta):
    e = np.linspace(-5.0, 5.0, 81)
    top = min(upper, 20.0)  # ≥ 5/δ for the squared hinge, whose s has no end
    s = np.sort(np.append(np.linspace(lower, top, 20_001), 0.0))
    wanted = (s * e[:, None] - epsilon * np.abs(s) - 0.5 * delta * s**2).max(axis=1)
    # The grid misses the maximiser by half a step at most, and the ends and 0 not at all; then there is rounding.
    missed = 0.5 * delta * ((top - lower) / 40_000) ** 2 + 1e-14
    for y, turn in [(1.0, 1.0), (-1.0, -1.0 if "Hinge" in repr(loss) else 1.0)]:
        over = loss.value(np.full(81, y), y - turn * e) - wanted
        assert over.min() >= -1e-14
        assert over.max() <= missed


@pytest.mark.parametrize("delta", [1.0, 0.1, 1e-3, 1e-9])
@pytest.mark.parametrize(
    ("loss", "steepest"), [*zip(KINKED, [1.0, 1.0, 0.9, 0.9, 1.0], strict=True), (Huber(3.0), 3.0)]
)
def test_smoothing_changes_the_loss_by_half_delta_s_squared(loss, steepest, delta):
    y = np.repeat([-1.0, 1.0], 401)
    w = np.tile(np.linspace(-8.0, 8.0, 401), 2)
    gap = loss.value(y, w) - loss.rounded(delta).value(y, w)
    assert gap.min() >= -1e-14  # rounding of numbers up to 9·3
    assert gap.max() == pytest.approx(0.5 * delta * steepest**2, abs=1e-14)


def test_relatives():
    rng = np.random.default_rng(0)
    y, w = rng.standard_normal((2, 100))
    absolute = np.abs(y - w)
    assert np.abs(Huber(1e-6).value(y, w) / 1e-6 - absolute).max() <= 0.5e-6 + 1e-12  # ½δ, and rounding over δ
    assert np.array_equal(Quantile(0.5).value(y, w), 0.5 * absolute)  # halving is exact
    assert np.array_equal(Quantile().value(y, w), 0.5 * absolute)
    assert np.array_equal(EpsilonInsensitive(0.0).value(y, w), Absolute().value(y, w))
    assert np.array_equal(Huber(100.0).value(y, w), 0.5 * (y - w) ** 2)
    assert np.allclose(Logistic().probability(w), np.exp(w) / (1.0 + np.exp(w)), rtol=1e-15, atol=0)  # roundings


NO_NUMBER = [math.nan, math.inf, -math.inf, "a", True, None]


@pytest.mark.parametrize(
    ("kind", "name", "bad"),
    [
        *((EpsilonInsensitive, "epsilon", bad) for bad in [-1.0, -1e-9, *NO_NUMBER]),
        *((Quantile, "tau", bad) for bad in [0.0, 1.0, -1.0, 2, *NO_NUMBER]),
        *((Huber, "delta", bad) for bad in [0.0, -1, *NO_NUMBER]),
    ],
)
def test_a_bad_parameter_is_refused(kind, name, bad):
    with pytest.raises(ValueError, match=rf"^{name} of {kind.__name__} must be a finite number .*; got ") as error:
        kind(bad)
    assert str(error.value).endswith(f"got {bad!r}")


@pytest.mark.parametrize("bad", [-1.0, *NO_NUMBER])
def test_a_bad_smoothing_is_refused(bad):
    with pytest.raises(ValueError, match=rf"delta .* got {bad!r}"):
        Absolute().rounded(bad)


def test_a_parameter_becomes_a_plain_float():
    for loss in (Huber(2), Huber(np.float32(2)), Huber(np.int64(2))):
        assert type(loss.delta) is float
        assert loss == Huber(2.0)


@pytest.mark.parametrize(
    ("y", "named", "remedy"),
    [
        ([1.0, 0.3, 7.0], r"the first is 0\.3\b", "threshold"),
        ([-1.0, 2.0], r"the first is 2\b", "threshold"),
        ([[1.0, 1.0], [np.nan, 1.0]], "the first is nan", "threshold"),
        ([np.inf], "the first is inf", "threshold"),
        ([-1.0, 0.0, 1.0], "−1, 0 and 1", "remove"),
        ([-1.0, 0.0], "−1, 0 and 1", "remove"),
    ],
)
@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_targets_that_are_no_classes_are_refused(loss, y, named, remedy):
    with pytest.raises(ValueError, match=rf"(?s){named}.*{remedy}") as error:
        loss.targets(np.array(y))
    name = "Hinge" if loss == Hinge().rounded(0.2) else type(loss).__name__
    assert str(error.value).startswith(f"{name} needs two classes")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("y", "wanted"),
    [
        ([0, 1, 1], [-1, 1, 1]),
        ([-1, 1, -1], [-1, 1, -1]),
        ([0, 0], [-1, -1]),
        ([1, 1], [1, 1]),
        ([-1], [-1]),
        ([[0, 1], [1, 0]], [[-1, 1], [1, -1]]),
        ([], []),
    ],
)
@pytest.mark.parametrize("loss", BINARY, ids=repr)
def test_two_classes_become_minus_one_and_one(loss, y, wanted, dtype):
    given = np.array(y, dtype=dtype)
    got = loss.targets(given)
    assert got.tolist() == wanted
    assert got.dtype == dtype
    assert given.tolist() == y


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if "Hinge" not in repr(loss) and not loss.binary], ids=repr)
def test_real_targets_stay_as_they_are(loss):
    y = np.array([0.3, -2.0, 0.0], dtype=np.float32)
    assert loss.targets(y) is y
    assert loss.guess(y, 1.0).dtype == np.float32


@pytest.mark.parametrize(
    "loss",
    [
        *BINARY[:3],
        BINARY[3],
    ],
    ids=repr,
)
def test_binary_trait(loss):
    assert loss.binary


@pytest.mark.parametrize(
    ("loss", "text"),
    [
        (Square(), "Square()"),
        (Absolute(), "Absolute()"),
        (EpsilonInsensitive(), "EpsilonInsensitive(epsilon=0.1)"),
        (Huber(), "Huber(delta=1.0)"),
        (Quantile(), "Quantile(tau=0.5)"),
        (Logistic(), "Logistic()"),
        (Hinge(), "Hinge()"),
        (SquaredHinge(), "SquaredHinge()"),
        (Huber(2).rounded(0.2), "Rounded(loss=Huber(delta=2.0), delta=0.2)"),
    ],
)
def test_repr_and_names(loss, text):
    assert repr(loss) == text
    assert loss.quadratic == isinstance(loss, Square)
    assert isinstance(loss, (*BY_NAME.values(), type(Absolute().rounded(1.0))))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_value_object(loss):
    assert len({loss, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))}) == 1
    for name in ("delta", "epsilon", "tau", "binary", "new"):
        with pytest.raises((FrozenInstanceError, AttributeError)):
            setattr(loss, name, 1.0)
    assert loss != Huber(77.0)


def test_parameters_decide_equality():
    assert Huber(2.0) != Huber(2.5)
    assert Quantile(0.1) != Quantile(0.9)
    assert Hinge() != Absolute()
    assert Absolute().rounded(0.1) == Absolute().rounded(0.1) != Absolute().rounded(0.2)


class Scaled(Square):
    """The square loss with one part of it multiplied by a factor."""

    def __init__(self, part, factor):
        self.part, self.factor = part, factor

    def __getattribute__(self, name):
        f = super().__getattribute__(name)
        if name in ("value", "gradient", "hessian", "conjugate") and name == self.part:
            return lambda y, w: self.factor * f(y, w)
        return f


@pytest.mark.parametrize("factor", [1.00001, 0.99999, -1.0, np.nan])
@pytest.mark.parametrize("part", ["value", "gradient", "hessian", "conjugate"])
def test_a_wrong_part_is_found(part, factor):
    with pytest.raises(AssertionError, match=r"gradient|hessian|conjugate|finite"):
        check_loss(Scaled(part, factor))


class Concave(Square):
    def value(self, y, w):
        return -((y - w) ** 2)

    def gradient(self, y, w):
        return -2.0 * (w - y)

    def hessian(self, y, w):
        return np.full(np.shape(w), -2.0)


class ConcaveKink(Square):
    """Its derivatives are right, and its hessian is positive wherever it exists."""

    def value(self, y, w):
        return super().value(y, w) - 0.1 * np.abs(w - 0.3)

    def gradient(self, y, w):
        return super().gradient(y, w) - 0.1 * np.sign(w - 0.3)


class Shapeless(Square):
    def hessian(self, y, w):
        return 2.0


def changed(base, **functions):
    """The loss with functions replaced; each gets the right function before its arguments."""

    def replaced(name, f):
        return lambda self, *arguments: f(getattr(base, name), *arguments)

    members = {name: replaced(name, f) for name, f in functions.items()}
    kind = type(f"Changed{type(base).__name__}", (type(base),), members)
    return kind(**vars(base))


def in_place(f, y, w):
    w -= y
    return w**2


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Concave(), "not convex"),
        (ConcaveKink(), "above the middle of a chord, so it is not convex"),
        (Shapeless(), r"hessian of .* has shape \(\)"),
        # A conjugate that is right where it is touched, and too small in between.
        (changed(Square(), conjugate=lambda f, y, s: np.where(np.abs(s) < 0.5, -1.0, f(y, s))), "Fenchel"),
        (changed(Square(), conjugate=lambda f, y, s: f(y, s) - (s == 0)), "value is below −conjugate"),
        (changed(Logistic(), conjugate=lambda f, y, s: f(y, s) + np.where(s == 0, np.nan, 0)), "not a number"),
        # Domains of a conjugate that are too large: by much, by little, and beyond all slopes near 0.
        (changed(Absolute(), conjugate=lambda f, y, s: s * y), "inf outside its domain"),
        (changed(Absolute(), conjugate=lambda f, y, s: f(y, s / 1.001) * 1.001), "inf outside its domain"),
        (changed(Hinge(), conjugate=lambda f, y, s: s * y), "inf outside its domain"),
        (changed(Huber(50.0), conjugate=lambda f, y, s: s * y + 0.5 * s**2), "inf outside its domain"),
        # Too small: inf where the supremum, at the kink, is finite.
        (changed(Absolute(), conjugate=lambda f, y, s: np.where(np.abs(s) < 0.9, np.inf, f(y, s))), "Fenchel|chord"),
        (changed(Absolute(), conjugate=lambda f, y, s: f(y, s) + 1e-3 * (1 - s**2)), "above the chord"),
        (changed(Absolute(), gradient=lambda f, y, w: -f(y, w)), "gradient of"),
        (changed(Absolute(), gradient=lambda f, y, w: np.where(y == w, 1.01, f(y, w))), "below the tangent given by"),
        (changed(Absolute(), gradient=lambda f, y, w: np.where(y == w, np.nan, f(y, w))), "gradient of .* finite"),
        (changed(Absolute(), hessian=lambda f, y, w: np.where(y == w, -1.0, f(y, w))), "hessian of .* negative"),
        (changed(Huber(), hessian=lambda f, y, w: 1.0 + 0.0 * w), "hessian of"),
        (changed(Square(), value=in_place), "value of .* changes its input"),
        (changed(Square(), value=lambda f, y, w: np.where(w > 1e5, np.nan, f(y, w))), "not a number at w = 1e"),
        (changed(Square(), value=lambda f, y, w: f(y, w) + (y.ndim == 2)), "value of .* does not work entry by entry"),
        (changed(Square(), conjugate=lambda f, y, s: f(y, s) + (len(y) == 1)), "conjugate of .* not work entry by"),
        (
            changed(Square(), value=lambda f, y, w: f(y, w) + 0.0 * y.max()),
            r"value of .* fails for arrays of shape \(0,",
        ),
        (changed(Square(), hessian=lambda f, y, w: f(y, w).ravel()), r"hessian of .* has shape \(400,\)"),
        (changed(Square(), targets=lambda f, y: 2.0 * y), "targets of .* changes its own result"),
        (changed(Hinge(), targets=lambda f, y: 0.5 * y), "not all −1 or 1"),
        (changed(Square(), targets=lambda f, y: y[:-1]), "targets of .* turns shape"),
        (changed(Square(), targets=lambda f, y: np.negative(y, out=y)), "targets of .* changes its input"),
    ],
)
def test_a_wrong_loss_is_found(loss, message):
    with pytest.raises(AssertionError, match=message):
        check_loss(loss)


class Counts(Poisson):
    """With targets of its own."""

    most = np.inf

    def targets(self, y):
        if (y < 0).any() or (y != np.round(y)).any() or (y > self.most).any():
            raise ValueError("no counts")
        return y


def test_a_loss_of_ones_own():
    check_loss(Counts())
    picky = Counts()
    picky.most = -1.0
    with pytest.raises(AssertionError, match=r"rejects all that check_loss tried; give y.*no counts"):
        check_loss(picky)


# ---- losses of a user's own, as `Problem` tries them ------------------------------------------------------------


class Thrice(Loss):
    """3 (y − w)², right."""

    def value(self, y, w):
        return 3.0 * (w - y) ** 2

    def gradient(self, y, w):
        return 6.0 * (w - y)

    def hessian(self, y, w):
        return np.full(w.shape, 6.0)

    def conjugate(self, y, s):
        return s * y + s * s / 12.0


class WrongHessian(Thrice):
    def hessian(self, y, w):
        return np.full(w.shape, 12.0)


class WrongGradient(Thrice):
    def gradient(self, y, w):
        return np.where(w == 0, 6.0 * (w - y), 5.0 * (w - y))

    def conjugate(self, y, s):
        return np.where(np.isin(s, -6.0 * y), -3.0 * y * y, s * y)


class RightAtZeroOnly(Thrice):
    def conjugate(self, y, s):
        return np.full(s.shape, -3.0) * y * y


class Quadratic(Thrice):
    quadratic = True


class NoCurvature(Thrice):
    def value(self, y, w):
        return np.abs(w - y)

    def gradient(self, y, w):
        return np.sign(w - y)

    def hessian(self, y, w):
        return np.zeros(w.shape)

    def conjugate(self, y, s):
        return np.where(np.abs(s) <= 1.0, s * y, np.inf)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (WrongHessian(), "hessian of .* is wrong: it is 12 where differences give 6"),
        (WrongGradient(), "conjugate of|gradient of .* is wrong"),
        (RightAtZeroOnly(), "conjugate of .* value and gradient imply"),
        (Quadratic(), r"has quadratic = True, which means that its value is \(y − w\)²"),
        (NoCurvature(), "hessian of .* is 0 everywhere.*BoxDual"),
    ],
)
def test_mistakes_are_named_before_the_fit(loss, message):
    data = Entries(np.random.default_rng(0).standard_normal((4, 5)))
    Problem(Thrice(), data)
    with pytest.raises(ValueError, match=message):
        Problem(loss, data)


class OwnHuber(Loss):
    """Huber's loss, written without `interval`."""

    def value(self, y, w):
        e = np.abs(y - w)
        return np.where(e <= 1.0, 0.5 * e * e, e - 0.5)

    def gradient(self, y, w):
        return np.clip(w - y, -1.0, 1.0)

    def hessian(self, y, w):
        return (np.abs(w - y) < 1.0).astype(float)

    def conjugate(self, y, s):
        return np.where(np.abs(s) <= 1.0, s * (y + 0.5 * s), np.inf)


def test_a_loss_that_bends_only_near_its_target_is_accepted_far_from_zero():
    Problem(OwnHuber(), Entries(np.full((6, 5), 5.0)), C=1.0)
