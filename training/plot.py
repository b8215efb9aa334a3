"""Runs go in, their learning curves come out: win shares against turns and minutes, as a picture and as a page.

    python -m training.plot runs/mlp runs/afterstates --out curves.png
    python -m training.plot runs/seed-0 runs/seed-1 runs/seed-2 --out docs/curves.png

Runs that differ in their seeds alone are one line, their mean, in a band from the lowest to the highest of them. Beside the
picture lies a page of the same name with the ending `.html`, which holds the curves and their last values as text.
"""

from __future__ import annotations

import html
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from jsonargparse import ArgumentParser, Namespace
from matplotlib.figure import Figure
from PIL import Image

from rolit_env.errors import OptionError, OutputError
from rolit_env.files import replacing
from training import ntuple
from training.checkpoint import load_checkpoint
from training.command import run_command
from training.run import Run

AXES = {"turns": "million turns", "seconds": "minutes"}
"""What is counted at each evaluation, and what the axis below says."""

SCALES = {"turns": 1e6, "seconds": 60}
"""How many of what is counted are one on that axis."""

OWN = ("seed", "minutes", "turns", "evaluate_every", "evaluate_against", "evaluate_rounds", "save_every")
"""Settings in which runs of one line may differ, or which say nothing about how they learn."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """Runs that differ in their seeds alone.

    Attributes:
        name: What sets them apart from the other lines.
        runs: At least one.
    """

    name: str
    runs: list[Run]

    def curve(self, opponent: str, count: str) -> tuple[Floats, Floats, Floats, Floats]:
        """Return where on the axis, float64 [·], and the mean, lowest and highest win share there, as far as all runs go.

        Args:
            opponent: One of `opponents_of`.
            count: A key of `AXES`.
        """
        places = [np.array([row[count] for row in run.evaluations]) / SCALES[count] for run in self.runs]
        shares = [np.array([row["win_share"][opponent] for row in run.evaluations]) for run in self.runs]
        low, high = max(place[0] for place in places), min(place[-1] for place in places)
        along = np.unique(np.concatenate(places).clip(low, high))
        found = np.stack([np.interp(along, place, share) for place, share in zip(places, shares, strict=True)])
        return along, found.mean(axis=0), found.min(axis=0), found.max(axis=0)


def load(folder: Path) -> Run:
    """Return a run of any kind. Raises `CheckpointError` for a folder that holds none."""
    return ntuple.load(folder) if (folder / ntuple.FILE_NAME).exists() else load_checkpoint(folder)


def settings_apart(run: Run) -> dict[str, Any]:
    """Return the settings in which runs of one line are alike."""
    return {name: value for name, value in run.config.to_dict().items() if name not in OWN} | {"kind": type(run).__name__}


def group(runs: Sequence[Run]) -> list[Line]:
    """Put runs that differ in their seeds alone together, in the order in which they come.

    Raises `OptionError` for runs of several variants, and for one that was never evaluated.
    """
    if len({run.config.variant for run in runs}) != 1:
        raise OptionError("the runs are of different variants, whose win shares don't compare; allowed are runs of one")
    if not all(run.evaluations for run in runs):
        raise OptionError("a run was never evaluated, so it has no curve; train longer, or with evaluate_every above 0")
    settings = [settings_apart(run) for run in runs]
    kinds = [found for at, found in enumerate(settings) if found not in settings[:at]]
    names = sorted(set().union(*kinds), key=lambda name: next(list(kind).index(name) for kind in kinds if name in kind))
    apart = [name for name in names if len({str(kind.get(name)) for kind in kinds}) > 1]
    if "kind" in apart:  # then most settings differ, by not being there
        shared = set(kinds[0]).intersection(*kinds)
        apart = [name for name in apart if name in shared]
    lines = []
    for kind in kinds:
        alike = [run for run, found in zip(runs, settings, strict=True) if found == kind]
        name = ", ".join(f"{kind[name]}" if name in ("kind", "network") else f"{name} {kind[name]}" for name in apart)
        seeds = f"{len(alike)} seeds" if len(alike) > 1 else f"seed {alike[0].config.seed}"
        lines.append(Line(f"{name}, {seeds}" if name else seeds, alike))
    return lines


def opponents_of(lines: Sequence[Line]) -> list[str]:
    """Return whom all runs played at all evaluations. Raises `OptionError` when that is nobody."""
    rows = [row["win_share"] for line in lines for run in line.runs for row in run.evaluations]
    shared = [name for name in rows[0] if all(name in row for row in rows)]
    if not shared:
        raise OptionError("the runs were measured against different agents; allowed are runs that have one in common")
    return shared


def draw(lines: Sequence[Line]) -> Figure:
    """Return the picture: a row of two plots for each opponent."""
    variant = lines[0].runs[0].config.variant
    opponents = opponents_of(lines)
    figure = Figure(figsize=(10, 3 * len(opponents)), layout="constrained")
    plots = figure.subplots(len(opponents), len(AXES), sharey="row", sharex="col", squeeze=False)
    for opponent, row in zip(opponents, plots, strict=True):
        for (count, label), plot in zip(AXES.items(), row, strict=True):
            for line in lines:
                along, mean, low, high = line.curve(opponent, count)
                (drawn,) = plot.plot(along, mean, label=line.name, marker="o", markersize=3)
                plot.fill_between(along, low, high, color=drawn.get_color(), alpha=0.2, linewidth=0)
            plot.grid(alpha=0.3)
            if opponent == opponents[-1]:
                plot.set_xlabel(label)
        bottom, top = row[0].get_ylim()  # of both plots
        bottom = min(bottom, 0.9)
        for plot in row:
            plot.axhline(1 / variant.players, color="grey", linestyle=":", linewidth=1)  # par
        row[0].set_ylim(bottom, min(max(top, bottom + 0.1) + 0.005, 1.005))  # not so near that noise looks like news
        row[0].set_ylabel(f"win share against\n{opponent}")
    figure.suptitle(f"{variant.name}: learning curves (dotted: par, the share of equals)")
    figure.legend(*plots[0, 0].get_legend_handles_labels(), loc="outside lower center")
    return figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture as a PNG of few colours, which takes a third of the bytes."""
    full = io.BytesIO()
    figure.savefig(full, format="png", dpi=100)
    Image.open(full).convert("RGB").quantize(64).save(path, "PNG", optimize=True)


