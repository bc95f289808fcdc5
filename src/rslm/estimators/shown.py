"""A model in a notebook: below scikit-learn's diagram what was found, and `plot`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from rslm.display.fragments import block, captioned, compared, facts, number, side_by_side, verdict
from rslm.display.svg import stems
from rslm.runtime.types import Floats

MOST_NUMBERS = 100_000_000  # of the factors, for which there is a picture within a second
NEGLIGIBLE = 1e-12  # squares of singular values, relative to the largest one, that rounding errors may cause
THE_MODEL = "model"  # the key of the model's own error in `held_out_`


class Shown:
    """Mixin: what a fitted estimator shows of itself. Classes say which of their attributes that are."""

    #: Attributes that were found or given, with their names for people, in the order in which they are shown.
    _found: ClassVar[dict[str, str]] = {"rank_": "rank", "C_": "C"}
    #: What `held_out_` compares, with names for people.
    _compared: ClassVar[dict[str, str]] = {"mean": "the mean", "effects": "effects alone", THE_MODEL: "this model"}
    #: The pictures of `plot`: those of the overview, then others.
    _overview: ClassVar[tuple[str, ...]] = ("held_out", "path", "spectrum", "convergence")
    _more_pictures: ClassVar[tuple[str, ...]] = ()

    def plot(self, kind: str | None = None, **options: Any) -> Any:
        """Draw the fitted model.

        Parameters
        ----------
        kind : str, optional
            One picture: ``model.plot("spectrum")`` is `rslm.report.plot_spectrum`. If None, an overview of what there
            is to show.
        **options
            Of that picture, or of the first one of the overview: ``steps=24`` for the forecast of a series.

        Returns
        -------
        matplotlib.figure.Figure
            It needs Matplotlib: ``pip install "rslm[plot]"``.
        """
        check_is_fitted(self)
        from rslm.report.figures import drawn  # reports know estimators, and Matplotlib is an extra

        return drawn(self, kind, options)

    # ---- what notebooks ask for --------------------------------------------------------------------------------------

    @property
    def _repr_html_(self) -> Callable[[], str]:
        # An AttributeError of scikit-learn means that it is set to display text.
        diagram: Callable[[], str] = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + self._found_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        return {kind: text + self._found_html() if kind == "text/html" else text for kind, text in shown.items()}

    def _found_html(self) -> str:
        """What was found, as HTML; nothing before `fit`."""
        try:
            check_is_fitted(self)
        except NotFittedError:
            return ""
        words = self._verdict()
        parts = side_by_side(facts(self._settings()), self._errors_html(), captioned(*self._small_picture()))
        return block("What was found", verdict(words) if words else "", parts)

    def _errors_html(self) -> str:
        errors = self._held_out_errors()
        if not errors:
            return ""
        return compared(errors, ["held-out data predicted by", self._measure()])

    # ---- what classes may say otherwise ------------------------------------------------------------------------------

    def _settings(self) -> dict[str, str]:
        """What was found or given, in words."""
        found = {name: getattr(self, attribute, None) for attribute, name in self._found.items()}
        return {name: _in_words(value) for name, value in found.items() if value is not None}

    def _held_out_errors(self) -> dict[str, float]:
        """The errors of held-out data by what predicts them, the model last; empty if nothing was held out."""
        errors = getattr(self, "held_out_", None) or {}
        return {name: float(errors[key]) for key, name in self._compared.items() if key in errors}

    def _measure(self) -> str:
        """What these errors are."""
        if getattr(self, "loss", "square") != "square":
            return "mean loss"
        return "RMSE in standard deviations" if getattr(self, "_in_deviations", False) else "RMSE"

    def _verdict(self) -> str:
        """How good the answer is, in a sentence."""
        certificate = getattr(self, "certificate_", None)
        return "" if certificate is None else str(certificate.verdict)

    def _small_picture(self) -> tuple[str, str]:
        """A picture as SVG, and what it shows."""
        return stems(self._spectrum(), "singular values"), "singular values"

    def _spectrum(self) -> Floats:
        """The singular values of what was learned, without effects, to the accuracy of a picture."""
        left, right = getattr(self, "row_factors_", None), getattr(self, "col_factors_", None)
        if left is None or right is None or left.size + right.size > MOST_NUMBERS:
            return np.zeros(0)
        with np.errstate(over="ignore", invalid="ignore"):  # factors of huge numbers have no picture
            product = (left.T @ left) @ (right.T @ right)  # much quicker than two QR factorisations
        if not np.isfinite(product).all():
            return np.zeros(0)
        squares = np.sort(np.linalg.eigvals(product).real)[::-1]
        return np.asarray(np.sqrt(squares[squares > NEGLIGIBLE * squares.max(initial=0.0)]))


def _in_words(value: Any) -> str:
    """A setting for people: a number, a word, or several of them."""
    if isinstance(value, tuple):
        return ", ".join(_in_words(part) for part in value)
    if isinstance(value, np.number):
        value = value.item()
    return number(value) if isinstance(value, int | float) else "none" if value is None else str(value)
