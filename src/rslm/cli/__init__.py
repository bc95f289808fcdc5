"""The command line. It uses only the public estimators, data and reports.

The modules of the commands (`complete`, `predict` …) import NumPy and all that needs it within the functions: otherwise
`rslm --help` would take seconds.
"""

from rslm.cli.app import main
from rslm.cli.interrupts import program

__all__ = ["main", "program"]
