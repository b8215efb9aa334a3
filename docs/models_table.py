"""Fill in the tables of released models: the cards in models/ come in, README.md and models.md beside this file go out.

python docs/models_table.py
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rolit_env.files import fill_in
from rolit_env.report import words

DOCS = Path(__file__).parent
MODELS = DOCS.parent / "models"

START, END = "<!-- from the cards in models/, by docs/models_table.py -->\n", "<!-- end -->\n"

SHORT = ("random", "greedy", "positional", "mcts:simulations=400", "n-tuple tables")
"""What README.md shows of the ladder."""

Card = dict[str, Any]


def cards() -> list[Card]:
    """Return the cards of all released files, smaller boards first, policies before tables."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in MODELS.glob("[!.]*.json")]
    return sorted(found, key=lambda card: (card["variant"]["size"], card["variant"]["players"], "tuples" in card))


def results(card: Card) -> dict[str, str]:
    """Return the win share against each opponent as it is shown; the tables of the same variant are named alike."""
    shown = {}
    for name, result in card["results"]["against"].items():
        key = "n-tuple tables" if name.endswith("-ntuple") else name
        shown[key] = f"{words.share(result['win_share'][0])} ± {words.share(result['interval'][0])}"
    return shown


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown, the first column to the left, the others to the right."""
    rule = ["---", *["---:"] * (len(headings) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def files_table(found: Sequence[Card]) -> str:
    """Return what the files are."""
    rows = []
    for card in found:
        (path,) = (path for path in MODELS.glob(f"{card['name']}.*") if path.suffix in (".onnx", ".safetensors"))
        parameters = card.get("parameters") or card.get("network", {}).get("parameters")
        trained, picture = card["trained"], card.get("picture")
        rows.append(
            (
                f"[`{card['name']}`](../models/{card['name']}.json)",
                "n-tuple tables" if "tuples" in card else f"policy, {card['network']['kind']}",
                f"{path.stat().st_size / 1e6:.1f}",
                f"{parameters / 1e6:.2f} M" if parameters else "",
                f"{card['config']['seed']}, of {len(card.get('seeds', [0]))}",
                f"{trained['turns'] / 1e6:.1f} M",
                f"{trained['minutes']:.1f}",
                f"[picture](../models/{picture})" if picture else "",
            )
        )
    size = sum(path.stat().st_size for path in MODELS.iterdir()) / 1e6
    headings = ("model and card", "kind", "MB", "parameters", "seed", "turns", "minutes", "learning curves")
    return f"{table(headings, rows)}\n\nAll files together have {size:.0f} MB."


def results_table(found: Sequence[Card], opponents: Sequence[str] = ()) -> str:
    """Return what all, or some, opponents came to, without what no model has met."""
    shown = [results(card) for card in found]
    columns = [
        name for name in opponents or dict.fromkeys(name for row in shown for name in row) if any(name in row for row in shown)
    ]
    rows = [(f"`{card['name']}`", *(row.get(name, "") for name in columns)) for card, row in zip(found, shown, strict=True)]
    return table(("", *columns), rows)


def exams_table(found: Sequence[Card]) -> str:
    """Return how often the models for two keep values that are known."""
    rows = []
    for card in found:
        for exam in card.get("exam", ()):
            which = f", {exam['starter']} first" if exam["complete"] else ""
            for name, score in (("all" + which, exam["overall"]), ("under its own play", exam["own_play"])):
                if score:
                    rows.append(
                        (
                            f"`{card['name']}`",
                            name if exam["complete"] else "endgames",
                            f"{score['positions']:,}",
                            *(percent(score[key]) for key in ("kept", "par", "outcome_kept")),
                            f"{score['lost']:.2f}",
                        )
                    )
    return table(("", "positions", "number", "value kept", "par", "outcome kept", "balls lost"), rows)


def percent(share: float) -> str:
    """Write 99.99 %, and 100 % of nothing less."""
    return "100 %" if share == 1 else f"{min(100 * share, 99.99):.2f} %"


def limits_list(found: Sequence[Card]) -> str:
    """Return what the cards say of limits, without whom a model does not beat, which the tables show."""
    lines = []
    for card in found:
        own = [said for said in card.get("limits", ()) if not said.startswith(("Weaker than", "No stronger than"))]
        lines += [f"- `{card['name']}`: {' '.join(own)}"] if own else []
    return "\n".join(lines)


def readme(found: Sequence[Card]) -> str:
    """Return the table of README.md: policies, and a part of their results."""
    policies = [card for card in found if "tuples" not in card]
    shown = [results(card) for card in policies]
    rows = [
        (
            f"`{card['name']}`",
            f"{card['trained']['turns'] / 1e6:.1f} M",
            f"{card['trained']['minutes']:.0f}",
            words.share(1 / card["variant"]["players"]),
            *(row.get(name, "") for name in SHORT),
        )
        for card, row in zip(policies, shown, strict=True)
    ]
    return table(("policy", "turns", "minutes", "par", *SHORT), rows)


def page(found: Sequence[Card]) -> str:
    """Return all tables of models.md."""
    parts = ["## The files", files_table(found)]
    for players, name in ((2, "Two"), (3, "Three"), (4, "Four")):
        those = [card for card in found if card["variant"]["players"] == players]
        parts += [f"## {name} players: win shares, par {words.share(1 / players)}", results_table(those)]
    if any(card.get("exam") for card in found):
        parts += ["## Exams", exams_table(found)]
    if limits_list(found):
        parts += ["## Limits", limits_list(found)]
    return "\n\n".join(parts)


def main() -> None:
    """Put the tables between the marks in both files."""
    found = cards()
    fill_in(DOCS.parent / "README.md", START, END, readme(found))
    fill_in(DOCS / "models.md", START, END, page(found))


if __name__ == "__main__":
    main()
