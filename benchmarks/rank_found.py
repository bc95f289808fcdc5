"""Is the rank of generated data found? Required: in at least 95 of 100 cases.

    python benchmarks/rank_found.py [--effects] [--cases N]

Matrices of rank 1 to 10 with noise, half of their entries observed, of three shapes; with --effects, effects of rows
and columns and a mean of 3 are added.
"""

from __future__ import annotations

import argparse

import numpy as np

from rslm import MatrixCompletion

SHAPES = (120, 100), (200, 80), (90, 300)
NOISES = 0.1, 0.3


def generated(seed: int, effects: bool) -> tuple[np.ndarray, int]:
    """A matrix with NaN where it is not observed, and its rank."""
    rng = np.random.default_rng(seed)
    rank, shape, noise = 1 + seed % 10, SHAPES[seed % 3], NOISES[seed % 2]
    W = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1])) / np.sqrt(rank)
    if effects:
        W += 3.0 + rng.standard_normal((shape[0], 1)) + rng.standard_normal(shape[1])
    X = W + noise * rng.standard_normal(shape)
    X[rng.random(shape) < 0.5] = np.nan
    return X, rank


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--effects", action="store_true")
    parser.add_argument("--cases", type=int, default=100)
    args = parser.parse_args()
    wrong = []
    for seed in range(args.cases):
        X, rank = generated(seed, args.effects)
        found = MatrixCompletion(random_state=0).fit(X).rank_
        if found != rank:
            wrong.append((seed, rank, found))
            print(f"seed {seed}: rank {rank}, found {found}", flush=True)
    print(f"{args.cases - len(wrong)} of {args.cases} ranks were found")


if __name__ == "__main__":
    main()
