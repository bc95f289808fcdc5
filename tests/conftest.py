"""What all tests share."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Where a file of real data is: `shared_data("ml-100k/u.data")`. The test is skipped where there is none."""
    folder = Path(os.environ.get("RSLM_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")

    def find(name: str) -> Path:
        path = folder / name
        if not path.exists():
            pytest.skip(f"real data {name} is neither in $RSLM_DATA nor in ../shared/data")
        return path

    return find
