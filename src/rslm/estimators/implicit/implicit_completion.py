"""Recommendations from what people took, as an estimator."""

from __future__ import annotations

import math
import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rslm.certificate import Certificate
from rslm.data import Labels, ObservedMatrix, parts
from rslm.data.splits import as_generator
from rslm.estimators.callbacks import Reporter
from rslm.estimators.choices import is_auto, is_whole, needs_distributed
from rslm.estimators.completion.observed_input import ObservedInput, columns_by_id, on_cluster, refuse_sparse
from rslm.estimators.completion.recommend import check_known, known_from_arrays, known_to_arrays, listed, recommended
from rslm.estimators.completion.unseen import places
from rslm.estimators.implicit.confidence import check_confidence, interactions, look_like_times
from rslm.estimators.implicit.item_space import ItemSpace
from rslm.estimators.implicit.layout import ImplicitLayout
from rslm.estimators.implicit.ranking import Metric
from rslm.estimators.implicit.resumable import RankingSearchFile, resumed_settings, search_settings
from rslm.estimators.implicit.search import Asked, Setting, found_settings, layout_of
from rslm.estimators.persistence import Form, ids_from_array, ids_to_array, storable
from rslm.estimators.scikit_learn import with_callbacks
from rslm.estimators.warn import warn_caller
from rslm.kernels import predict_pairs
from rslm.runtime.magnitudes import LARGEST, LEAST, as_float
from rslm.runtime.threads import thread_count
from rslm.runtime.types import Floats
from rslm.solvers import Outcome
from rslm.solvers.loop import Callback
from rslm.solvers.stopping import check_max_time, check_tol, time_left
from rslm.storage.container import Arrays, Facts

SEARCHING = 0.5  # share of max_time that the search for settings may take

ZERO_ALPHA0 = "; use a small one, such as 0.01, or MatrixCompletion, which knows of no zeros"
MOST_WEIGHTING = 100.0  # useful ones are from 0 to 1
FAR_APART = 1e5  # ratio of confidences to alpha0 at which zeros hardly count, and fits are slow

Listed = tuple[list[NDArray[Any]], list[Floats]]


