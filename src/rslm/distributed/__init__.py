"""Fits on several machines: columns are shared out among the workers of a Dask cluster, and only thin arrays travel."""

from rslm.distributed.matrix import DistributedMatrix, distribute

__all__ = ["DistributedMatrix", "distribute"]
