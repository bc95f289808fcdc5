"""C, rank and weighting by the errors of held-out entries, along a warm-started path.

The rank grows by the leading singular vectors of the dual matrix, what W does not explain yet, while the error falls.
At every rank C is searched in steps from the best one so far, upwards or downwards. C begins where the first singular
value of what the effects leave would be halved: a unit that depends neither on the scale nor on the size of the data.

At the C that was found, a larger rank may be the optimum over all ranks, which a certificate can confirm. Where that
optimum predicts almost as well, it is preferred.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from rslm.certificate import certify
from rslm.data import ObservedMatrix
from rslm.estimators.automatic.calibrated import calibrated, predicted
from rslm.estimators.automatic.folds import Fold
from rslm.estimators.automatic.growing import grown, guessed, leading_pair
from rslm.estimators.automatic.settings import Found, Setting, Trials
from rslm.estimators.completion.intervals import Intervals
from rslm.estimators.completion.layout import Layout
from rslm.evaluation.effects import effects_alone, residual_duals
from rslm.evaluation.objective import Objective
from rslm.kernels import Stopped
from rslm.location import Effects
from rslm.location.packing import Packing
from rslm.losses import Loss
from rslm.problem import Problem
from rslm.runtime.interrupts import Interrupt
from rslm.runtime.log import logger
from rslm.runtime.types import Floats
from rslm.solvers import Outcome, Result, solve
from rslm.solvers.loop import Callback

FACTOR = math.sqrt(3.0)  # of C, for one step
COARSE, FINE = 2, 1  # steps of C that are made at once
QUARTER = 0.25  # of a step of C, to which the best one is rounded
FURTHEST = 1e6  # factor by which C may differ from the first one
ROUGH, MOST = 3e-3, 30  # tolerance and limit of iterations of the fits to a part of the entries
ROUNDED, AT_MARGIN = 0.3, 0.1  # width of rounded kinks while searching, in spreads of the data; of two classes
WORTH = 2e-4  # share by which another C must lower the error to go on
BETTER = 1e-3  # a rank must lower the error by this share to be worth another column
EXACT = 50_000  # entries up to which every rank is tried
PATIENCE = 2  # ranks without such a gain after which the search ends
MOST_RANK = 126  # the largest that is searched; above it factors of the systems take too much memory
CLOSE = 20  # up to this rank the smallest one is found exactly
ALIKE = 1.5  # counts of entries differ less than by this factor: weighting makes no difference
WEIGHTINGS = (0.0, 0.5)
COMPARED = 3  # the rank at which weightings are compared
HALVED = 0.5
ENOUGH = 20  # held-out errors of every feature from which the sizes of their noise are estimated
PRIOR = 5  # errors of the usual size that are added to those of a feature
UNLIKE = 1.2  # noise of features that differs by less than this factor counts as equal
LEAST_NOISE = 1e-4  # relative to the variance that effects leave
CLOSED = 1e-3  # relative gap up to which a setting counts as certifiable
ALMOST, FAR = 7.5e-3, 0.02  # by how much larger an error may be with a certificate than without; before it closes
USED = 1e-2  # singular values of U relative to the first, above which a column counts
SPARE = 1.1  # columns of U relative to those needed for the training entries, as all entries may need more
AFFORDABLE = 5e8  # entries · rank², up to which the rank of the convex optimum is searched
SEVERAL = 4  # times the rank that predicts best, which the convex optimum of noisy data needs at least


class Search:
    """The search over settings for a layout of all data."""

    first_rank = 1

    def __init__(
        self,
        template: Layout,
        folds: list[Fold],
        *,
        rank: int | None,
        C: float | None,
        weighting: float | None,
        largest_rank: int,
        n_threads: int,
        seed: int,
        stopped: Callable[[], bool],
        callback: Callable[[Layout], Callback | None],
        interrupt: Interrupt,
        free_effects: bool = True,
        free_units: bool = False,
    ) -> None:
        self.free_units = free_units  # whether features may be in units of their own
        self.noise: Floats | None = None  # the size of the noise of every feature
        self.free_effects = free_effects  # whether effects were not given by the user
        self.callback, self.interrupt = callback, interrupt
        self.template, self.folds, self.threads, self.seed, self.stopped = template, folds, n_threads, seed, stopped
        self.rank, self.C, self.weighting = rank, C, weighting
        self.largest_rank = min(largest_rank, MOST_RANK)
        self.loss = template.loss
        self.smooth = template.loss if template.loss.smooth else rounded(template)
        self.path = Trials()
        self.errors: dict[Setting, float] = {}
        self.points: dict[Setting, list[Floats]] = {}
        self._tried_as: dict[Setting, Setting] = {}  # settings that were tried with a smaller limit on the rank
        self.located = template.location is not None
        self._of_effects = math.nan  # error of effects alone
        self.first = math.nan  # the C that the search begins with
        self.exact = len(template.data) <= EXACT  # then every rank is tried, because it costs little
        self.effects: list[Effects | None] = [None] * len(folds)

    # ---- what W is compared with ---------------------------------------------------------------------------------

    def of_effects(self) -> float:
        """The error of effects alone; of the mean if there are no effects."""
        if not self.located:
            return self.of_mean()
        total = []
        for k, fold in enumerate(self.folds):
            layout = self._layout_of_effects(fold)
            problem = layout.problem()
            self.effects[k] = effects_alone(problem, self.threads)
            U, V = (np.zeros((side, 1)) for side in problem.shape)
            total.append(self._error(layout, fold, U, V, self.effects[k]))
        return self._mean(total)

    def of_mean(self) -> float:
        """The error of the mean of all training entries, or for two classes of their frequency.

        Where features are in units of their own, each has its own mean: that of all says nothing.
        """
        total = []
        for fold in self.folds:
            y = self.loss.targets(fold.train.values).astype(np.float64)
            if self.template.units is not None:
                means = _feature_means(fold.train, y)
                total.append(self._loss_of(fold.held, means[fold.held.index]))
                continue
            level = float(np.average(y, weights=fold.train.weights))
            if self.loss.binary:  # the log-odds
                share = min(max(0.5 * (level + 1.0), 1e-6), 1.0 - 1e-6)
                level = math.log(share / (1.0 - share))
            total.append(self._loss_of(fold.held, np.full(len(fold.held), level)))
        return self._mean(total)

    # ---- the search ----------------------------------------------------------------------------------------------

    def run(self) -> Found | None:
        """The best setting that there was time to try; None if there was not even time for one."""
        with np.errstate(over="ignore", invalid="ignore"):  # an error may be infinite
            return self._run()

    def _run(self) -> Found | None:
        of_mean, of_effects = self.of_mean(), math.nan
        try:
            of_effects = self._of_effects = self.of_effects()
            best = self._best_of_all()
        except Stopped:
            if not self.errors:
                return None
            best = min(self.errors, key=self._key)
        points = self.points.get(best)
        # With outliers, a fit that starts from the data may end at another local minimum than the fits to the folds.
        resistant = self.loss.interval is not None and not self.loss.binary
        start = self._for_all(points[0], best) if points is not None and (len(self.folds) == 1 or resistant) else None
        found = Found(
            best, self.errors[best], self.path, start, of_mean, of_effects, self.noise if best.by_noise else None
        )
        found.alone = self.rank is None and self._may_be_alone() and not found.error < (1.0 - BETTER) * of_effects
        with suppress(Stopped):
            found.intervals = self.calibrated(None if found.alone else best)
        return found

    def _may_be_alone(self) -> bool:
        """Whether effects alone may be the answer."""
        return self.located

    def calibrated(self, setting: Setting | None) -> Intervals | None:
        """Intervals from the errors of held-out entries with a setting, or of effects alone if it is None."""
        if self.loss.binary:
            return None
        fitted = [(fold, *self._fitted(fold, k, setting)) for k, fold in enumerate(self.folds)]
        return calibrated(fitted, self.template.box, self.loss, self.threads)

    def _fitted(self, fold: Fold, k: int, setting: Setting | None) -> tuple[Layout, dict[str, Any]]:
        """The layout of a fold, and the attributes of the model that was fitted to it."""
        if setting is None:
            layout = self._layout_of_effects(fold)
            effects = effects_alone(layout.problem(), self.threads)
            U, V = (np.zeros((side, 1)) for side in layout.problem().shape)
            return layout, layout.model(U, V, 0.0, effects)
        setting = self._tried_as.get(setting, setting)
        now = Objective(self._problem(fold, setting), self.threads).evaluate(self.points[setting][k])
        layout = self._layout(fold, setting)
        return layout, layout.model(now.U, now.V, 0.0, now.effects)

    def _layout_of_effects(self, fold: Fold) -> Layout:
        return self._layout(fold, self._setting(1.0, 1, 0.0))

    def _best_of_all(self) -> Setting:
        self.first = self._first_C() if self.C is None else self.C
        best = self._refined(self._best(self.first))
        if self.C is None:
            best = self._between(self._along_C(best, FINE))
        if self._may_be_without_rows():
            best = min(best, self._near(replace(best, of_rows=False)), key=self._key)
        return self._certifiable(self._in_units_of_noise(best))

    def _in_units_of_noise(self, best: Setting) -> Setting:
        """The best setting with every feature in units of its own noise, if it predicts better than the given one."""
        if not (self.free_units and self.exact and self.C is None):
            return best
        self.noise = self._noise(best)
        if self.noise is None:
            return best
        return min(best, self._near(replace(best, by_noise=True)), key=self._key)

    def _near(self, at: Setting) -> Setting:
        """The best setting with a rank and a C near those of a given one."""
        at = self._less_shrunk(self._along_C(self._tried(at), FINE))
        for step in (1, -1) if self.rank is None else ():
            while 1 <= at.rank + step <= self.largest_rank:
                new = self._along_C(self._tried(replace(at, rank=at.rank + step)), FINE)
                needed = 1.0 - BETTER if step > 0 else 1.0 + BETTER
                if not self.errors[new] < needed * self.errors[at]:
                    break
                at = new
        return self._between(at)

    def _noise(self, setting: Setting) -> Floats | None:
        """The size of the held-out errors of every feature; None if they are alike, or too few to tell."""
        columns = self.template.data.shape[1]
        squares, counts = np.zeros(columns), np.zeros(columns)
        units = np.ones(columns) if self.template.units is None else self.template.units
        for fold, point in zip(self.folds, self.points[setting], strict=True):
            now = Objective(self._problem(fold, setting), self.threads).evaluate(point)
            predicted = self._predicted(self._layout(fold, setting), fold, now.U, now.V, now.effects)
            at = fold.held.index
            squares += np.bincount(at, ((fold.held.values - predicted) / units[at] / self.template.scale) ** 2, columns)
            counts += np.bincount(at, minlength=columns)
        if counts.min() < ENOUGH:
            return None
        mean = float(squares.sum() / counts.sum())
        noise: Floats = np.sqrt((squares + PRIOR * mean) / (counts + PRIOR))
        if not noise.max() > UNLIKE * noise.min():
            return None
        return noise / math.sqrt(mean) * units

    def _setting(self, C: float, rank: int, weighting: float) -> Setting:
        """A setting of this search."""
        ridges = self.template.ridges
        return Setting(C, rank, weighting, of_rows=ridges is not None and ridges.rows is not None)

    def _refined(self, best: Setting) -> Setting:
        """The best setting over what is searched only near the best one: here nothing."""
        return best

    def _key(self, setting: Setting) -> float:
        return self.errors[setting]

    def _grown(self, C: float, kinds: list[Setting]) -> Setting:
        """The best setting over ranks: the smallest rank whose error is almost the least."""
        best: dict[int, Setting] = {}
        rank, without = min(self.first_rank, self.largest_rank), 0
        while True:
            if self.exact or rank <= COMPARED:
                best[rank] = self._at_rank(rank, C, kinds if self.exact or rank > 1 else kinds[:1])
            else:  # the best C changes little from here on
                best[rank] = self._tried(replace(kinds[0], C=C, rank=rank))
            best[rank] = self._less_shrunk(best[rank])
            C = best[rank].C
            if rank >= min(COMPARED, self.largest_rank):
                kinds = [best[rank]]
            least = min((self.errors[s] for r, s in best.items() if r < rank), default=math.inf)
            without = 0 if self.errors[best[rank]] < (1.0 - BETTER) * least else without + 1
            if without >= PATIENCE or rank == self.largest_rank:
                break
            rank = min(next_rank(rank, self.exact), self.largest_rank)
        return self._smallest(best)

    def _smallest(self, best: dict[int, Setting]) -> Setting:
        """The setting with the smallest rank whose error is almost the least; also among ranks that were skipped."""
        least = min(self.errors[s] for s in best.values())
        ranks = sorted(best)
        high = next(r for r in ranks if self.errors[best[r]] <= (1.0 + BETTER) * least)
        low, found = max((r for r in ranks if r < high), default=self.first_rank - 1), best[high]
        while high - low > 1 and high <= CLOSE:
            middle = (low + high) // 2
            at = self._tried(replace(found, rank=middle))
            at = self._along_C(at, COARSE) if self.exact else at
            if self.errors[at] <= (1.0 + BETTER) * min(least, self.errors[found]):
                high, found = middle, at
            else:
                low = middle
        return found

    def _certifiable(self, best: Setting) -> Setting:
        """The setting at the rank of the convex optimum, if it predicts almost as well; else the given one.

        Not with kinks: the gap of the rounded loss says little about that of the loss, and fits of high rank take long.
        """
        entries = len(self.template.data)
        at = best
        if entries * (SEVERAL * best.rank) ** 2 > AFFORDABLE:
            return best
        while self.rank is None and self.smooth is self.loss:
            used = max(self._used_columns(point) for point in self.points[at])
            # Where U has columns to spare, a local minimum is the optimum; the gap of a rough fit need not show it.
            if used < at.rank or self._gap(at) <= CLOSED:
                if at is best or self.errors[at] > (1.0 + ALMOST) * self.errors[best]:
                    return best
                return self._renamed(at, min(math.ceil(SPARE * used) + 2, self.largest_rank))
            rank = min(2 * at.rank + 2, self.largest_rank)
            if rank == at.rank or entries * rank**2 > AFFORDABLE:
                return best
            at = self._tried(replace(at, rank=rank))
            if self.errors[at] > (1.0 + FAR) * self.errors[best]:
                return best
        return best

    def _gap(self, setting: Setting) -> float:
        """The relative duality gap on the first fold."""
        problem = self._layout(self.folds[0], setting).problem()
        evaluation = Objective(problem, self.threads).evaluate(self.points[setting][0])
        return certify(problem, evaluation, CLOSED, stationary=True).relative_gap

    def _used_columns(self, point: Floats) -> int:
        """How many columns of U a solution uses."""
        s = np.linalg.svd(point[:, :-1] if self.located else point, compute_uv=False)
        return int((s > USED * s[0]).sum())

    def _renamed(self, setting: Setting, rank: int) -> Setting:
        """The same setting with room for a larger rank."""
        new = replace(setting, rank=rank)
        self.errors[new], self._tried_as[new] = self.errors[setting], setting
        return new

    def _at_rank(self, rank: int, C: float, kinds: list[Setting]) -> Setting:
        """The best kind and C at a rank, from a C that is near it."""
        tried: list[Setting] = []
        for kind in kinds:
            tried.append(self._along_C(self._tried(replace(kind, C=C, rank=rank)), COARSE))
            C = tried[-1].C  # the best C of another kind is near
        return min(tried, key=self._key)

    def _less_shrunk(self, setting: Setting) -> Setting:
        """With the ridges of effects that suit the errors of a setting.

        The best ridge is the variance of the noise, in units of that of the effects. For effects alone, W is part of
        the noise; where W explains most of it, ridges are far too large, and W would get columns that repair effects.
        """
        while self.template.ridges is not None and self.free_effects and self._of_effects > 0:
            noise = self.errors[setting] / self._of_effects
            noise = max(noise**2 if self.loss.quadratic else noise, LEAST_NOISE)
            if noise > HALVED * setting.ridges:
                break
            ridges = 2.0 ** math.floor(math.log2(noise) + 0.5)  # to a power of 2: errors are rough
            setting = self._along_C(self._tried(replace(setting, ridges=ridges)), COARSE)
        return setting

    def _between(self, best: Setting) -> Setting:
        """C at the lowest point of the parabola through the errors at the best C and its neighbours."""
        near = [self._moved(best, steps) for steps in (-FINE, 0, FINE)]
        if self.stopped() or any(s not in self.errors for s in near):
            return best
        below, middle, above = (self.errors[s] for s in near)
        bend = below + above - 2.0 * middle
        shift = float(np.clip(0.5 * (below - above) / bend, -0.5, 0.5)) if bend > 0 else 0.0
        shift = round(shift / QUARTER) * QUARTER  # the errors are rough, and the answer shall not depend on rounding
        return min(best, self._tried(self._moved(best, shift)), key=self._key)

    def _moved(self, at: Setting, steps: float) -> Setting:
        """The setting with another C. It is computed from the first C, so that all ways to it give the same number."""
        made = round(math.log(at.C / self.first) / math.log(FACTOR) / QUARTER)
        return replace(at, C=self.first * FACTOR ** (QUARTER * made + steps))

    def _along_C(self, at: Setting, steps: int) -> Setting:
        """The best setting after moving C by `steps` steps, upwards or else downwards."""
        if self.C is not None:
            return at
        for move in (steps, -steps):
            moved = False
            while 1.0 / FURTHEST <= (new := self._moved(at, move)).C / self.first <= FURTHEST:
                new = self._tried(new)
                if not self.errors[new] < (1.0 - WORTH) * self.errors[at]:
                    break
                at, moved = new, True
            if moved:
                break
        return at

    def _tried(self, setting: Setting) -> Setting:
        """The setting, fitted to every fold; `Stopped` where there is no time for that."""
        if setting in self.errors:
            return setting
        began = time.perf_counter()
        total, points = [], []
        for k, fold in enumerate(self.folds):
            layout, problem = self._layout(fold, setting), self._problem(fold, setting)
            result: Result = solve(
                problem,
                setting.rank,
                start=self._start(problem, setting, k),
                tol=ROUGH,
                max_iter=MOST,
                random_state=self.seed,
                n_threads=self.threads,
                certificate=False,
                callback=self.callback(layout),
            )
            self.interrupt.pending |= result.outcome is Outcome.INTERRUPTED  # a callback may have stopped it
            if self.stopped():  # what was found on a part of the folds cannot be compared
                raise Stopped
            points.append(result.point)
            total.append(self._error(layout, fold, result.U, result.V, result.effects))
        self.errors[setting], self.points[setting] = self._mean(total), points
        seconds = time.perf_counter() - began
        self.path.add(setting, self.errors[setting], seconds)
        logger.info(
            "rank %d, C %.4g, weighting %g: held-out error %.5g, %.2f s",
            setting.rank,
            setting.C,
            setting.weighting,
            self.errors[setting],
            seconds,
        )
        return setting

    def _start(self, problem: Problem, setting: Setting, k: int) -> Floats | None:
        """The point of the most similar setting; with new columns if that had a smaller rank."""
        alike = [s for s in self.points if (s.weighting, s.of_rows) == (setting.weighting, setting.of_rows)]
        near = [s for s in alike if s.rank <= setting.rank]
        if not near:
            return None
        # Of two C as near, the smaller one: rounding errors, which depend on the scale of the data, must not decide.
        like = max(near, key=lambda s: (s.rank, -round(abs(math.log(s.C / setting.C)), 6), -s.C))
        point = self.points[like][k]
        added = setting.rank - like.rank
        return point if added == 0 else grown(problem, point, added, self.threads, self.seed)

    def _for_all(self, point: Floats, setting: Setting) -> Floats:
        """A point of the first fold as one of all data: effects are in units of the spread, which differs a little."""
        fold, whole = self._problem(self.folds[0], setting), setting.applied(self.template, self.noise).problem()
        if fold.location is None:
            return point
        at = point.copy()
        at[:, -1] *= Packing.of(fold).scales / Packing.of(whole).scales
        return at

    def _first_C(self) -> float:
        """The C at which the first singular value of what effects leave would be halved by a rank of one."""
        problem, z = self._unexplained()
        u, v = leading_pair(problem, z, self.threads, self.seed)
        if not v.any():  # effects explain everything
            return self.template.C
        squares = problem.data.apply(u[:, None], v[:, None], self.threads) ** 2
        density = float(np.sum(squares if problem.data.weights is None else squares * problem.data.weights))
        return HALVED / (density * self.template.curvature * 0.5)

    def _unexplained(self) -> tuple[Problem, Floats]:
        """The problem of the first fold, and what effects leave of its observations, as the loss takes it."""
        problem, effects = self._layout(self.folds[0], self._setting(1.0, 1, 0.0)).problem(), self.effects[0]
        return problem, guessed(problem) if effects is None else residual_duals(problem, effects, self.threads)

    def _best(self, C: float) -> Setting:
        """The best setting over C, weighting and, unless it is given, rank."""
        kinds = [self._setting(C, 1, weighting) for weighting in self._weightings()]
        if self.rank is None:
            return self._grown(C, kinds)
        return self._less_shrunk(self._at_rank(self.rank, C, kinds))

    def _may_be_without_rows(self) -> bool:
        """Whether effects of columns alone are tried: if the data are small and nobody has asked for effects."""
        ridges = self.template.ridges
        return self.exact and self.free_effects and ridges is not None and None not in (ridges.rows, ridges.columns)

    def _weightings(self) -> list[float]:
        if self.weighting is not None:
            return [self.weighting]
        sides = self.template.data.row_counts(), self.template.data.col_counts()
        filled = [counts[counts > 0] for counts in sides]
        if all(np.quantile(c, 0.9) <= ALIKE * np.quantile(c, 0.1) for c in filled):
            return [0.0]
        return list(WEIGHTINGS)

    def _problem(self, fold: Fold, setting: Setting) -> Problem:
        """Kinks are rounded, so that a fit takes few steps."""
        problem = self._layout(fold, setting).problem()
        return problem if self.smooth is self.loss else replace(problem, loss=self.smooth)

    def _layout(self, fold: Fold, setting: Setting) -> Layout:
        return replace(setting.applied(self.template, self.noise), data=fold.train, box=None)

    def _error(self, layout: Layout, fold: Fold, U: Floats, V: Floats, effects: Effects | None) -> float:
        return self._loss_of(fold.held, self._predicted(layout, fold, U, V, effects))

    def _predicted(self, layout: Layout, fold: Fold, U: Floats, V: Floats, effects: Effects | None) -> Floats:
        return predicted(layout.model(U, V, 0.0, effects), fold.held, self.threads)

    def _loss_of(self, held: ObservedMatrix, w: Floats) -> float:
        """The mean loss of held-out entries, within bounds if there are any."""
        template = self.template
        y = self.loss.targets(held.values).astype(np.float64)
        if template.box is not None:
            lower, upper = template.box.planes(held.shape)
            at = held.rows_of_entries(), held.index
            w = np.clip(w, lower[at], upper[at])
        if template.units is not None:
            y, w = y / template.units[held.index], w / template.units[held.index]
        scale = template.scale
        return float(np.average(self.loss.value(y / scale, w / scale), weights=held.weights))

    def _mean(self, values: list[float]) -> float:
        """Over the folds: of root mean squares for the square loss, of mean losses otherwise."""
        mean = float(np.average(values, weights=[len(fold.held) for fold in self.folds]))
        return self.template.scale * math.sqrt(mean) if self.loss.quadratic else mean


def _feature_means(data: ObservedMatrix, y: Floats) -> Floats:
    """The mean of every feature; of one without an entry, the mean of all."""
    weights = np.ones(len(y)) if data.weights is None else data.weights
    total, size = (np.bincount(data.index, v, data.shape[1]) for v in (weights * y, weights))
    return np.where(size > 0, total / np.where(size > 0, size, 1.0), np.average(y, weights=weights))


def next_rank(rank: int, exact: bool) -> int:
    """1, 3, 5, 7, 9, 12, 16, …: about a third more, if `exact` from 12 on; what is skipped is tried in the end."""
    return rank + 1 if exact and rank < 12 else rank + max(rank // 3, 2)


def rounded(template: Layout) -> Loss:
    """A loss with its kinks rounded so that searching is fast."""
    width = AT_MARGIN if template.loss.binary else ROUNDED  # errors of classes change more with the width
    return template.loss.rounded(width * 2.0 / template.curvature)


def stop_when(interrupt: Interrupt, limit: float | None, began: float) -> Callable[[], bool]:
    """Whether Ctrl-C was pressed, or the time for searching is over."""
    return lambda: interrupt.pending or (limit is not None and time.perf_counter() > began + limit)
