"""Effects of a treatment in a panel, by matrix completion with fixed effects."""

from __future__ import annotations

import time as clock
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import Labels
from rslm.data.labels import Ids
from rslm.data.splits import as_generator
from rslm.display.fragments import number
from rslm.display.svg import intervals
from rslm.estimators.automatic.growing import grown
from rslm.estimators.base import Estimator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import is_auto, is_whole
from rslm.estimators.panel import panel_file
from rslm.estimators.panel.certified import fitted_of, problem_of, quick_fit, start_of
from rslm.estimators.panel.counterfactual import ByFactors, ByTraceNorm, Counterfactual
from rslm.estimators.panel.event_study import Errors, Studied, after, before, joined, p_value
from rslm.estimators.panel.given import panel_of
from rslm.estimators.panel.panel import Panel
from rslm.estimators.panel.refit import most_rank
from rslm.estimators.panel.resampling import METHODS
from rslm.estimators.panel.search import FoundC, search_C
from rslm.estimators.panel.stack import Fitted
from rslm.estimators.persistence import Form, storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.warn import warn_caller
from rslm.kernels import Stopped
from rslm.location import Effects
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, Result
from rslm.solvers.stopping import Progress, check_max_time, check_tol, time_left
from rslm.storage.container import Arrays, Facts

GROWTH = 4  # factors that are added where the gap says that some are missing
ROUNDS = 10
ROUNDING = 1e-24  # of the objective, relative to that of zeros: what rounding errors leave
EQUIVALENCE = 0.9  # level of the interval whose farther end bounds a trend before treatment


