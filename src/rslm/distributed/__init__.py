"""Fits on several machines: columns are distributed over the workers of a Dask cluster; only thin arrays are sent."""

from rslm.distributed.matrix import DistributedMatrix, distribute

__all__ = ["DistributedMatrix", "distribute"]
