"""A certificate in a notebook."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rslm.display.fragments import block, captioned, facts, sentence, side_by_side, verdict
from rslm.display.svg import gap

if TYPE_CHECKING:
    from rslm.certificate.certificate import Certificate

VISIBLE = 1e-3  # relative gap below which both bounds are at the same pixel


def certificate_html(certificate: Certificate) -> str:
    """What it means, the bounds, and a bar that shows how far they are apart."""
    c = certificate
    bounds = {"objective of the answer": f"{c.primal:.8g}"}
    if math.isfinite(c.gap):
        bounds |= {"lower bound for any matrix": f"{c.dual:.8g}", "gap": f"{c.gap:.3g}"}
        bounds |= {"relative gap": f"{c.relative_gap:.2g}"}
    picture = ""
    if math.isfinite(c.gap) and 0 < c.dual <= c.primal < math.inf and c.gap > VISIBLE * c.primal:
        words = "the optimum is between the lower bound and the objective of the answer"
        picture = captioned(
            gap(c.dual, c.primal, words), "blue up to the lower bound; the optimum is in the orange part"
        )
    relaxed = "".join(sentence(f"{relaxation}.") for relaxation in c.relaxations)
    return block("Certificate", verdict(c.verdict), side_by_side(facts(bounds), picture), sentence(c.meaning), relaxed)
