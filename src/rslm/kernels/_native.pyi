from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rslm.runtime.types import Floats, Indices32, Indices64

class Stopped(Exception): ...  # noqa: N818, as it is not an error

def ask(function: Callable[[], bool]) -> None: ...
def instruction_set() -> str: ...
def instruction_sets() -> list[str]: ...
def use_instruction_set(name: str) -> None: ...
def limit_threads(most: int) -> None: ...
def padded_width(rank: int) -> int: ...
def padded(U: Floats, out: Floats, /) -> None: ...
def box_curvature(
    y: Floats,
    error: Floats,
    order: Indices64 | None,
    lower: float,
    upper: float,
    mirrored: bool,
    epsilon: float,
    smoothing: float,
    curvature: Floats,
    threads: int,
    /,
) -> None: ...
def solve(half: bool, factors: Floats, rhs: Floats, solution: Floats, threads: int, /) -> None: ...
def predict_pairs(i: Indices64, t: Indices64, U: Floats, V: Floats, prediction: Floats, threads: int, /) -> None: ...
def bound(
    X: Floats,
    V: Floats,
    factors: Floats,
    lower: Floats,
    upper: Floats,
    stiffness: float,
    warm_indptr: Indices64,
    warm_rows: Indices32,
    shift_indptr: Indices64,
    shift_rows: Indices32,
    shift: Floats,
    before: Floats,
    margin: Floats,
    unrest: float,
    restless: Indices32,
    excess: Floats,
    indptr: Indices64,
    most: int,
    threads: int,
    /,
) -> tuple[Indices32, Floats, Floats]: ...

class Features:
    def __init__(
        self,
        indptr: Indices64 | None,
        index: Indices32 | None,
        values: Floats,
        rows: int,
        features: int,
    ) -> None: ...

class Columns:
    def __init__(self, indptr: Indices64, index: Indices32, rows: int) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def columns(self) -> int: ...
    @property
    def entries(self) -> int: ...
    @property
    def shard_count(self) -> int: ...
    def evaluate(
        self,
        y: Floats,
        weight: Floats | None,
        U: Floats,
        ridge: Floats,
        pinned: bool,
        single: bool,
        V: Floats,
        factors: Floats,
        residual: Floats,
        by_rows: Floats,
        threads: int,
        /,
    ) -> float: ...
    def derivative(
        self,
        residual: Floats,
        weight: Floats | None,
        U: Floats,
        single: bool,
        V: Floats,
        factors: Floats,
        dU: Floats,
        dV: Floats | None,
        by_rows: Floats,
        threads: int,
        /,
    ) -> None: ...
    def evaluate_tasks(
        self,
        x: Features,
        centred: bool,
        y: Floats,
        U: Floats,
        ridge: Floats,
        pinned: bool,
        V: Floats,
        factors: Floats,
        residual: Floats,
        by_features: Floats,
        threads: int,
        /,
    ) -> float: ...
    def derivative_tasks(
        self,
        x: Features,
        centred: bool,
        residual: Floats,
        U: Floats,
        V: Floats,
        factors: Floats,
        dU: Floats,
        by_features: Floats,
        threads: int,
        /,
    ) -> None: ...
    def predict_tasks(self, x: Features, U: Floats, V: Floats, prediction: Floats, threads: int, /) -> None: ...
    def features_of_tasks(self, x: Features, z: Floats, by_columns: Floats, threads: int, /) -> None: ...
    def factorise(
        self,
        X: Floats,
        weight: Floats | None,
        more: Columns | None,
        more_weight: Floats | None,
        ridge: Floats,
        factors: Floats,
        threads: int,
        /,
    ) -> None: ...
    def regress(
        self,
        y: Floats,
        weight: Floats | None,
        U: Floats,
        ridge: Floats,
        pinned: bool,
        V: Floats,
        factors: Floats,
        threads: int,
        /,
    ) -> None: ...
    def residuals(
        self,
        y: Floats,
        weight: Floats | None,
        U: Floats,
        V: Floats,
        residual: Floats,
        by_rows: Floats,
        threads: int,
        /,
    ) -> float: ...
    def solve_systems(
        self,
        X: Floats,
        weight: Floats | None,
        ridge: Floats,
        rooms: Indices64 | None,
        factors: Floats | None,
        known: bool,
        rhs: Floats,
        solution: Floats,
        threads: int,
        /,
    ) -> None: ...
    def leverages(self, X: Floats, weight: Floats | None, ridge: Floats, out: Floats, threads: int, /) -> None: ...
    def scatter(self, s: Floats, V: Floats, by_rows: Floats, threads: int, /) -> None: ...
    def gather(self, s: Floats, X: Floats, by_columns: Floats, threads: int, /) -> None: ...
    def grams(self, X: Floats, weight: Floats | None, grams: Floats, threads: int, /) -> None: ...
    def box(
        self,
        y: Floats,
        U: Floats,
        c: Floats,
        lower: float,
        upper: float,
        mirrored: bool,
        epsilon: float,
        smoothing: float,
        dual: Floats,
        error: Floats,
        V: Floats,
        value: Floats,
        gap: Floats,
        rounds: Indices32,
        threads: int,
        /,
    ) -> None: ...
    def newton(
        self,
        first: int,
        last: int,
        active: NDArray[np.uint8],
        x: Floats,
        z: Floats,
        weight: Floats,
        V: Floats,
        ridge: Floats,
        factors: Floats | None,
        step: Floats,
        decrement: Floats,
        /,
    ) -> None: ...
    def products(
        self, first: int, last: int, active: NDArray[np.uint8], x: Floats, rows: Floats, product: Floats, /
    ) -> None: ...
    def gram(self, s: Floats, X: Floats, Y: Floats | None, product: Floats, threads: int, /) -> None: ...
    def predict(self, U: Floats, V: Floats, prediction: Floats, threads: int, /) -> None: ...
