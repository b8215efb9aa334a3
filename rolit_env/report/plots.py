"""Plots as inline SVG: figures come in, pictures without any text go out, which can be stretched; words stand beside them.

All colours are classes that the style of the page fills in, so that they follow light and dark.
"""

from __future__ import annotations

import math
from html import escape

from rolit_env.ratings import Ints


def _svg(width: float, height: float, label: str, content: str, kind: str) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(label)}">{content}</svg>'
    )


def whisker(value: float, low: float, high: float, first: float, last: float, label: str) -> str:
    """Return a point with its interval on a line from `first` to `last`; infinite ends reach the edge."""

    def place(at: float) -> float:
        return 100 * min(max((at - first) / (last - first), 0), 1)

    ends = "".join(f'<path class="line" d="M{place(at):.2f} 5V15"/>' for at in (low, high) if math.isfinite(at))
    point = f'<path class="point" d="M{place(value):.2f} 10h.01"/>' if math.isfinite(value) else ""
    span = f'<path class="line" d="M{place(low):.2f} 10H{place(high):.2f}"/>'
    return _svg(100, 20, label, f'<path class="axis" d="M{place(0):.2f} 0V20"/>{span}{ends}{point}', "whisker")


def bar(share: float, par: float, label: str) -> str:
    """Return a bar from 0 to 1 with a mark at par."""
    length = 0 if math.isnan(share) else 100 * share
    content = f'<path class="fill" d="M0 1H{length:.2f}V9H0Z"/><path class="axis" d="M{100 * par:.2f} 0V10"/>'
    return _svg(100, 10, label, content, "bar")


def histogram(counts: Ints, zero: int, label: str) -> str:
    """Return a histogram with a mark at bin number `zero`."""
    most = max(int(counts.max()), 1)
    steps = "".join(f"V{50 - 50 * count / most:.1f}h1" for count in counts.tolist())
    content = f'<path class="fill" d="M0 50{steps}V50Z"/><path class="axis" d="M{zero + 0.5:g} 0V50"/>'
    return _svg(len(counts), 50, label, content, "histogram")
