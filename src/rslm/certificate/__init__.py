"""How far the answer can be from the global optimum of the convex problem."""

from rslm.certificate.certificate import Certificate
from rslm.certificate.certify import bare_certificate, certify, no_certificate
from rslm.certificate.relaxation import Relaxation

__all__ = ["Certificate", "Relaxation", "bare_certificate", "certify", "no_certificate"]
