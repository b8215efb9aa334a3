"""Learning curves: which runs make a line, what the curves say, and a picture and a page that appear together."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from rolit_env.errors import OptionError
from training import ntuple, plot
from training.checkpoint import save_checkpoint
from training.config import TrainConfig
from training.learner import Learner
from training.ntuple import NTupleConfig, NTupleLearner

SMALL = TrainConfig(size=4, hidden=(8,), minutes=1)


def evaluation(turns, seconds, share):
    return {"turns": turns, "seconds": seconds, "win_share": {"random": share, "greedy": share / 2, "positional": share / 4}}


def run(shares=(0.5, 0.75), step=1.0, **settings):
    """Return a run that was evaluated at each of some steps of a million turns and a minute."""
    learner = Learner.fresh(replace(SMALL, **settings))
    learner.evaluations = [evaluation(at * step * 1e6, at * step * 60, share) for at, share in enumerate(shares, 1)]
    return learner


@pytest.fixture
def folders(tmp_path):
    """Return the folders of four runs: two seeds, another setting, and n-tuple tables."""
    tables = NTupleLearner.fresh(NTupleConfig(size=4, minutes=1))
    tables.evaluations = [evaluation(5e6, 30, 0.9)]
    runs = [run(), run((0.6, 0.85), seed=1), run(entropy=0.5), tables]
    for at, each in enumerate(runs):
        (tmp_path / str(at)).mkdir()
        (ntuple.save if each is tables else save_checkpoint)(each, tmp_path / str(at))
    return [str(tmp_path / str(at)) for at in range(4)]


def test_seeds_are_one_line_and_other_settings_are_others():
    lines = plot.group([run(), run(seed=1), run(entropy=0.5, minutes=9), run(network="afterstates")])
    names = ["mlp, entropy 0.03, 2 seeds", "mlp, entropy 0.5, seed 0", "afterstates, entropy 0.03, seed 0"]
    assert [line.name for line in lines] == names
    assert [len(line.runs) for line in lines] == [2, 1, 1]
    assert [line.name for line in plot.group([run(), run(seed=1)])] == ["2 seeds"]


def test_a_curve_is_the_mean_with_the_lowest_and_the_highest_as_far_as_all_go():
    line = plot.Line("", [run((0.5, 0.7, 0.9)), run((0.4, 0.6), step=2.0)])  # at 1, 2, 3 and at 2, 4
    along, mean, low, high = line.curve("random", "seconds")
    np.testing.assert_allclose(along, [2, 3])
    np.testing.assert_allclose(low, [0.4, 0.5])
    np.testing.assert_allclose(high, [0.7, 0.9])
    np.testing.assert_allclose(mean, [0.55, 0.7])
    np.testing.assert_allclose(line.curve("greedy", "turns")[1], [0.275, 0.35])


def test_picture_and_page_show_all_runs(folders, tmp_path, capsys):
    out = tmp_path / "curves.png"
    assert plot.main([*folders, "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    assert out.read_bytes().startswith(b"\x89PNG")
    page = out.with_suffix(".html").read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'][^#]|url\((?!#)""", page)  # nothing to load
    picture = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    texts = {"".join(node.itertext()).strip() for node in picture.iter() if node.tag.endswith("text")}
    for text in ("million turns", "minutes", "positional"):
        assert text in texts
    rows = page[page.index("<table>") :]
    assert "<td>0.800 (0.750 to 0.850)</td>" in rows
    assert "<td>0.900</td>" in rows
    assert rows.count("scope=row") == 3


def test_curves_are_drawn_against_those_whom_all_runs_played():
    def against(*names):
        learner = run()
        learner.evaluations = [{"turns": 10**6, "seconds": 60, "win_share": dict.fromkeys(names, 0.5)}]
        return plot.Line("", [learner])

    assert plot.opponents_of([against("greedy", "alphabeta:depth=2"), against("alphabeta:depth=2", "random")]) == [
        "alphabeta:depth=2"
    ]
    assert len(plot.draw([against("greedy")]).axes) == 2
    with pytest.raises(OptionError, match="one in common"):
        plot.opponents_of([against("greedy"), against("random")])


def test_bands_lie_within_the_pictures_of_both_turns_and_minutes():
    early, late = run((0.5, 0.52, 0.54, 0.56)), run((0.3, 0.5, 0.7, 0.9))
    for row in late.evaluations:
        row["turns"] *= 3  # by turns the runs share their start alone, by minutes all
    figure = plot.draw([plot.Line("", [early, late])])
    for by_turns, by_minutes in zip(figure.axes[::2], figure.axes[1::2], strict=True):
        bottom, top = by_turns.get_ylim()
        assert by_minutes.get_ylim() == (bottom, top)
        for axes in (by_turns, by_minutes):
            heights = axes.collections[0].get_paths()[0].vertices[:, 1]
            assert bottom <= heights.min() < heights.max() <= top


def test_mistakes_are_one_sentence(folders, tmp_path, capsys):
    other = tmp_path / "other"
    other.mkdir()
    save_checkpoint(run(size=6), other)
    silent = tmp_path / "silent"
    silent.mkdir()
    save_checkpoint(run(()), silent)
    out = tmp_path / "curves.png"
    for argv, message in (
        ([str(tmp_path / "none")], "there is no checkpoint"),
        ([folders[0], str(other)], "different variants"),
        ([str(silent)], "never evaluated"),
        ([folders[0], "--out", str(tmp_path / "curves.pdf")], "must end in .png"),
        ([], "runs"),
    ):
        assert plot.main([*argv, *([] if "--out" in argv else ["--out", str(out)])]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("training.plot: ")
        assert captured.err.count("\n") == 1, captured.err
        assert message in captured.err
    assert not out.exists()
    assert not out.with_suffix(".html").exists()
