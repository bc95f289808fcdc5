"""The version of the library."""

from importlib.metadata import version

__version__: str = version("rslm")
