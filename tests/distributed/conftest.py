"""One cluster for all tests of a file: to start one takes longer than most of them, and an idle one is not free."""

import pytest
from clusters import local


@pytest.fixture(scope="module")
def client():
    """Workers that are threads, which is quicker."""
    with local(2, processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def two_processes():
    with local(2, processes=True) as client:
        yield client


@pytest.fixture
def processes(two_processes):
    """Workers that can be killed, over TCP. One that an earlier test has killed is started again by its nanny."""
    two_processes.wait_for_workers(2, timeout=60)
    return two_processes
