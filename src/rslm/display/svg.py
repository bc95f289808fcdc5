"""Small pictures as SVG: a few kilobytes, readable on light and on dark pages."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

import numpy as np

from rslm.runtime.types import Floats

BLUE, ORANGE = "#2b8cc4", "#d98a00"  # at least 2.7 : 1 against white and against black
WIDTH, HEIGHT = 240, 100
BAR = 64  # length of the longest
LEVELS = 8  # of shades
LARGEST_CELL, LONGEST_SIDE = 16.0, 160.0  # pixels
MOST_POINTS = 240  # of a line: one per pixel


def _picture(width: float, height: float, description: str, content: str) -> str:
    # Without a description it only repeats what is written beside it.
    label = f"role='img' aria-label='{html.escape(description, quote=True)}'" if description else "aria-hidden='true'"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' {label} "
        f"width='{width:g}' height='{height:g}' viewBox='0 0 {width:g} {height:g}'>{content}</svg>"
    )


def shades(cells: Floats, description: str) -> str:
    """A grid of cells, each between 0, which is empty, and 1."""
    rows, columns = cells.shape
    size = min(LARGEST_CELL, LONGEST_SIDE / max(rows, columns))
    level = np.ceil(LEVELS * np.clip(cells, 0.0, 1.0)).astype(int)
    content = ""
    for shade in range(1, LEVELS + 1):  # one path for every shade, which is a fifth of the bytes of one for every cell
        path = "".join(f"M{j} {i}h1v1h-1z" for i, j in np.argwhere(level == shade))
        content += f"<path fill-opacity='{shade / LEVELS:g}' d='{path}'/>" if path else ""
    frame = "<rect width='100%' height='100%' fill='none' stroke='currentColor' stroke-opacity='.4'/>"
    inner = f"<g fill='{BLUE}' transform='scale({size:g})' shape-rendering='crispEdges'>{content}</g>"
    return _picture(columns * size, rows * size, description, inner + frame)


def bars(values: Sequence[float]) -> list[str]:
    """A horizontal bar for every number, which are not negative; the last one stands out."""
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    drawn = []
    for k, value in enumerate(values):
        length = BAR * value / largest if largest > 0 and math.isfinite(value) else 0.0
        colour = f"fill='{BLUE}'" if k == len(values) - 1 else "fill='currentColor' fill-opacity='.35'"
        drawn.append(_picture(BAR, 8, "", f"<rect width='{length:.1f}' height='8' {colour}/>"))
    return drawn


def stems(values: Floats, description: str) -> str:
    """Numbers that are not negative as stems with dots, such as singular values; on a logarithmic axis if wide."""
    values = np.asarray(values, dtype=np.float64)
    values = values[np.isfinite(values) & (values > 0)][: WIDTH // 4]
    if not len(values):
        return ""
    lengths = values / values.max()
    if lengths.min() < 0.02:  # less than two pixels
        digits = np.log10(lengths)
        lengths = 0.05 + 0.95 * (1.0 - digits / digits.min())
    at = WIDTH * (np.arange(len(values)) + 0.5) / len(values)
    top = HEIGHT - 4 - (HEIGHT - 10) * lengths
    lines = "".join(f"M{x:.1f} {HEIGHT - 4}V{y:.1f}" for x, y in zip(at, top, strict=True))
    dots = "".join(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5'/>" for x, y in zip(at, top, strict=True))
    content = f"<path d='{lines}' stroke='{BLUE}' stroke-width='1.5'/><g fill='{BLUE}'>{dots}</g>{_floor()}"
    return _picture(WIDTH, HEIGHT, description, content)


def curve(signal: Floats, samples: Floats | None, description: str) -> str:
    """A line, and dots of samples around it; NaN is missing."""
    signal = np.asarray(signal, dtype=np.float64)
    shown = np.unique(np.linspace(0, len(signal) - 1, min(len(signal), MOST_POINTS)).round().astype(int))
    drawn = signal[shown] if samples is None else np.append(signal[shown], np.asarray(samples)[shown])
    drawn = drawn[np.isfinite(drawn)]
    if not len(drawn):
        return ""
    low, high = np.quantile(drawn, [0.005, 0.995])  # a spike would make everything else flat
    low, high = min(low, np.nanmin(signal[shown])), max(high, np.nanmax(signal[shown]))
    height = (high - low) or 1.0
    x = WIDTH * shown / max(len(signal) - 1, 1)
    content = ""
    if samples is not None:
        y = _within(np.asarray(samples, dtype=np.float64)[shown], low, height)
        dots = "".join(f"M{a:.1f} {b:.1f}h.01" for a, b in zip(x, y, strict=True) if np.isfinite(b))
        look = "stroke='currentColor' stroke-opacity='.5' stroke-width='2.5' stroke-linecap='round'"
        content += f"<path d='{dots}' {look}/>"
    points = zip(x, _within(signal[shown], low, height), strict=True)
    line = " ".join(f"{a:.1f},{b:.1f}" for a, b in points if np.isfinite(b))
    content += f"<polyline points='{line}' fill='none' stroke='{BLUE}' stroke-width='1.5'/>"
    return _picture(WIDTH, HEIGHT, description, content)


def intervals(middles: Floats, lower: Floats, upper: Floats, before: Sequence[bool], description: str) -> str:
    """Numbers with intervals around them, against zero; those `before` something are grey."""
    middles, lower, upper = (np.asarray(values, dtype=np.float64) for values in (middles, lower, upper))
    lower, upper = (np.where(np.isfinite(end), end, middles) for end in (lower, upper))
    low, high = min(float(lower.min()), 0.0), max(float(upper.max()), 0.0)
    height = (high - low) or 1.0
    zero = float(_within(np.zeros(1), low, height)[0])
    content = f"<path d='M0 {zero:.1f}H{WIDTH}' stroke='currentColor' stroke-opacity='.5' stroke-dasharray='3'/>"
    at = WIDTH * (np.arange(len(middles)) + 0.5) / len(middles)
    ends = [_within(values, low, height) for values in (lower, middles, upper)]
    for k, (x, bottom, y, top) in enumerate(zip(at, *ends, strict=True)):
        colour = "currentColor" if before[k] else BLUE
        bar = f"<path d='M{x:.1f} {bottom:.1f}V{top:.1f}' stroke='{colour}' stroke-width='1.5'/>"
        dot = f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5' fill='{colour}'/>"
        content += f"<g opacity='{0.5 if before[k] else 1}'>{bar}{dot}</g>"
    return _picture(WIDTH, HEIGHT, description, content)


def gap(low: float, high: float, description: str) -> str:
    """A bar from 0 to `high`, the part above `low` in another colour; both are positive, low ≤ high."""
    known = WIDTH * low / high
    content = f"<rect y='4' width='{known:.2f}' height='10' fill='{BLUE}'/>"
    content += (
        f"<rect x='{known:.2f}' y='4' width='{WIDTH - known:.2f}' height='10' fill='{ORANGE}' fill-opacity='.75'/>"
    )
    content += f"<path d='M{known:.2f} 0v18M{WIDTH - 0.5} 0v18' stroke='currentColor'/>"
    return _picture(WIDTH, 18, description, content)


def _within(values: Floats, low: float, height: float) -> Floats:
    """Where numbers are drawn, in pixels from the top; those outside at the edge."""
    return np.asarray(4 + (HEIGHT - 8) * (1.0 - np.clip((values - low) / height, 0.0, 1.0)))


def _floor() -> str:
    return f"<path d='M0 {HEIGHT - 4}H{WIDTH}' stroke='currentColor' stroke-opacity='.4'/>"
