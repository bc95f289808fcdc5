"""How far the answer can be from the global optimum of the convex problem."""

from rslm.certificate.certify import (
    Certificate,
    Kept,
    bare_certificate,
    certify,
    no_certificate,
    nuclear_norm,
)

__all__ = ["Certificate", "Kept", "bare_certificate", "certify", "no_certificate", "nuclear_norm"]
