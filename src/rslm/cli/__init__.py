"""The command line. It talks to estimators and data only."""

from rslm.cli.app import main
from rslm.cli.interrupts import program

__all__ = ["main", "program"]
