"""What all tests share."""

import gc
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rslm import kernels

# One that was asked for is enough.
SETS = [kernels.instruction_set()] if os.environ.get("RSLM_INSTRUCTION_SET") else kernels.instruction_sets()


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: without them, every search for garbage is shorter."""
    gc.collect()
    gc.freeze()


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


@pytest.fixture(params=SETS)
def instruction_set(request):
    """A test that asks for this one runs on every instruction set of this machine."""
    default = kernels.instruction_set()
    kernels.use_instruction_set(request.param)
    yield request.param
    kernels.use_instruction_set(default)
