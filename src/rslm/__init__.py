"""Structured low-rank matrix learning with a certificate of optimality.

A name is imported when it is first used. So `import rslm` takes no time, and the command line can handle Ctrl-C before
anything slow is imported.
"""

TYPE_CHECKING = False  # as type checkers know it, without the time it takes to import `typing`
if TYPE_CHECKING:
    from rslm.data import ObservedMatrix
    from rslm.estimators import (
        HankelModel,
        ImplicitCompletion,
        InductiveCompletion,
        MatrixCompletion,
        MultiTaskClassifier,
        MultiTaskRegressor,
        PanelCompletion,
        ReducedRankRegressor,
        load,
    )
    from rslm.evaluation.objective import Objective
    from rslm.problem import Problem
    from rslm.runtime.version import __version__
    from rslm.solvers import solve
else:  # a type checker that sees `__getattr__` would accept any name
    _HOME = {
        "Objective": "evaluation.objective",
        "ObservedMatrix": "data",
        "Problem": "problem",
        "__version__": "runtime.version",
        "solve": "solvers",
    }  # the others are estimators

    def __getattr__(name):
        from importlib import import_module
        from importlib.util import find_spec

        if name in __all__:
            value = getattr(import_module(f"rslm.{_HOME.get(name, 'estimators')}"), name)
        elif not name.startswith("_") and find_spec(f"rslm.{name}") is not None:  # as `rslm.losses`
            value = import_module(f"rslm.{name}")
        else:
            raise AttributeError(f"module 'rslm' has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__():
        return sorted({*globals(), *__all__})


__all__ = [
    "HankelModel",
    "ImplicitCompletion",
    "InductiveCompletion",
    "MatrixCompletion",
    "MultiTaskClassifier",
    "MultiTaskRegressor",
    "Objective",
    "ObservedMatrix",
    "PanelCompletion",
    "Problem",
    "ReducedRankRegressor",
    "__version__",
    "load",
    "solve",
]
