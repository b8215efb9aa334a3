"""Count the vector instructions of the loop that plays a turn: compiled code comes in, a table of operations comes out.

    python docs/operation_count.py

The inner loops of `rolit_env.loops.step` on 8x8 are taken from the assembly that LLVM made for this processor, and their
instructions sorted by what executes them.
"""

from __future__ import annotations

import re
from collections import Counter

import numba
import numpy as np

from rolit_env import loops

KINDS = {
    "shift": r"vps[lr]l[vqd]|vplzcnt",
    "compare": r"vptest|vpcmp",
    "add": r"vpadd|vpsub",
    "bit logic": r"vpternlog|vpand|vpor|vpxor|vpblend",
    "copy": r"vmov.*%[xyz]mm\d+, %[xyz]mm\d+",
    "load": r"(vmov|vpbroadcast).*\), %[xyz]mm",
    "store": r"vmov.*%[xyz]mm\d+, .*\)",
}


def step_assembly() -> str:
    """Return the assembly of the loop, compiled here and now: what comes from the cache can't be looked at."""
    step = numba.njit(error_model="numpy", nogil=True)(loops.step(8).py_func)
    games = np.zeros((4, 8), np.uint64), (0, 1, 2, 3), np.zeros(8, np.int64), np.zeros(8, np.uint64)
    step(*games, True, 0, 0)
    return str(next(iter(step.inspect_asm().values())))


def vector_loops(assembly: str) -> list[list[str]]:
    """Return the instructions of each innermost loop that works on the widest vectors."""
    width = "zmm" if "zmm" in assembly else "ymm" if "ymm" in assembly else "xmm"
    found = []
    for label, block in re.findall(r"^(\.LBB\w+):(.*?)(?=^\.LBB|\Z)", assembly, re.MULTILINE | re.DOTALL):
        body, *jump = re.split(rf"\tj\w+\t{re.escape(label)}\n", block)
        if jump and body.count(width) > 10:
            found.append([line.strip() for line in body.splitlines() if width in line])
    return found


def main() -> None:
    """Print the table."""
    found = vector_loops(step_assembly())
    names = ["check", "roll", "find legal"] if len(found) == 3 else [f"loop {at}" for at in range(len(found))]
    kinds = [*KINDS, "other"]
    print(f"| a turn of a vector of games | {' | '.join(kinds)} |")
    print("| --- |" + " ---: |" * len(kinds))
    for name, lines in zip(names, found, strict=True):
        counts = Counter(next((kind for kind, pattern in KINDS.items() if re.match(pattern, line)), "other") for line in lines)
        print(f"| {name} | {' | '.join(str(counts[kind]) for kind in kinds)} |")


if __name__ == "__main__":
    main()
