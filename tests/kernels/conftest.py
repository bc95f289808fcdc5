"""Kernels are tested on every instruction set of this machine."""

import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_numpy():
    """NumPy's own threads only wait for each other in systems as small as these."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(autouse=True)
def on_every_set(instruction_set):
    """All tests of this folder."""
