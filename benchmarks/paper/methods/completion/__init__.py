"""Matrix completion with the square loss."""

OURS = ("rslm_tr", "rslm_cg", "rslm_weighted", "rslm_effects")
OTHERS = ("mmbs", "apgl", "active_alt", "r3mc", "rtrmc", "lmafit", "prp")
SPECTRAHEDRON = ("rslm_tr", "rslm_cg")  #: the paper's problem, and nothing else
SAME_PROBLEM = (*SPECTRAHEDRON, "mmbs", "apgl", "active_alt", "prp")  #: the trace norm, squared or not

_NUCLEAR_NORM = ("paper.methods.completion.nuclear_norm",)
_TRUST_REGION = ("paper.trust_region",)
_SPECTRAHEDRON = ("paper.methods.completion.spectrahedron",)
_ESTIMATOR = ("paper.methods.completion.estimator",)
_SHARED = {
    "rslm_tr": _SPECTRAHEDRON,
    "rslm_cg": _SPECTRAHEDRON,
    "rslm_weighted": _ESTIMATOR,
    "rslm_effects": _ESTIMATOR,
    "mmbs": _TRUST_REGION,
    "rtrmc": _TRUST_REGION,
    "apgl": _NUCLEAR_NORM,
    "active_alt": _NUCLEAR_NORM,
    "prp": _NUCLEAR_NORM,
}


def sources(method: str) -> tuple[str, ...]:
    """The modules that decide what a method does."""
    return (f"paper.methods.completion.{method}", *_SHARED.get(method, ()))