@storable
class PanelCompletion(Estimator):
    """Estimate the effects of a treatment: complete the panel of outcomes as if there had been none.

    Learns unit effects b, period effects c and a low-rank matrix W from the outcomes without treatment,

        minimise  C Σ (y_it − W_it − b_i − c_t − x_itᵀβ)²  +  ½ ‖W‖_*²

    with b, c and β not penalised. It is matrix completion with nuclear norm minimisation (MC-NNM): the solutions are
    those of Σ(…)² + λ‖W‖_*, with λ = ‖W‖_* / C. The effect of the treatment is the outcome minus the completed entry.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Number of factors after `debias`. "auto" takes those that stand out of the noise.
    C : float or "auto", default="auto"
        Weight of the loss against the trace norm. "auto" predicts held-out outcomes of control units best, at the times
        when treated units are treated.
    debias : bool, default=True
        Whether factors are fitted once more without the trace norm, from the certified answer. Loadings are random
        effects: those of a unit with few untreated outcomes stay near the mean. Without `debias`, effects are those
        of MC-NNM; shrunk factors that are correlated with adoption bias them.
    inference : {"bootstrap", "jackknife", "placebo"} or None, default="bootstrap"
        Where standard errors come from; see the guide. None saves the refits.
    n_refits : int, default=200
        Number of refits of "bootstrap" and "placebo". "jackknife" refits once for each unit.
    level : float, default=0.95
        Probability that an interval covers the effect.
    pre_periods : int, default=3
        Untreated periods before adoption that are held out to check for trends.
    max_iter : int, default=1000
        Maximum number of iterations of the certified fit.
    tol : float, default=1e-8
        Relative duality gap to which the certified fit is solved.
    max_time : float, optional
        Seconds after which the best answer so far is kept, perhaps without intervals.
    random_state : int, RandomState, Generator or None
        Seed of held-out blocks and of refits.
    n_threads : int, optional
        Threads to use, all cores if None. The answer does not depend on it.
    verbose : int, default=0
        1 logs every iteration, and the progress of refits, to the logger "rslm"; see the guide for notebooks.

    Attributes
    ----------
    effect_ : array (n_units, n_periods)
        Outcome minus counterfactual, NaN where there is no treatment or no outcome.
    att_ : float
        The average of `effect_`: the average effect on the treated.
    att_interval_ : tuple of two floats
        Interval of `att_`; NaN without inference.
    standard_error_, p_value_ : float
        Of `att_`; the hypothesis is that it is 0.
    event_study_ : dict of arrays
        relative_time, effect, standard_error, lower, upper and n, the number of entries. Time 0 is the first treated
        period of a unit. Effects at negative times are those of held-out periods before adoption, and should be near 0.
    pretrend_ : dict or None
        effect, standard_error, lower, upper and p_value of the average over all held-out entries before adoption, their
        number n, and bound: the trend is smaller in size, at a level of 95 %. None if there are too few periods.
    counterfactual_ : array (n_units, n_periods)
        Outcomes as if there were no treatment, at all entries.
    unit_ids_, period_ids_ : arrays or None
        What the rows and columns of these arrays are; None if `fit` was given no ids.
    unit_effects_, period_effects_, coefficients_ : arrays
        b, c and β.
    rank_ : int
        Number of factors of the counterfactual.
    noise_ : float
        Standard deviation of the outcomes without treatment around the counterfactual.
    C_, lambda_ : float
        C, and λ of MC-NNM, of the certified fit.
    path_ : dict of arrays, or None
        C and error of all values that were tried; None if C was given.
    held_out_ : dict or None
        RMSE of held-out control outcomes: of "effects" alone, and of the "model".
    certificate_ : Certificate
        The objective of the certified fit and a lower bound on that of any matrix.
    history_, outcome_, converged_, n_iter_
        As in `MatrixCompletion`, of the certified fit.

    Examples
    --------
    >>> import numpy as np
    >>> from rslm import PanelCompletion
    >>> rng = np.random.default_rng(0)
    >>> outcomes = rng.standard_normal((30, 1)) + 0.2 * rng.standard_normal((30, 20))
    >>> treated = np.zeros((30, 20), dtype=bool)
    >>> treated[:8, 12:] = True
    >>> outcomes[treated] += 1.0
    >>> model = PanelCompletion(random_state=0).fit(outcomes, treated=treated)
    >>> low, high = model.att_interval_
    >>> bool(low < 1.0 < high)
    True
    """

    certificate_: Certificate
    _panel: Panel

    _facts: ClassVar[tuple[str, ...]] = panel_file.FACTS
    _forms: ClassVar[dict[str, Form]] = {}
    _found: ClassVar[dict[str, str]] = {"p_value_": "p value", "rank_": "factors", "noise_": "noise", "C_": "C"}
    _compared: ClassVar[dict[str, str]] = {"effects": "effects of units and periods alone", "model": "this model"}
    _overview: ClassVar[tuple[str, ...]] = ("event_study", "counterfactual")
    _more_pictures: ClassVar[tuple[str, ...]] = ("held_out", "convergence")

    def __init__(
        self,
        rank: int | str = "auto",
        C: float | str = "auto",
        *,
        debias: bool = True,
        inference: str | None = "bootstrap",
        n_refits: int = 200,
        level: float = 0.95,
        pre_periods: int = 3,
        max_iter: int = 1000,
        tol: float = 1e-8,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.debias = debias
        self.inference = inference
        self.n_refits = n_refits
        self.level = level
        self.pre_periods = pre_periods
        self.max_iter = max_iter
        self.tol = tol
        self.max_time = max_time
        self.random_state = random_state
        self.n_threads = n_threads
        self.verbose = verbose

    # ---- fitting -------------------------------------------------------------------------------------------------

    @with_callbacks
    def fit(
        self,
        outcomes: Any,
        treated: Any = None,
        *,
        unit: Any = None,
        time: Any = None,
        outcome: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Estimate effects.

        Parameters
        ----------
        outcomes : array or DataFrame of shape (n_units, n_periods), or a long table
            NaN is missing. A long table, of pandas or Polars, has a row for each unit and period; a missing row is a
            missing outcome.
        treated : mask of the same shape, or the name of a column
            Where a unit has the treatment. Units may adopt it at different times, and give it up again.
        unit, time, outcome : names of columns
            Of a long table.
        covariates : array of shape (n_units, n_periods, k), or names of columns of a long table
            Their coefficients are not penalised. They must not be influenced by the treatment.
        """
        began = clock.perf_counter()
        self._check_parameters()
        panel = panel_of(outcomes, treated, unit=unit, time=time, outcome=outcome, covariates=covariates)
        rng, threads = as_generator(self.random_state), thread_count(self.n_threads)
        with self._solving() as interrupt, interrupt.within(self.max_time, began):
            reporter = Reporter(self, outcomes)

            def tell(words: str) -> bool:
                interrupt.pending = reporter.stage(words) or interrupt.pending
                return interrupt.pending

            centre, scale = _units(panel)
            inside = replace(panel, outcomes=(panel.outcomes - centre) / scale)
            self._set_panel(panel)
            try:
                found = search_C(inside, rng, threads, tell) if is_auto(self.C) else None
            except Stopped:
                found = None
            fitted, result = self._certified(inside, found, reporter, threads, began)
            self._keep(result, scale)
            self._set_search(result, found, scale)
            errors = Errors(self.inference, int(self.n_refits), rng, threads, tell)
            self._infer(inside, fitted, centre, scale, errors, interrupt)
            reporter.done()
        self._warn_if_not_converged()
        return self

    def _check_parameters(self) -> None:
        if not is_auto(self.C) and not LEAST <= as_float(self.C) <= LARGEST:
            raise ValueError(f"C must be a number from {LEAST:g} to {LARGEST:g} or 'auto'; got {self.C!r}")
        if not (is_auto(self.rank) or is_whole(self.rank, least=0)):
            raise ValueError(f"rank must be a whole number ≥ 0 or 'auto'; got {self.rank!r}")
        if not self.debias and not is_auto(self.rank):
            raise ValueError(
                f"rank must be 'auto' with debias=False, which leaves out the fit that has a rank; got {self.rank!r}"
            )
        if self.inference is not None and self.inference not in list(METHODS):
            raise ValueError(f"inference must be None or one of {list(METHODS)}; got {self.inference!r}")
        for name, least in (("n_refits", 2), ("pre_periods", 0)):
            if not is_whole(getattr(self, name), least=least):
                raise ValueError(f"{name} must be a whole number ≥ {least}; got {getattr(self, name)!r}")
        if not 0 < as_float(self.level) < 1:
            raise ValueError(f"level must be between 0 and 1, such as 0.95; got {self.level!r}")
        check_max_time(self.max_time)
        check_tol(self.tol)

    @property
    def unit_ids_(self) -> Ids | None:
        """The ids of the units, in the order of the rows of `effect_`; None if there are none."""
        check_is_fitted(self)
        return self._panel.units

    @property
    def period_ids_(self) -> Ids | None:
        """The ids of the periods, in the order of the columns of `effect_`; None if there are none."""
        check_is_fitted(self)
        return self._panel.periods

    def _set_panel(self, panel: Panel) -> None:
        self._panel = panel
        self.n_features_in_ = panel.shape[1]

    def _certified(
        self, panel: Panel, found: FoundC | None, reporter: Reporter, threads: int, began: float
    ) -> tuple[Fitted, Result]:
        """The fit of the convex problem, with as many factors as the gap asks for."""
        C = float(self.C) if not is_auto(self.C) else 1.0 if found is None else found.C
        problem = problem_of(panel, C)
        start = start_of(problem, quick_fit(panel, C, float(self.tol)))
        rank, point, most = start.rank, start.point, min(panel.shape)
        callback = reporter.callback(lambda progress: self._at(panel, progress))
        for _ in range(ROUNDS):
            left = time_left(self.max_time, began)
            result = self._solve(problem, rank, point, max_time=left, callback=callback)
            added = min(GROWTH, most - rank)
            if result.certificate.relative_gap <= self.tol or added == 0 or not result.converged:
                break
            point = grown(problem, result.point, added, threads, 0)
            rank += added
        return fitted_of(panel, result), result

    def _at(self, panel: Panel, progress: Progress) -> dict[str, Any]:
        """The counterfactual at the current point of the solver, in the units of the solver."""
        effects = progress.effects or Effects.none(panel.shape)
        found = progress.U @ progress.V.T + effects.rows[:, None] + effects.columns
        return {"counterfactual_": found, "_panel": panel}

    def _set_search(self, result: Result, found: FoundC | None, scale: float) -> None:
        self.C_ = result.problem.C
        size = float(np.linalg.svd(result.U @ result.V.T, compute_uv=False).sum())
        self.lambda_ = scale * size / self.C_
        self.path_ = None if found is None else found.path | {"error": found.path["error"] * scale}
        self.held_out_ = None if found is None else {name: scale * error for name, error in found.held_out.items()}

    # ---- effects -------------------------------------------------------------------------------------------------

    def _infer(
        self,
        panel: Panel,
        shrunk: Fitted,
        centre: float,
        scale: float,
        errors: Errors,
        interrupt: Interrupt,
    ) -> None:
        """Set effects, and their standard errors by refits."""
        given = None if is_auto(self.rank) else int(self.rank)
        plain = ByTraceNorm(panel, shrunk, self.C_, float(self.tol))
        if given is not None and given > (limit := most_rank(panel)):
            warn_caller(f"the panel is too small to determine rank={given}; the rank is lowered to {limit}")
        try:
            model: Counterfactual = ByFactors(plain, given) if self.debias else plain
        except Stopped:
            model = plain
        if self.inference == "bootstrap" and model.degrees >= panel.control.sum():
            warn_caller(
                f"C={self.C_:g} is so large that almost no residuals remain, so they do not show the noise and "
                "intervals by 'bootstrap' are too narrow; lower C, or use inference='placebo'"
            )
        fitted = model.fitted
        self.rank_ = model.rank
        self.counterfactual_ = fitted.predicted[0] * scale + centre
        self.unit_effects_, self.period_effects_ = fitted.located.units[0] * scale, fitted.located.periods[0] * scale
        self.unit_effects_ = self.unit_effects_ + centre
        self.coefficients_ = fitted.located.coefficients[0] * scale
        self.noise_ = scale * model.noise
        self._set_effects()
        try:
            if interrupt.pending or interrupt.over():
                raise Stopped
            self._set_errors(after(model, errors), before(model, errors, int(self.pre_periods)), scale)
        except Stopped:
            stopped = Outcome.INTERRUPTED if interrupt.pending else Outcome.TIME
            self.outcome_, self.converged_ = stopped.value, False
            self._set_errors(after(model, Errors.none()), None, scale)

    def _set_effects(self) -> None:
        panel = self._panel
        self.effect_ = np.where(panel.affected, panel.outcomes - self.counterfactual_, np.nan)
        self.att_ = float(np.nanmean(self.effect_))

    def _set_errors(self, after: Studied, before: Studied | None, scale: float) -> None:
        """Set the average effect's standard error, the event study and the check of trends."""
        df, level = float(self._panel.shape[0] - 1), float(self.level)
        self.standard_error_ = scale * after.error
        width = float(student.ppf(0.5 + 0.5 * level, df)) * self.standard_error_
        self.att_interval_ = self.att_ - width, self.att_ + width
        self.p_value_ = p_value(self.att_, self.standard_error_, df)
        self.event_study_ = after.table(scale, level, df)
        self.pretrend_ = None
        if before is not None:
            self.event_study_ = joined(before.table(scale, level, df), self.event_study_)
            self.pretrend_ = before.trend(scale, level, EQUIVALENCE, df)

    def predict(self, units: ArrayLike, periods: ArrayLike) -> Floats:
        """Outcomes as if there were no treatment.

        Parameters
        ----------
        units, periods : arrays of one length
            Positions, or ids where `fit` was given ids.
        """
        check_is_fitted(self)
        panel = self._panel
        i = Labels("unit", panel.shape[0], panel.units).positions(units)
        t = Labels("period", panel.shape[1], panel.periods).positions(periods)
        if i.shape != t.shape:
            raise ValueError(f"units and periods must have the same length; got {len(i)} and {len(t)}")
        return np.asarray(self.counterfactual_[i, t])

    def _advice(self) -> dict[Outcome, str]:
        late = "not finished within max_time, so there are no standard errors; raise it, or lower n_refits"
        if self.inference is None or np.isfinite(self.standard_error_):
            gap = float(self.certificate_.relative_gap)
            late = f"the certified fit was stopped by max_time at a relative gap of {gap:.1e}; raise it"
        advice, y = {**super()._advice(), Outcome.TIME: late}, self._panel.outcomes
        if self.certificate_.primal <= ROUNDING * self.C_ * float(np.nansum(y * y)):
            advice.pop(Outcome.STALLED, None)  # effects explain everything, and what is left are rounding errors
        return advice

    def _settings(self) -> dict[str, str]:
        if not hasattr(self, "att_interval_"):  # a callback sees the model before
            return super()._settings()
        low, high = (number(end) for end in self.att_interval_)
        effect = {"average effect on the treated": number(self.att_)}
        return effect | {f"its {100 * self.level:g} % interval": f"{low} to {high}"} | super()._settings()

    def _small_picture(self) -> tuple[str, str]:
        study = getattr(self, "event_study_", None)
        if study is None:
            return "", ""
        words = "effects by the time since adoption; before it in grey"
        ends = study["effect"], study["lower"], study["upper"]
        return intervals(*ends, (study["relative_time"] < 0).tolist(), words), words

    # ---- files ---------------------------------------------------------------------------------------------------

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        return arrays | panel_file.arrays_of(self), facts | panel_file.facts_of(self)

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        panel_file.read(model, arrays, facts)
        model._set_effects()
        return model


def _units(panel: Panel) -> tuple[float, float]:
    """Mean and standard deviation of the outcomes without treatment: data are centred and scaled before solving."""
    known = panel.outcomes[panel.control]
    centre = float(np.mean(known / LARGEST)) * LARGEST
    size = float(np.abs(known - centre).max())
    return centre, (size * float(np.std((known - centre) / size)) if size > 0 else 0.0) or 1.0
