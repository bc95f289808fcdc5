"""Kernels are tested on every instruction set of this machine."""

import pytest
from threadpoolctl import threadpool_limits

from rslm import kernels


@pytest.fixture(scope="module", autouse=True)
def one_thread_for_numpy():
    """NumPy's own threads only wait for each other in systems as small as these."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(params=kernels.instruction_sets(), autouse=True)
def instruction_set(request):
    default = kernels.instruction_set()
    kernels.use_instruction_set(request.param)
    yield request.param
    kernels.use_instruction_set(default)
