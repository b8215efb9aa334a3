"""Turns a second: names of layers and peers come in, timings taken side by side, tables and a results file go out.

Every measurement has a process of its own, so that no library's threads or settings disturb another's. All of them are
started and warmed up first and then take turns: repeat after repeat each is asked for one timing while the others wait,
so that a machine whose speed drifts does so for all of them.
"""

from __future__ import annotations

from rolit_env.bench.layers import LAYERS
from rolit_env.bench.peers import PEERS

ROWS = {row.name: row for row in (*LAYERS, *PEERS)}
"""Everything that can be timed in a process started here, by name."""
