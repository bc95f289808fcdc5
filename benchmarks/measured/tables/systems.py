"""Systems with inputs compared with N4SID."""

from __future__ import annotations

from measured.store import find
from measured.written import Columns, columns, fixed, share, with_circumstances

INPUTS = {"AR(1)": "filtered noise", "multi-sine": "30 sinusoids"}


def systems() -> str:
    report = find("systems")
    asked: Columns = {
        "input": ("input", lambda name: INPUTS.get(str(name), str(name))),
        "noise": ("noise", str),
        "size": ("size", str),
        "rslm": ("ours", fixed(3)),
        "N4SID, true order": ("N4SID, true order", fixed(3)),
        "N4SID, chosen": ("N4SID, chosen", fixed(3)),
        "order found": ("order found", share()),
    }
    return with_circumstances(columns(report.rows, asked), report)


PLACES = {"systems": systems}
