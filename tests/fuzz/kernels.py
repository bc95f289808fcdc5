"""Placeholder."""


def case(seed: int) -> None:
    pass
