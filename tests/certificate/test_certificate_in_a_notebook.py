"""A certificate in a notebook."""

from dataclasses import replace

import pytest

from rslm.certificate import Certificate, Relaxation

GOOD = Certificate(10.0, 8.0, 1.0, 1.0, "Lanczos", 3, True, 1e-6, 2.0, 0.25)


@pytest.mark.parametrize(
    ("certificate", "bar"),
    [
        (GOOD, True),
        (replace(GOOD, relaxations=(Relaxation("loss", 0.1),)), True),
        (replace(GOOD, dual=10.0, gap=0.0, relative_gap=0.0), False),
        (replace(GOOD, dual=-8.0, gap=18.0, relative_gap=2.25), False),
        (replace(GOOD, dual=float("-inf"), gap=float("inf"), relative_gap=float("inf"), stationary=False), False),
    ],
)
def test_verdict_bounds_and_bar(certificate, bar):
    html = certificate._repr_html_()
    assert certificate.verdict in html
    assert certificate.meaning in html
    assert ">10<" in html
    assert ("<svg" in html) == bar
    assert "inf" not in html.split("</style>")[1].replace("infinite", "")
    assert all(str(relaxation) in html for relaxation in certificate.relaxations)
    assert ("lower bound for any matrix" in html) == (certificate.gap < float("inf"))
