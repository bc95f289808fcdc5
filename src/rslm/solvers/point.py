"""A point of the manifold with all quantities that the solvers need, each computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from rslm.evaluation.objective import Evaluation
from rslm.runtime.types import Floats
from rslm.solvers.manifold import ProductTangent, Tangent, norm

Evaluate = Callable[[Floats], "Point"]


class Point:
    """A point x, which is U or U and effects, with g, its Riemannian gradient, Hessian products and preconditioner."""

    def __init__(self, evaluation: Evaluation) -> None:
        self.evaluation = evaluation
        self.x = evaluation.point
        self.tangent: Tangent | ProductTangent = (
            Tangent(self.x) if evaluation.location is None else ProductTangent(self.x, evaluation.U)
        )
        self.value = evaluation.value
        self.gradient = self.tangent.gradient(evaluation.gradient)
        self.gradient_norm = norm(self.gradient)

    @cached_property
    def relative_gradient(self) -> float:
        """‖grad g‖ / ‖∇g‖: independent of scale and of the start, so that a good warm start ends at once."""
        euclidean = self.evaluation.gradient_size
        return self.gradient_norm / euclidean if euclidean > 0 else 0.0

    def hessian(self, xi: Floats) -> Floats:
        return self.tangent.hessian(self.evaluation.gradient, self.evaluation.hessian_product(xi), xi)

    def precondition(self, eta: Floats) -> Floats:
        """η ↦ Π B⁻¹ η for a tangent η; symmetric and positive definite on the tangent space."""
        return self.tangent.project(self.evaluation.preconditioner(eta))
