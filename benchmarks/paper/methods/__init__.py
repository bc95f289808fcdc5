"""One file a method, written from the description in its paper.

A method of completion is a module with

    NAME: str                       as in the tables
    PROBLEM: str                    what it minimises, one line of plain text for the tables
    GRID: tuple[float, ...]         its regularisation: values to choose from, the strongest first; (0.0,) for none
    def fit(data: Entries, rank: int, weight: float, record: Record) -> None

`fit` calls `record(left, right)` at its start and after every iteration with factors of W = left @ right.T, and returns
when it has converged or cannot go on. It does not look at the clock and sees no test data: `record` raises `Enough`
when the time is over. The last factors recorded are the answer. All randomness comes from a seed of its own.
"""
