"""Structures: the set that W has to lie in. None means all matrices."""
