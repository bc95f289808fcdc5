"""Matrices from files: text tables, Parquet, MatrixMarket, NumPy and MATLAB; what is not told is guessed, and said."""

from rslm.data.files.read import Source, read_pairs, read_source

__all__ = ["Source", "read_pairs", "read_source"]
