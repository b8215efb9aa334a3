"""Half widths of 95 % intervals: means over openings and their errors come in, how far off they may be goes out.

Openings are what is counted: rounds from one opening, whoever plays them, are not independent.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def student(freedom: int) -> float:
    """Return the 97.5 % point of Student's t with so many degrees of freedom, by Hill's expansion; exact for 1 and 2.

    Off by less than .004 from three degrees on.
    """
    if freedom <= 2:
        return (12.7062047, 4.3026527)[freedom - 1]
    z = 1.959963985
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(term / freedom**power for power, term in enumerate(terms)))


def half_width(share: Floats, error: Floats, samples: int, openings: int) -> Floats:
    """Return the half width of shares of rounds, float64 [...]; infinite for a single sample, which shows no spread.

    Where all openings ended alike there is no spread either, but what never happened may yet: by the rule of three its chance
    is at most 3 / openings.

    Args:
        share: The means, float64 [...], from 0 to 1.
        error: Their standard errors.
        samples: What the errors come from: openings, or blocks of them.
        openings: Openings in all.
    """
    if samples < 2:
        return np.full(share.shape, np.inf)
    return np.where((share == 0) | (share == 1) | (error < 1e-9), min(1.0, 3 / openings), student(samples - 1) * error)
