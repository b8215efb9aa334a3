"""The weights of the evaluation made by hand, as `python -m training.tune` prints them.

Each line has a name (see `evaluation.column_names`), then a weight for a full board, for each of some evenly spaced numbers of
empty cells, and for an empty board.
"""

from __future__ import annotations

WEIGHTS: dict[tuple[int, int], str] = {
    (8, 2): """
a1          1000  1000
b1           -50   -50
c1           120   120
d1            60    60
b2           -60   -60
c2           -30   -30
d2           -30   -30
c3            20    20
d3            20    20
d4            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
""",
    (8, 3): """
a1          1000  1000
b1           -50   -50
c1           120   120
d1            60    60
b2           -60   -60
c2           -30   -30
d2           -30   -30
c3            20    20
d3            20    20
d4            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
turn2          0     0
capturing2    80    80
touching2    -20   -20
""",
    (8, 4): """
a1          1000  1000
b1           -50   -50
c1           120   120
d1            60    60
b2           -60   -60
c2           -30   -30
d2           -30   -30
c3            20    20
d3            20    20
d4            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
turn2          0     0
capturing2    80    80
touching2    -20   -20
turn3          0     0
capturing3    80    80
touching3    -20   -20
""",
    (6, 2): """
a1          1000  1000
b1           -50   -50
c1           120   120
b2           -60   -60
c2           -30   -30
c3            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
""",
    (6, 3): """
a1          1000  1000
b1           -50   -50
c1           120   120
b2           -60   -60
c2           -30   -30
c3            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
turn2          0     0
capturing2    80    80
touching2    -20   -20
""",
    (6, 4): """
a1          1000  1000
b1           -50   -50
c1           120   120
b2           -60   -60
c2           -30   -30
c3            20    20
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
turn2          0     0
capturing2    80    80
touching2    -20   -20
turn3          0     0
capturing3    80    80
touching3    -20   -20
""",
    (4, 2): """
a1          1000  1000
b1           -50   -50
b2           -60   -60
edge        -250  -250
inside      -500  -500
safe         150   150
turn0          0     0
capturing0    80    80
touching0    -20   -20
turn1          0     0
capturing1    80    80
touching1    -20   -20
""",
}
"""By size and players."""
