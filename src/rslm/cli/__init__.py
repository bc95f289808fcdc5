"""The command line. It uses only the public estimators, data and reports."""

from rslm.cli.app import main
from rslm.cli.interrupts import program

__all__ = ["main", "program"]
