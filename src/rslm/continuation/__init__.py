"""Ways to a problem over easier ones, where they begin, and how they end where the time is over."""

import rslm.solvers  # noqa: F401  (before what is here: solvers import it, and it imports solvers.manifold)
