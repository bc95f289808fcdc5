"""Every loss passes the public check, and the check finds what is wrong with a wrong one."""

import numpy as np
import pytest

from rslm.losses import Square
from rslm.testing import check_loss


def test_square():
    check_loss(Square())
    check_loss(Square(), y=np.array([[1.0, -2.0]]), w=np.array([[1.0, 1e3]]))


def test_square_by_hand():
    loss, y, w = Square(), np.array([3.0, -1.0]), np.array([1.0, -1.0])
    assert loss.value(y, w).tolist() == [4, 0]
    assert loss.gradient(y, w).tolist() == [-4, 0]
    assert loss.hessian(y, w).tolist() == [2, 2]
    assert loss.conjugate(y, np.array([2.0, 2.0])).tolist() == [7, -1]
    assert repr(loss) == "Square()"
    assert loss.quadratic


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


class LooseConjugate(Square):
    """Right where it is touched, too small in between."""

    def conjugate(self, y, s):
        return np.where(np.abs(s) < 0.5, -1.0, super().conjugate(y, s))


class Shapeless(Square):
    def hessian(self, y, w):
        return 2.0


@pytest.mark.parametrize(
    ("loss", "message"),
    [(Concave(), "not convex"), (LooseConjugate(), "Fenchel"), (Shapeless(), r"hessian of .* has shape \(\)")],
)
def test_a_wrong_loss_is_found(loss, message):
    with pytest.raises(AssertionError, match=message):
        check_loss(loss)
