"""Matrix completion with C and rank chosen by the error on held-out entries."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.callback import with_callbacks

from rslm.data import ObservedMatrix, as_generator, holdout, parts
from rslm.estimators.callbacks import Reporter
from rslm.estimators.completion.bounds import as_box
from rslm.estimators.completion.layout import Layout
from rslm.estimators.completion.plain_completion import PlainCompletion
from rslm.estimators.defaults import usual_C
from rslm.estimators.persistence import storable
from rslm.estimators.scaling import extreme_scale
from rslm.kernels import predict_pairs
from rslm.losses import Loss
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.log import logger
from rslm.runtime.magnitudes import as_float
from rslm.runtime.threads import thread_count
from rslm.solvers import Outcome, Result, solve
from rslm.solvers.stopping import check_max_time, check_tol, time_left
from rslm.storage.container import Arrays, Facts

FACTORS = (0.1, 0.25, 0.6, 1.5)  # first values of C, relative to the usual one
STEP = 2.5  # ratio of the values of C that are added while the error still falls at the largest one
MORE = 5  # maximum number of these
ROUGH = 3e-2  # relative gradient that is enough to compare two settings
SEARCHING = 0.5  # fraction of max_time, if that is given


@dataclass(frozen=True)
class Setting:
    """A setting that was tried, its error, and the result of its fit."""

    error: float
    rank: int
    C: float
    result: Result


@storable
class MatrixCompletionCV(PlainCompletion):
    """`MatrixCompletion` with C and rank chosen by the error on a held-out part of the entries.

    For every rank, C grows along a path, and each fit warm-starts from the one before. The path ends when the error
    grows; that of the next rank begins one step below the best C. The best setting is fitted to all entries.

    Parameters
    ----------
    ranks : sequence of int, default=(5, 10, 20)
        Ranks larger than the smaller side of X are replaced by that side.
    Cs : sequence of float, optional
        If None, four numbers around 0.3 √(n_samples · n_features), and larger ones while the error falls.
    held_out : float, default=0.1
        Fraction of the entries on which settings are compared.
    loss, bounds, weighting, solver, max_iter, tol, max_time, random_state, n_threads, verbose
        As in `MatrixCompletion`; `weighting` is 0.5 here. `max_time` is for search and fit; the search gets half of it.

    Attributes
    ----------
    best_rank_, best_C_ : int and float
    cv_results_ : dict of arrays
        rank, C, error and seconds of every setting that was tried. The error is the root mean square error for the
        square loss, the mean loss for others.
    row_factors_, col_factors_, certificate_, history_, outcome_, converged_, n_iter_, rank_, residuals_
        As in `MatrixCompletion`.

    Examples
    --------
    >>> from rslm import MatrixCompletionCV
    >>> from rslm.datasets import make_low_rank
    >>> X = make_low_rank(60, 40, 2, 1200, random_state=0)[0]
    >>> MatrixCompletionCV(ranks=(1, 2, 4), random_state=0).fit(X).best_rank_
    2
    """

    def __init__(
        self,
        ranks: Sequence[int] = (5, 10, 20),
        Cs: Sequence[float] | None = None,
        *,
        held_out: float = 0.1,
        loss: str | Loss = "square",
        bounds: Any = None,
        weighting: float = 0.5,
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-6,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.Cs = Cs
        self.held_out = held_out
        self.loss = loss
        self.bounds = bounds
        self.weighting = weighting
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(
        self,
        X: Any,
        y: object = None,
        sample_weight: Any = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Choose C and rank on some of the entries, then learn from all.

        Parameters
        ----------
        X : as in `MatrixCompletion`
        y : ignored
        sample_weight : numbers ≥ 0, optional
            As in `MatrixCompletion.fit`; errors on held-out entries are weighted, too.
        checkpoint : None
            Any other value is an error: a checkpoint is of one fit, a search makes many.
        """
        if checkpoint is not None:
            raise ValueError(
                f"checkpoint={os.fspath(checkpoint)!r}: a search makes many fits, and a checkpoint is of one; search "
                "without it, then fit MatrixCompletion(rank=best_rank_, C=best_C_) with a checkpoint"
            )
        data = self._observed(X, fitting=True, sample_weight=sample_weight)
        loss = self._checked_loss()
        template = Layout(data, loss, 1.0, self._checked_weighting(), as_box(self.bounds, data.shape, data.col_ids))
        self._warn_of_beyond(template)
        reporter = Reporter(self, X, several=True)
        check_max_time(self.max_time)
        check_tol(self.tol)
        began = time.perf_counter()
        with self._solving() as interrupt:
            best = self._search(template, reporter, interrupt)
            self.best_rank_, self.best_C_ = best.rank, best.C
            layout = replace(template, C=best.C)
            if interrupt.pressed:  # no time for another fit: that of the training entries is kept
                self._keep_model(layout, replace(best.result, outcome=Outcome.INTERRUPTED))
                reporter.done()
            else:
                left = time_left(self.max_time, began)
                self._fit(X, layout, best.rank, best.result.U, left, reporter=reporter)
        return self

    def _search(self, template: Layout, reporter: Reporter, interrupt: Interrupt) -> Setting:
        """The best of all settings, or of those that there was time for."""
        limit = None if self.max_time is None else SEARCHING * self.max_time
        since = time.perf_counter()
        data, loss = template.data, template.loss
        ranks, Cs = self._grid(data, loss)
        rng = as_generator(self.random_state)
        train, test = holdout(data, as_float(self.held_out), rng) if len(data) > 1 else (data, data)
        options = self._solver_options() | {"tol": max(self.tol, ROUGH), "random_state": rng, "certificate": False}
        tried: list[tuple[float, ...]] = []
        best: Setting | None = None
        first, stopped = 0, False
        for rank in ranks:
            start, least = None, np.inf
            for k, C in enumerate(islice(Cs, first, None), first):
                began = time.perf_counter()
                layout = replace(template, data=train, C=C)
                result = solve(
                    layout.problem(),
                    rank,
                    start=start,
                    max_time=time_left(limit, since),
                    callback=reporter.callback(layout.at, layout.scale),
                    **options,
                )
                start = result.U
                model = layout.model(result.U, result.V, result.certificate.relaxed("loss"))
                error = self._error(loss, model, test)
                tried.append((rank, C, error, time.perf_counter() - began))
                if self.verbose:
                    logger.info("rank %d, C %.4g: error %.5g, %.2f s", *tried[-1])
                if best is None or error < best.error:
                    best = Setting(error, rank, C, result)
                interrupt.pending |= result.outcome is Outcome.INTERRUPTED  # a callback may have stopped it
                stopped = interrupt.pending or (limit is not None and time.perf_counter() > since + limit)
                if stopped or error > least:
                    break
                least, first = error, max(k - 1, 0)  # the next rank begins one step below the best C
                if self.Cs is None and k == len(Cs) - 1 and len(Cs) < len(FACTORS) + MORE:
                    Cs.append(STEP * C)  # the best C is the largest one so far
            if stopped:
                break
        assert best is not None
        names = ("rank", "C", "error", "seconds")
        self.cv_results_: dict[str, NDArray[Any]] = dict(zip(names, np.array(tried).T, strict=True))
        return best

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        arrays |= {f"cv_{k}": v for k, v in self.cv_results_.items()}
        return arrays, facts | {"best": [int(self.best_rank_), float(self.best_C_)]}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        model.best_rank_, model.best_C_ = parts.whole(facts["best"], 0, least=1), parts.number(facts["best"], 1)
        model.cv_results_ = {k.removeprefix("cv_"): v for k, v in arrays.items() if k.startswith("cv_")}
        if any(v.ndim != 1 or v.dtype.kind not in "fiub" for v in model.cv_results_.values()):
            raise ValueError("cv_results")
        return model

    def _error(self, loss: Loss, model: dict[str, Any], test: ObservedMatrix) -> float:
        rows, cols = test.rows_of_entries(), test.index
        threads = thread_count(self.n_threads)
        w = predict_pairs(rows, cols, model["row_factors_"], model["col_factors_"], threads)
        y = loss.targets(test.values).astype(np.float64)
        if not loss.quadratic:
            return float(np.average(loss.value(y, w), weights=test.weights))
        scale = extreme_scale(np.append(y, w))
        return scale * float(np.sqrt(np.average(loss.value(y / scale, w / scale), weights=test.weights)))

    def _grid(self, data: ObservedMatrix, loss: Loss) -> tuple[list[int], list[float]]:
        given = list(np.atleast_1d(self.ranks))
        if not given or any(isinstance(r, bool | np.bool_) or not as_float(r) >= 1 or as_float(r) % 1 for r in given):
            raise ValueError(f"ranks must be whole numbers ≥ 1; got {self.ranks!r}")
        usual = usual_C(data.shape, data.values, loss)
        Cs = [f * usual for f in FACTORS] if self.Cs is None else [as_float(C) for C in np.atleast_1d(self.Cs)]
        if not Cs or not all(0 < C < np.inf for C in Cs):
            raise ValueError(f"Cs must be positive finite numbers; got {self.Cs!r}")
        return sorted({min(int(r), *data.shape) for r in given}), sorted(set(Cs))
