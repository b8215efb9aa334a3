"""The weights of the evaluation made by hand, as `python -m training.tune` prints them.

Each line has a name (see `evaluation.column_names`), then a weight for a full board, for each of some evenly spaced numbers of
empty cells, and for an empty board.
"""

from __future__ import annotations

WEIGHTS: dict[tuple[int, int], str] = {
    (8, 2): """
a1             257    291    253    304    462    631    844    835    835
b1             102     56     44     13     15   -140   -187   -271   -271
c1             -35    -71    -66    -40    -14     -8    -16     -1     -1
d1              70     11      2      9     13      0    -17    -61    -61
b2             187    122     -0    -75   -198   -334   -445   -469   -469
c2              73     32     -7    -40    -57    -52    -12     51     51
d2              68     16    -19    -38    -55    -57    -59    -45    -45
c3              85     59     55     33     23      2    -12      1      1
d3              98     37      5    -14    -28    -30    -28     -4     -4
d4              82     12    -15     -7    -18    -33    -33    -11    -11
edge            74    -98   -127    -99   -167   -150   -233   -359   -359
inside        -186   -414   -510   -534   -443   -287   -148    -78    -78
safe           223    210    200    194    176    207    131    118    118
turn0          573    153    -89   -119   -113   -100    -74    -42    -42
capturing0     737    409    190     79     42     27      7    -11    -11
touching0       64    102     47      7      3      3     -5    -18    -18
turn1         -573   -153     89    119    113    100     74     42     42
capturing1     809    405    169     73     40     25      4    -17    -17
touching1      234    145     50     -1     -4     -2     -8    -17    -17
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
a1             487    568    942   1377   1734   1780   1629   1487   1487
b1             308    253    118     54    -19   -383   -579   -547   -547
c1             200    183    212    237    285    320    316    273    273
d1             215     65     34     37     51     22      5   -125   -125
b2             379    303    179     67    -30   -134     52    263    263
c2             233    152     95     62     23    -14    -18    -51    -51
d2             220    114     50     25     11     23     23    -33    -33
c3             177    112     68     34     21     27     33    -16    -16
d3             199     71     14     15     24     12      6    -46    -46
d4             134     10    -32    -12      3      8     -0    -19    -19
edge           244     69    -54   -155   -200    -32    -21      3      3
inside         -26   -257   -454   -500   -498   -518   -791   -940   -940
safe           198    225    226    208    202    305    346    193    193
turn0         1340    574    254    130     56     47     59    142    142
capturing0     369    195     90     45     17     14      3    -25    -25
touching0     -354   -111    -45    -26    -18     -9    -19    -23    -23
turn1          -26    166     93     66     61     46     11    -27    -27
capturing1     551    200     84     38      8      7      1     -4     -4
touching1     -191    -96    -39    -23    -17     -9    -14    -15    -15
turn2         -626   -209    -86    -43    -16    -25    -31    -70    -70
capturing2     472    198     81     35      6      8      3      3      3
touching2     -102    -77    -33    -19    -14     -8    -14    -11    -11
turn3         -688   -530   -260   -153   -101    -68    -39    -45    -45
capturing3     333    194     81     35      7      6      1      2      2
touching3     -123    -61    -29    -16    -12     -6    -13     -6     -6
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