@storable
class ImplicitCompletion(ObservedInput):
    """Recommend items from implicit feedback: clicks, plays, purchases, without ratings.

    Learns a low-rank matrix W of users × items that minimises

        C (Σ ω (1 − W)² over what was taken  +  α₀ Σ W² over all entries)  +  ½ ‖W‖_*²

    so that items that were not taken are zeros with a small weight. It is the objective of implicit ALS with a trace
    norm in place of ridges.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Largest rank of W. "auto" begins with 32 and doubles it while that ranks held-out items better.
    C : float or "auto", default="auto"
        Weight of the loss relative to the trace norm. A larger C fits the items that were taken more closely.
    alpha0 : float or "auto", default="auto"
        Weight of a zero relative to a confidence of 1; often between 0.01 and 1. It must be positive: without zeros a
        constant fits all ones. `MatrixCompletion` is for observed values alone.
    weighting : float or "auto", default="auto"
        Exponent of the weighted trace norm: users and items with n entries are weighted by n^weighting, relative to the
        average. 0 is the plain trace norm, 1 the usual regularisation of implicit ALS by frequency.
    confidence : {"log", "linear", "ones"}, default="log"
        The weight ω of an entry with the value x: log₂(1 + x), x itself or 1. A value of 1 has weight 1 with all of
        these. Give confidences of your own with "linear".
    metric : str, default="ndcg@100"
        The metric by which "auto" compares settings, on a held-out tenth of the items of every user: "recall@k",
        "capped_recall@k" or "ndcg@k" of `rslm.evaluate`.
    solver : {"trust-region", "conjugate-gradient"}, default="trust-region"
        The first uses second derivatives and needs few iterations; the second needs more of them, each cheaper.
    max_iter : int, default=1000
        Maximum number of outer iterations, including those of continuation stages.
    tol : float, default=1e-4
        Converged when the relative gradient, certified when the relative duality gap is at most this. Recommendations
        hardly change below 1e-3.
    max_time : float, optional
        Seconds after which the best answer so far is kept; "auto" takes at most half of them for its search.
    random_state : int, RandomState, Generator or None
        Seed of the start and of the held-out items.
    n_threads : int, optional
        Threads to use, all cores if None. The answer does not depend on it.
    verbose : int, default=0
        1 logs every iteration, and every setting that is tried, to the logger "rslm"; see the guide for notebooks.

    Attributes
    ----------
    row_factors_, col_factors_ : arrays (n_users, rank) and (n_items, rank)
        W = row_factors_ @ col_factors_.T. Users without an item have the average factors of the others; an item that
        nobody took has factors of 0.
    rank_ : int
        The rank of W, which may be below the limit.
    C_, alpha0_, weighting_ : float
        The settings that were used.
    path_ : dict of arrays, or None
        rank, C, alpha0, weighting, score and seconds of all settings that were tried; None if all were given.
    held_out_ : dict or None
        The `metric`, "ndcg@100" by default, on held-out items: of "popularity", the items that most users took, and of
        the "model". The latter is the best of all trials, so it is slightly optimistic; hold out items of your own to
        measure it.
    certificate_ : Certificate
        The objective and a lower bound on the objective of any matrix.
    history_ : dict of arrays
        objective, relative_gradient, seconds and more after every iteration.
    outcome_, converged_, n_iter_ : str, bool and int
        Why the solver ended, whether that means convergence, and how many iterations it took.
    n_features_in_, feature_names_in_ : int and array
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from scipy import sparse
    >>> from rslm import ImplicitCompletion
    >>> plays = sparse.csr_array([[3, 1, 0, 0], [1, 2, 1, 0], [0, 0, 2, 5], [0, 0, 0, 1]])
    >>> model = ImplicitCompletion(rank=2, C=10.0, alpha0=0.1, weighting=0.0).fit(plays)
    >>> items, scores = model.recommend([0, 3], top=1)
    >>> [int(best[0]) for best in items]
    [2, 2]
    """

    certificate_: Certificate
    row_factors_: Floats
    col_factors_: Floats
    _space: ItemSpace
    _taken: ObservedMatrix | None  # ones with confidences; None if they are on a cluster
    _average_user: Floats

    _forms: ClassVar[dict[str, Form]] = {}
    _found: ClassVar[dict[str, str]] = {"rank_": "rank", "C_": "C", "alpha0_": "alpha0", "weighting_": "weighting"}
    _compared: ClassVar[dict[str, str]] = {"popularity": "the most popular items", "model": "this model"}

    def _measure(self) -> str:
        return str(self.metric)

    def __init__(
        self,
        rank: int | str = "auto",
        C: float | str = "auto",
        alpha0: float | str = "auto",
        weighting: float | str = "auto",
        *,
        confidence: str = "log",
        metric: str = "ndcg@100",
        solver: str = "trust-region",
        max_iter: int = 1000,
        tol: float = 1e-4,
        max_time: float | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        n_threads: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.C = C
        self.alpha0 = alpha0
        self.weighting = weighting
        self.confidence = confidence
        self.metric = metric
        self.solver = solver
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
        X: Any,
        y: object = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        client: Any = None,
    ) -> Self:
        """Learn the factors from what users took.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix of shape (n_users, n_items), or a path
            Counts, ones or confidences; 0, NaN and what is not stored were not taken. A file is read by
            `ObservedMatrix.read` with `duplicates="sum"`, so that it may be a log of events. Repeated entries of a
            sparse matrix in COO format are summed, too.
        y : ignored
        checkpoint : path, optional
            A file that is written from time to time, during the search for settings and during the fit. After an
            interruption of any kind, the same `fit` continues from it to bitwise the same answer; a `fit` that has
            converged returns at once. A file of other data or settings is refused; `max_iter`, `max_time`, `n_threads`
            and `verbose` may differ.
        client : distributed.Client, optional
            The client of a Dask cluster, whose workers hold blocks of users and solve for them. X may then also be a
            folder of prepared data, a Parquet file or a folder of them, on storage that all workers see, or a Dask
            DataFrame with one pair per line, each pair once. What is "auto" is found in this process, of more than 2
            million entries from a sample of users. The answer is the same; it has no `known_`.
        """
        began = time.perf_counter()
        asked, metric = self._asked(), Metric.of(self.metric)
        check_confidence(self.confidence)
        check_max_time(self.max_time)
        check_tol(self.tol)
        data: Any = self._interactions(X, fitting=True) if client is None else self._on_workers(X, client)
        self._refuse_empty(data)
        with self._solving() as interrupt:
            reporter = Reporter(self, X, several=asked.searches)

            def trying(at: ImplicitLayout) -> Callback | None:
                return reporter.callback(lambda now: at.at(now) | {"_trying": True})

            deadline = math.inf if self.max_time is None else began + SEARCHING * float(self.max_time)
            seed = int(as_generator(self.random_state).integers(2**31)) if asked.searches else 0
            threads = thread_count(self.n_threads)
            if checkpoint is None or not asked.searches:
                found = found_settings(data, asked, metric, threads, seed, interrupt, deadline, trying)
            else:
                given = search_settings(data, asked, self.metric, self.solver, self.tol, self.random_state)
                file = RankingSearchFile(checkpoint, given, seed)
                found = resumed_settings(file, data, asked, metric, threads, interrupt, deadline, trying)
            layout = layout_of(data, found.setting)
            callback = reporter.callback(layout.at)
            # A search that was stopped goes on in the same call later, which may find other settings.
            options = {"callback": callback, "checkpoint": checkpoint if found.complete else None}
            if not found.complete:
                interrupt.renew()
            left = time_left(self.max_time, began)
            result = self._solve(layout.problem(), found.setting.rank, found.start, max_time=left, **options)
            self._set(layout.model(result.U, result.V, 0.0))
            self._keep(result)
            self.rank_ = result.numerical_rank()
            self.C_, self.alpha0_, self.weighting_ = layout.C, layout.alpha0, layout.weighting
            self.path_, self.held_out_ = found.path, found.held_out
            if not layout.at_hand:
                data.cluster.forget()
            reporter.done()
        self._warn_if_not_converged()
        if not found.complete:
            self._warn_of_unfinished_search(found.path)
        self._warn_of_empty(data)
        if not result.V.any():
            warn_caller("the fit was stopped before it had an answer, so all scores are 0; raise max_time")
        return self

    def _asked(self) -> Asked:
        """The settings that were given; wrong ones are errors."""
        if not (is_auto(self.rank) or is_whole(self.rank, least=1)):
            raise ValueError(f"rank must be a whole number ≥ 1 or 'auto'; got {self.rank!r}")
        numbers: dict[str, float | None] = {}
        for name in ("C", "alpha0", "weighting"):
            value = getattr(self, name)
            number = None if is_auto(value) else as_float(value)
            if number is not None and not (math.isfinite(number) and (number > 0 or name == "weighting")):
                what = "a finite number" if name == "weighting" else "a positive finite number"
                advice = ZERO_ALPHA0 if name == "alpha0" and number == 0 else ""
                raise ValueError(f"{name} must be {what} or 'auto'; got {value!r}{advice}")
            least, most = (-MOST_WEIGHTING, MOST_WEIGHTING) if name == "weighting" else (LEAST, LARGEST)
            if number is not None and not least <= number <= most:
                raise ValueError(f"{name} must be a number from {least:g} to {most:g} or 'auto'; got {value!r}")
            numbers[name] = number
        return Asked(None if is_auto(self.rank) else int(self.rank), **numbers)

    def _interactions(self, X: Any, *, fitting: bool, leave_out: bool = False) -> ObservedMatrix:
        if isinstance(X, str | os.PathLike):
            X = ObservedMatrix.read(X, duplicates="sum")
        X = summed(X)
        data = self._observed(X if fitting else columns_by_id(X, self._cols, leave_out=leave_out), fitting=fitting)
        if fitting and self.confidence != "ones" and look_like_times(data):
            warn_caller(
                f"all values are at least {data.values.min():.3g}, like times, but counts are needed; if every line "
                "of a file is one event, say so when it is read: events"
            )
        return interactions(data, self.confidence)

    def _refuse_empty(self, data: Any) -> None:
        if not len(data):
            raise ValueError(f"X has no positive entry: {data.shape[0]} × {data.shape[1]}, all 0 or missing")

    def _on_workers(self, X: Any, client: Any) -> Any:
        """What users took as a matrix on the workers of a client."""
        needs_distributed()
        from rslm.distributed import distribute

        if not (isinstance(X, str | os.PathLike) or on_cluster(X)):
            return distribute(self._interactions(X, fitting=True), client)
        data = distribute(X, client).converted(partial(interactions, confidence=self.confidence))
        self._set_n_features(data.shape[1])
        return data

    def _set(self, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def _advice(self) -> dict[Outcome, str]:
        advice = super()._advice()
        taken = self._taken  # None if the data are on workers
        confidence = 1.0 if taken is None or taken.weights is None else float(taken.weights.mean())
        if confidence > FAR_APART * self.alpha0_:
            for outcome in (Outcome.ITERATIONS, Outcome.STALLED):
                advice[outcome] = (
                    f"not converged: confidences of {confidence:.2g} on average, with alpha0={self.alpha0_:.2g}, leave "
                    "what was not taken hardly any weight; divide the data by their mean, use confidence='log', or "
                    "leave C and alpha0 to be found"
                )
        return advice

    def _warn_of_empty(self, data: Any) -> None:
        users, items = int((data.row_counts() == 0).sum()), int((data.col_counts() == 0).sum())
        if users:
            warn_caller(
                f"{users} of {data.shape[0]} users took nothing; they are recommended what an average user would be"
            )
        if items:
            warn_caller(f"{items} of {data.shape[1]} items have no positive entry; all their scores are 0")

    # ---- scores --------------------------------------------------------------------------------------------------

    def predict(self, rows: Any, cols: ArrayLike | None = None, *, unseen: str = "error") -> Floats:
        """The scores of the entries (rows[k], cols[k]): near 1 for what a user would take, near 0 for most.

        Parameters
        ----------
        rows, cols : arrays of one length
            Positions, or ids where `fit` was given ids. Without `cols`, `rows` is a dense matrix X of new users.
        unseen : {"error", "mean"}
            Whether a user or item that `fit` has not seen is an error, or scored as an average user, and by 0.

        Returns
        -------
        array
            One score for each pair; for a matrix X, those of all items for each of its users.
        """
        check_is_fitted(self)
        if cols is None:
            refuse_sparse(rows, "use recommend_for(X) for the best items, or predict(rows, cols) for single entries")
            return np.asarray(self._folded(self._interactions(rows, fitting=False)) @ self.col_factors_.T)
        users, i = places(self._rows, rows, self.row_factors_, self._average_user, unseen)
        items, j = places(self._cols, cols, self.col_factors_, np.zeros(self.col_factors_.shape[1]), unseen)
        if i.shape != j.shape:
            raise ValueError(f"rows and cols must have the same length; got {len(i)} and {len(j)}")
        return predict_pairs(i, j, users, items, thread_count(self.n_threads))

    def score(self, X: Any, y: object = None) -> float:
        """The `metric` of the ranking of items that the model was not fitted to; larger is better.

        If X holds fitted users, its items have to be found among all that `fit` was not given. Row ids tell who they
        are; without ids, an X of the shape that `fit` was given, none of whose items it was given, is taken for items
        that were held out. Any other X holds new users, as the folds of `GridSearchCV` do: four fifths of the items of
        each, chosen at random with a fixed seed, are shown to the model, the others have to be found.
        For other metrics and options use `rslm.evaluate.RankingScorer`.

        Parameters
        ----------
        X : as in `fit`, with the same columns
        y : ignored
        """
        check_is_fitted(self)
        data = self._interactions(X, fitting=False)
        self._refuse_empty(data)
        return Metric.of(self.metric).of_model(self, data)

    def certify(self, X: Any) -> Certificate:
        """How far the learned factors of the items are from the optimum on these data, with the users solved for anew.

        Parameters
        ----------
        X : as in `fit`, with the same columns
            Its rows may be other users, at least as many as the rank.

        Returns
        -------
        Certificate
        """
        check_is_fitted(self)
        data, rank = self._interactions(X, fitting=False), self.col_factors_.shape[1]
        self._refuse_empty(data)
        if data.shape[0] < rank:
            raise ValueError(f"X has {data.shape[0]} users, but a model of rank {rank} needs at least {rank}")
        setting = Setting(rank, self.C_, self.alpha0_, self.weighting_)
        layout = replace(layout_of(data, setting), left="features")
        return self._solve(layout.problem(), rank, layout.start(self.col_factors_), max_iter=0).certificate

    def recommend(self, rows: ArrayLike, top: int = 10, known: ObservedMatrix | None = None) -> Listed:
        """The items with the largest scores for each user, best first, without those that the user took.

        Parameters
        ----------
        rows : positions, or ids where `fit` was given ids
        top : int, default=10
            Maximum number of items for each user; a user who took almost everything gets fewer.
        known : ObservedMatrix of the shape that `fit` was given, optional
            Its entries are left out. If None, those of `known_`.
            To recommend known items, too, give one without entries:
            ``ObservedMatrix.from_any(scipy.sparse.csr_array(shape), allow_empty=True)``.

        Returns
        -------
        items : list of arrays, one for each user
            Ids, or positions where `fit` was given no ids.
        scores : list of arrays of the same lengths
        """
        check_is_fitted(self)
        if known is not None:
            check_known(known, self._rows, self._cols)
        at, left_out = self._rows.positions(rows), self._taken if known is None else known
        factors = self.row_factors_, self.col_factors_
        return listed(*recommended(at, *factors, top, left_out, thread_count(self.n_threads)), self._cols)

    @property
    def known_(self) -> ObservedMatrix | None:
        """What every user took: `recommend` leaves it out. None for a model that was fitted by a cluster."""
        check_is_fitted(self)
        return self._taken

    def recommend_for(self, X: Any, top: int = 10) -> Listed:
        """The items with the largest scores for new users, without those that they took.

        Every user is fitted at the learned factors of the items. One without an item gets what an average user would.

        Parameters
        ----------
        X : array, DataFrame, scipy.sparse matrix or ObservedMatrix
            One row for each user, and the columns that `fit` was given. Of an ObservedMatrix with ids, where `fit` was
            given ids too, columns are found by id, so that it needs only the items that somebody took.
            Entries of items that are unknown to the model are left out, with a warning.
        top : int, default=10
            Maximum number of items for each user.

        Returns
        -------
        items, scores : as in `recommend`
        """
        check_is_fitted(self)
        data = self._interactions(X, fitting=False, leave_out=True)
        users, rows = self._folded(data), np.arange(data.shape[0])
        found = recommended(rows, users, self.col_factors_, top, data, thread_count(self.n_threads))
        return listed(*found, self._cols)

    def _folded(self, data: ObservedMatrix) -> Floats:
        """Factors of new users."""
        users = self._space.fold_in(data, thread_count(self.n_threads))
        empty = data.row_counts() == 0
        if empty.any():
            users[empty] = self._average_user
        return users

    def explain(self, row: Any, col: Any, top: int | None = 10) -> tuple[NDArray[Any], Floats]:
        """Which of the items that a user took made the score of an item: contributions, largest first.

        The factors of a user solve a linear system whose right-hand side is a sum over the items that the user took.
        So the score is a sum over these, too. It is that of `predict` if the fit has converged. For a user who took
        nothing, whose scores are those of an average user, there is nothing to list.

        Parameters
        ----------
        row, col : position, or id where `fit` was given ids
            Of a user and of an item, which the user need not have taken.
        top : int or None, default=10
            Maximum number of items; None for all, whose contributions sum to the score.

        Returns
        -------
        items : array
            Ids, or positions where `fit` was given no ids.
        contributions : array of the same length
            Negative where an item speaks against the recommendation.
        """
        check_is_fitted(self)
        if not (top is None or is_whole(top, least=1)):
            raise ValueError(f"top must be a whole number ≥ 1 or None; got {top!r}")
        if self._taken is None:
            raise ValueError(
                "a model that was fitted by a cluster does not know what users took; recommend_for(X) takes it from X, "
                "and a fit without a client keeps it"
            )
        users, items = self._rows.positions(row), self._cols.positions(col)
        if len(users) != 1 or len(items) != 1:
            raise ValueError(f"explain takes one user and one item; got {len(users)} and {len(items)}")
        start, end = self._taken.indptr[users[0]], self._taken.indptr[users[0] + 1]
        own = one_row(self._taken, int(start), int(end))
        parts_of_score = self._space.contributions(own, int(items[0]), thread_count(self.n_threads))
        order = np.argsort(-parts_of_score, kind="stable")[:top]
        at = own.index[order].astype(np.int64)
        return at if self._cols.ids is None else np.asarray(self._cols.ids)[at], parts_of_score[order]

    def similar_items(self, cols: ArrayLike, top: int = 10) -> Listed:
        """The items whose factors point in the most similar directions, best first, and the cosines.

        Parameters
        ----------
        cols : positions, or ids where `fit` was given ids
        top : int, default=10
            Maximum number of items for each; an item is not similar to itself. There are none for an item that nobody
            took.

        Returns
        -------
        items, cosines : lists of arrays, one for each of `cols`
        """
        check_is_fitted(self)
        return self._similar(self.col_factors_, self._cols, cols, top)

    def similar_users(self, rows: ArrayLike, top: int = 10) -> Listed:
        """The users whose factors point in the most similar directions, best first, and the cosines.

        Parameters
        ----------
        rows, top : as in `similar_items`, for users

        Returns
        -------
        users, cosines : lists of arrays, one for each of `rows`
        """
        check_is_fitted(self)
        return self._similar(self.row_factors_, self._rows, rows, top)

    def _similar(self, factors: Floats, labels: Labels, wanted: ArrayLike, top: int) -> Listed:
        return similar(factors, labels, wanted, top, thread_count(self.n_threads))

    # ---- files ---------------------------------------------------------------------------------------------------

    def _to_file(self) -> tuple[Arrays, Facts]:
        arrays, facts = super()._to_file()
        arrays |= {"row_factors_": self.row_factors_, "col_factors_": self.col_factors_}
        if self._taken is not None:
            arrays |= known_to_arrays(self._taken)
            arrays |= {} if self._taken.weights is None else {"confidences": self._taken.weights}
        arrays["average_user"] = self._average_user
        arrays |= ids_to_array("row", self._rows.ids) | ids_to_array("col", self._cols.ids)
        if self.path_ is not None:
            arrays |= {f"path_{name}": values for name, values in self.path_.items()}
        facts |= {"C": self.C_, "alpha0": self.alpha0_, "weighting": self.weighting_, "held_out": self.held_out_}
        return arrays, facts | {"trace_norm": self._space.trace_norm, "mean_count": self._space.mean_count}

    @classmethod
    def _from_file(cls, params: Facts, arrays: Arrays, facts: Facts) -> Self:
        model = super()._from_file(params, arrays, facts)
        check_confidence(model.confidence)
        model.row_factors_ = parts.floats(arrays, "row_factors_", None, None)
        rows, rank = model.row_factors_.shape
        model.col_factors_ = parts.floats(arrays, "col_factors_", None, rank)
        shape = rows, len(model.col_factors_)
        ids = [ids_from_array(side, arrays) for side in ("row", "col")]
        if any(found is not None and len(found) != count for found, count in zip(ids, shape, strict=True)):
            raise ValueError("ids")
        model._rows, model._cols = Labels("row", shape[0], ids[0]), Labels("column", shape[1], ids[1])
        known = known_from_arrays(arrays, model._rows, model._cols)
        if known is not None and not len(known.index):
            raise ValueError("known_indptr")
        if known is not None and "confidences" in arrays:
            weights = parts.floats(arrays, "confidences", len(known.index))
            if not (weights > 0).all():
                raise ValueError("confidences")
            known = replace(known, weights=weights)
        model._taken, model._average_user = known, parts.floats(arrays, "average_user", rank)
        model.C_, model.alpha0_ = (parts.number(facts, name, least=LEAST, most=LARGEST) for name in ("C", "alpha0"))
        model.weighting_ = parts.number(facts, "weighting", least=-MOST_WEIGHTING, most=MOST_WEIGHTING)
        trace_norm = parts.number(facts, "trace_norm", least=0.0)
        settings = model.C_, model.alpha0_, model.weighting_
        mean_count = parts.number(facts, "mean_count", least=np.finfo(float).tiny)
        model._space = ItemSpace(model.col_factors_, trace_norm, *settings, mean_count)
        path = {k.removeprefix("path_"): parts.floats(arrays, k, None) for k in arrays if k.startswith("path_")}
        held_out = facts["held_out"]
        model.path_ = path or None
        model.held_out_ = None if held_out is None else {k: parts.number(held_out, k) for k in ("popularity", "model")}
        model._read_features(arrays, facts, shape[1], rank)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def summed(X: Any) -> Any:
    """A sparse matrix in COO format, which may list events, with repeated entries summed; everything else as it is."""
    if not sparse.issparse(X):
        return X
    matrix: Any = X  # annotations of SciPy lack its attributes
    if matrix.format != "coo" or matrix.ndim != 2:
        return X
    return (matrix.astype(np.int64) if matrix.dtype.kind in "biu" else matrix).tocsr()  # small types would overflow


def one_row(data: ObservedMatrix, start: int, end: int) -> ObservedMatrix:
    """The entries `start` … `end` − 1 as a matrix of one row."""
    at = slice(start, end)
    weights = None if data.weights is None else data.weights[at]
    indptr = np.array([0, end - start], dtype=np.int64)
    return ObservedMatrix(indptr, data.index[at], data.values[at], (1, data.shape[1]), weights=weights)


def similar(factors: Floats, labels: Labels, wanted: ArrayLike, top: int, threads: int) -> Listed:
    """The rows of the factors with the largest cosines to those that are wanted, by id, and the cosines.

    There are none where the factors are 0, which have no direction.
    """
    at = labels.positions(wanted)
    sizes = np.linalg.norm(factors, axis=1, keepdims=True)
    directions = factors / np.where(sizes > 0, sizes, 1.0)
    n = len(factors)
    itself = ObservedMatrix(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n), (n, n))
    found, cosines = recommended(at, directions, directions, top, itself, threads)
    cosines[sizes[at, 0] == 0] = -np.inf
    return listed(found, cosines, labels)