def page(lines: Sequence[Line], picture: str) -> str:
    """Return the page, as HTML, around the picture, as SVG."""
    variant = lines[0].runs[0].config.variant
    opponents = opponents_of(lines)
    head = "".join(f"<th scope=col>{title}</th>" for title in ("million turns", "minutes", *opponents))
    rows = []
    for line in lines:
        ends = [f"{line.curve(opponents[0], count)[0][-1]:.2f}" for count in AXES]
        for opponent in opponents:
            _, mean, low, high = line.curve(opponent, "turns")
            spread = f" ({low[-1]:.3f} to {high[-1]:.3f})" if len(line.runs) > 1 else ""
            ends.append(f"{mean[-1]:.3f}{spread}")
        rows.append(f"<tr><th scope=row>{html.escape(line.name)}</th>{''.join(f'<td>{end}</td>' for end in ends)}</tr>")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<title>{variant.name}: learning curves</title>
<style>
:root{{color-scheme:light dark}}
body{{font:16px/1.5 system-ui,sans-serif;max-width:62rem;margin:1rem auto;padding:0 1rem}}
figure{{margin:0;background:#fff;border-radius:6px}} svg{{width:100%;height:auto;display:block}}
div{{overflow-x:auto}} table{{border-collapse:collapse}} th,td{{padding:.3em .8em;text-align:right;white-space:nowrap}}
tr{{border-bottom:1px solid #8884}}
</style>
<h1>{variant.name}: learning curves</h1>
<figure role="img" aria-label="Win shares against turns and minutes; their ends stand in the table below.">{picture}</figure>
<h2>Where they end</h2>
<div><table><tr><td></td>{head}</tr>{"".join(rows)}</table></div>
<p>Win shares at the end, {lines[0].runs[0].config.evaluate_rounds} rounds against each opponent; of several seeds the
mean, and the lowest and the highest. Equals would have {1 / variant.players:.3f}.</p>
</html>
"""


def save(lines: Sequence[Line], out: Path) -> None:
    """Write the picture and the page beside it. Raises `OutputError` when `out` does not end in `.png` or can't be written."""
    if out.suffix != ".png":
        raise OutputError(f"{out} must end in .png; the page beside it gets the ending .html")
    figure, vectors = draw(lines), io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "curves"}):
        figure.savefig(vectors, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    picture = vectors.getvalue()
    with replacing(out.with_suffix(".html")) as page_draft, replacing(out) as draft:
        page_draft.write_text(page(lines, picture[picture.index("<svg") :]), encoding="utf-8")
        save_picture(figure, draft)


def parser() -> ArgumentParser:
    """Return the parser of the command line."""
    options = ArgumentParser(
        prog="python -m training.plot",
        description="Draw the learning curves of runs, those that differ in their seeds alone as one line with a band.",
        exit_on_error=False,
        allow_abbrev=False,
    )
    options.add_argument("runs", type=str, nargs="+", help="folders of runs, of training.train or training.ntuple")
    options.add_argument("--out", type=str, default="curves.png", help="picture to write, with a page beside it")
    return options


def main(argv: list[str] | None = None) -> int:
    """Run the command line; return 0, or 2 after one line about what was wrong with it."""
    return run_command("training.plot", lambda: _run(parser().parse_args(argv)))


def _run(options: Namespace) -> int:
    lines: Any = group([load(Path(run)) for run in options.runs])
    out = Path(options.out)
    save(lines, out)
    print(f"wrote {out} and {out.with_suffix('.html')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
