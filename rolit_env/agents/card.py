"""The card beside a trained file: what it was made for and whether it is that very file come out, or one clear error."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from rolit_env.errors import ModelFileError, RolitError
from rolit_env.variant import Variant, variant


def read_card(path: Path) -> dict[str, Any]:
    """Return the card beside a trained file. Raises `ModelFileError`."""
    card_path = path.with_suffix(".json")
    try:
        card = json.loads(card_path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"{path} has no card: {card_path} must lie beside it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise ModelFileError(f"the card {card_path} can't be read as JSON ({error})") from None
    if not isinstance(card, dict):
        raise ModelFileError(f"the card {card_path} must be a JSON object")
    return card


def card_variant(card: dict[str, Any], path: Path) -> Variant:
    """Return the variant a card names. Raises `ModelFileError`."""
    try:
        return variant(card["variant"]["size"], card["variant"]["players"])
    except (KeyError, TypeError, RolitError) as error:
        raise ModelFileError(f"the card of {path} must name a variant ({error!r})") from None


def check_sum(card: dict[str, Any], path: Path) -> None:
    """Raise `ModelFileError` when the file is not the one its card describes, or can't be read."""
    # File and card are two; the sum tells when one was replaced and the other was not. Cards by hand may lack it.
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ModelFileError(f"{path} can't be read ({error.strerror})") from None
    if card.get("sha256", found) != found:
        raise ModelFileError(f"{path} is not the file its card describes (SHA-256 sums differ); export both again")
