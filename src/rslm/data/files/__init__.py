"""Matrices from files: text tables, Parquet, MatrixMarket, NumPy and MATLAB. Guesses about the format are reported."""

from rslm.data.files.read import Source, read_pairs, read_source
from rslm.data.files.table import NamedColumns, read_table

__all__ = ["NamedColumns", "Source", "read_pairs", "read_source", "read_table"]
