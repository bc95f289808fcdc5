"""Matrix completion with the square loss."""

OURS = ("rslm_tr", "rslm_cg", "rslm_weighted", "rslm_effects")
OTHERS = ("mmbs", "apgl", "active_alt", "r3mc", "rtrmc", "lmafit", "prp")
SPECTRAHEDRON = ("rslm_tr", "rslm_cg")  #: the paper's problem, and nothing else
SAME_PROBLEM = (*SPECTRAHEDRON, "mmbs", "apgl", "active_alt", "prp")  #: the trace norm, squared or not

_SHARED = {
    "rslm_tr": ("spectrahedron",),
    "rslm_cg": ("spectrahedron",),
    "rslm_weighted": ("estimator",),
    "rslm_effects": ("estimator",),
    "apgl": ("nuclear_norm",),
    "active_alt": ("nuclear_norm",),
    "prp": ("nuclear_norm",),
}


def sources(method: str) -> tuple[str, ...]:
    """The modules and packages that decide what a method does."""
    own = tuple(f"paper.methods.completion.{name}" for name in (method, *_SHARED.get(method, ())))
    return (*own, *(("rslm",) if method in OURS else ("rslm.kernels", "rslm.linalg", "paper.trust_region")))
