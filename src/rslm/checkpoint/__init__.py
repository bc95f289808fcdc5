"""Fits that go on where they were stopped: the file, and what it must agree with."""

import rslm.solvers  # noqa: F401  (before what is here: solvers import it, and it imports solvers.result)
