"""Complex series: free induction decays (FIDs) of magnetic resonance, beside HSVD (the package hlsvdpropy).

    python benchmarks/series/complex_signals.py generated   # 5, 8 and 10 damped lines in noise
    python benchmarks/series/complex_signals.py coils       # 4 and 8 coils with noise of different sizes
    python benchmarks/series/complex_signals.py record      # the FID that hlsvdpropy carries, and FIDs like it

Lines are those of a brain at 3 T, sampled every half millisecond; frequencies, dampings, amplitudes and phases vary
from FID to FID. Errors are root mean squares over lines and FIDs, each error relative to its own Cramér–Rao bound,
which is computed from the Fisher matrix of all parameters. HankelModel has its default settings, but in the study
`record` it may find up to 40 lines instead of 20; its errors are those of the FIDs whose order it found. HSVD is
given the true order, and as its users do, 25 singular values, of which those nearest to the true lines count; both on
the same FIDs. Noise is that of each part, where the largest line has amplitude 1.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from common import report
from rslm import HankelModel

Floats = NDArray[Any]
Complexes = NDArray[Any]

DWELL = 5e-4  # seconds
LARMOR = 127.7  # Hz per ppm
WATER = 4.65  # ppm, where the frequency is 0
LINES = {  # ppm and amplitude, the most important ones first
    "N-acetylaspartate": (2.01, 1.0),
    "creatine": (3.03, 0.7),
    "choline": (3.21, 0.6),
    "myo-inositol": (3.56, 0.5),
    "creatine, second": (3.92, 0.5),
    "glutamate": (2.35, 0.5),
    "water, residual": (4.67, 0.9),
    "lipid": (1.05, 0.4),
    "lactate": (1.305, 0.4),
    "lactate, second": (1.36, 0.4),
}
SIZES = ((5, 512), (8, 1024), (10, 2048))  # lines, samples
NOISES = (0.01, 0.03, 0.1)
FIDS = 40
MOST_LINES = 40  # that are looked for in the record
MANY = 25  # singular values
SEED = 41_000
QUANTITIES = ("frequency", "damping", "amplitude", "phase")


@dataclass(frozen=True)
class Truth:
    poles: Complexes
    amplitudes: Complexes  # (lines, coils)
    noises: Floats  # of the parts of each coil

    def signal(self, n: int) -> Complexes:
        return np.asarray(self.poles ** np.arange(n)[:, None] @ self.amplitudes)

    def seen(self, n: int, rng: np.random.Generator) -> Complexes:
        shape = (n, len(self.noises))
        return np.asarray(self.signal(n) + self.noises * (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)))

    def bounds(self, n: int) -> dict[str, Floats]:
        """The Cramér–Rao bounds of the standard deviations: of each line, for amplitudes and phases in each coil."""
        t, k, coils = np.arange(n)[:, None], *self.amplitudes.shape
        B = self.poles**t
        fisher = np.zeros((2 * k * (1 + coils), 2 * k * (1 + coils)))
        for c, (a, noise) in enumerate(zip(self.amplitudes.T, self.noises, strict=True)):
            D = np.zeros((n, len(fisher)), dtype=complex)
            D[:, :k], D[:, k : 2 * k] = 2j * np.pi * t * B * a, -t * B * a
            own = 2 * k * (1 + c)
            D[:, own : own + k], D[:, own + k : own + 2 * k] = B * a / np.abs(a), 1j * B * a
            fisher += (D.conj().T @ D).real / noise**2
        scale = 1.0 / np.sqrt(np.diag(fisher))
        least = scale * np.sqrt(np.diag(np.linalg.inv(fisher * np.outer(scale, scale))))
        rest = least[2 * k :].reshape(coils, 2, k)
        return dict(zip(QUANTITIES, (least[:k], least[k : 2 * k], rest[:, 0].T, rest[:, 1].T), strict=True))


def fid(lines: int, noises: Floats, rng: np.random.Generator) -> Truth:
    ppm, sizes = np.array(list(LINES.values())[:lines]).T
    hertz = (ppm - WATER) * LARMOR + rng.uniform(-1.0, 1.0, lines)
    dampings = np.pi * rng.uniform(3.0, 7.0, lines)  # per second; the width of a line is 3 … 7 Hz
    amplitudes = (
        sizes * rng.uniform(0.8, 1.2, lines) * np.exp(1j * (rng.uniform(0, 2 * np.pi) + rng.normal(0, 0.2, lines)))
    )
    coils = np.ones(1) if len(noises) == 1 else rng.uniform(0.4, 1.0, len(noises))
    turned = coils * np.exp(2j * np.pi * rng.random(len(noises))) if len(noises) > 1 else coils
    return Truth(np.exp(DWELL * (-dampings + 2j * np.pi * hertz)), np.outer(amplitudes, turned), noises)


# ---- methods ---------------------------------------------------------------------------------------------------------


def hankel_model(y: Complexes, truth: Truth) -> tuple[Complexes, Complexes]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no order up to")
        model = HankelModel(MOST_LINES if len(truth.poles) > 15 else "auto").fit(y)
    return model.poles_, model.amplitudes_


def hsvd(y: Complexes, truth: Truth, values: int) -> tuple[Complexes, Complexes]:
    """Several coils are combined first, with their true sensitivities and noise, which HankelModel does not know."""
    from hlsvdpropy import hlsvdpro

    weights = truth.amplitudes[0].conj() / truth.noises**2
    combined = y @ weights if len(weights) > 1 else y[:, 0]
    _, _, frequencies, dampings = hlsvdpro(combined, values, sparse=True)[:4]
    z = np.exp(dampings + 2j * np.pi * frequencies)
    z = z / np.maximum(np.abs(z), 1.0)  # a pole outside the unit circle would overflow in long series
    return z, np.linalg.lstsq(z ** np.arange(len(y))[:, None], y, rcond=None)[0]


METHODS: dict[str, Callable[[Complexes, Truth], tuple[Complexes, Complexes]]] = {
    "HankelModel": hankel_model,
    "HSVD, true order": lambda y, truth: hsvd(y, truth, len(truth.poles)),
    f"HSVD, {MANY} values": lambda y, truth: hsvd(y, truth, MANY),
}


def errors(z: Complexes, a: Complexes, truth: Truth, n: int) -> dict[str, Floats]:
    """Squared errors relative to the squared bounds, of the lines nearest to the true ones."""
    true, found = linear_sum_assignment(np.abs(truth.poles[:, None] - z))
    ratio = z[found] / truth.poles[true]
    share = a[found] / truth.amplitudes[true]
    wrong = {
        "frequency": np.angle(ratio) / (2 * np.pi),
        "damping": np.log(np.abs(ratio)),
        "amplitude": np.abs(a[found]) - np.abs(truth.amplitudes[true]),
        "phase": np.angle(share),
    }
    return {name: np.asarray((wrong[name] / bound[true]) ** 2) for name, bound in truth.bounds(n).items()}


def compared(truths: list[Truth], n: int, seed: int, facts: dict[str, Any]) -> list[dict[str, Any]]:
    found: dict[str, list[tuple[Complexes, Complexes]]] = {name: [] for name in METHODS}
    seconds = dict.fromkeys(METHODS, 0.0)
    for k, truth in enumerate(truths):
        y = truth.seen(n, np.random.default_rng(seed + k))
        for name, method in METHODS.items():
            began = time.process_time()
            found[name].append(method(y, truth))
            seconds[name] += (time.process_time() - began) / len(truths)
    right = [len(z) == len(truth.poles) for (z, _), truth in zip(found["HankelModel"], truths, strict=True)]
    rows = []
    for name, fits in found.items():
        row = facts | {"method": name, "orders found": f"{sum(right)} of {len(right)}" if name == "HankelModel" else ""}
        both = [errors(*fit, truth, n) for fit, truth, use in zip(fits, truths, right, strict=True) if use]
        for quantity in QUANTITIES:
            row[quantity] = float(np.sqrt(np.mean([one[quantity] for one in both]))) if both else np.nan
        rows.append(row | {"CPU s": seconds[name]})
        print(rows[-1], flush=True)
    return rows


# ---- studies ---------------------------------------------------------------------------------------------------------


def generated() -> None:
    rows = []
    for k, (lines, n) in enumerate(SIZES):
        for j, noise in enumerate(NOISES):
            seed = SEED + 1000 * (3 * k + j)
            rng = np.random.default_rng(seed + FIDS)
            truths = [fid(lines, np.array([noise]), rng) for _ in range(FIDS)]
            rows += compared(truths, n, seed, {"lines": lines, "samples": n, "noise": noise})
    report("series-complex-generated", rows, FIDs=FIDS)


def coils() -> None:
    rows = []
    for count in (4, 8):
        for noise in (0.03, 0.1):
            seed = SEED + 20_000 + 100 * count + int(1000 * noise)
            rng = np.random.default_rng(seed + FIDS)
            truths = [fid(8, noise * rng.uniform(0.5, 3.0, count), rng) for _ in range(FIDS)]
            rows += compared(truths, 1024, seed, {"coils": count, "noise": f"{noise / 2:g} … {noise * 3:g}"})
    report("series-complex-coils", rows, FIDs=FIDS)


def record() -> None:
    """The FID has no known truth: residuals; then FIDs with the lines and the noise that HankelModel found in it."""
    from hlsvdpropy import get_testdata

    y = np.asarray(get_testdata(), dtype=np.complex128)
    y = y / np.abs(y).max()
    end = y[-len(y) // 4 :]
    began = time.process_time()
    model = HankelModel(MOST_LINES).fit(y)
    rows = [{"method": "HankelModel", "lines": model.rank_, "CPU s": time.process_time() - began}]
    rows[0]["residuals"] = float(np.sqrt(np.mean(np.abs(model.residuals_) ** 2) / 2))
    for values in (model.rank_, 20, MANY):
        began = time.process_time()
        z, a = hsvd(y[:, None], Truth(np.zeros(1), np.ones((1, 1)), np.ones(1)), values)
        seconds = time.process_time() - began
        left = y - (z ** np.arange(len(y))[:, None] @ a)[:, 0]
        size = float(np.sqrt(np.mean(np.abs(left) ** 2) / 2))
        rows.append({"method": "HSVD", "lines": values, "CPU s": seconds, "residuals": size})
    last = float(np.sqrt(np.mean(np.abs(end) ** 2) / 2))
    report("series-complex-record", rows, samples=len(y), **{"size of the last quarter": last})
    strong = np.argsort(-np.abs(model.amplitudes_))
    truth = Truth(model.poles_[strong], model.amplitudes_[strong, None], np.array([model.noise_]))
    report("series-complex-like-record", compared([truth] * FIDS, len(y), SEED + 30_000, {}), FIDs=FIDS)


if __name__ == "__main__":
    studies = {"generated": generated, "coils": coils, "record": record}
    for study in sys.argv[1:] or list(studies):
        studies[study]()
