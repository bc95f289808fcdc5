"""The command line. It talks to estimators and data only."""

from rslm.cli.app import main

__all__ = ["main"]
