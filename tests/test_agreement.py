"""All implementations against each other, in short; `python -m tests.agreement` is the long form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rolit_env import rolit_v0
from rolit_env.batch import GameBatch
from rolit_env.bits import cells_of
from rolit_env.board import Board
from rolit_env.torch_batch import TorchBatch
from tests.agreement import DisagreementError, compare_rounds, main
from tests.oracle import VARIANTS


def test_all_implementations_agree() -> None:
    tallies = compare_rounds(70, seed=1)
    assert {variant: tally.rounds for variant, tally in tallies.items()} == dict.fromkeys(VARIANTS, 10)
    assert {variant: tally.positions for variant, tally in tallies.items()} == {
        (size, players): 10 * (size * size - 3) for size, players in VARIANTS
    }


def test_a_disagreement_names_variant_seed_round_moves_and_both_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Board, "legal_moves", property(lambda board: list(cells_of(board.legal))[board.ply >= 40 :]))
    with pytest.raises(DisagreementError) as caught:
        compare_rounds(1, seed=5)
    message = str(caught.value)
    assert message.startswith("8x8-2p, seed 5, round 0: Board and the oracle disagree on the legal cells\nstarter: ")
    moves = message.split("moves so far: ")[1].splitlines()[0].split()
    board = Board(8, 2, message.split("starter: ")[1].splitlines()[0])
    for move in moves:
        board.push(move)
    assert board.ply == 40
    assert str(board) in message
    assert message.endswith(f"\noracle: {list(cells_of(board.legal))}\nBoard: {list(cells_of(board.legal))[1:]}")


def planted(method: Callable[..., Any], spoil: Callable[[Any], object]) -> Callable[..., Any]:
    """Return a method whose answer is spoiled before it is handed out."""

    def spoiled(*args: Any, **options: Any) -> Any:
        answer = method(*args, **options)
        spoil(answer)
        return answer

    return spoiled


def flip_last(array: np.ndarray | torch.Tensor) -> None:
    array.reshape(-1)[-1] = 1 - array.reshape(-1)[-1]


FAULTS = [
    *(
        (kind, name, flip_last, f"{kind.__name__}{which} and the oracle disagree on {what}")
        for kind in (GameBatch, TorchBatch)
        for name, which, what in (
            ("legal_mask", "", "the legal mask"),
            ("planes", "", "the observation"),
            ("counts", "", "the counts"),
            ("payoffs", r" \(win\)", "the payoffs"),
        )
    ),
    (Board, "payoffs", lambda values: values.update(red=0.5), r"Board \(win\) and the oracle disagree on the payoffs"),
    (rolit_v0.raw_env, "state", flip_last, "the environment and the oracle disagree on the board"),
    (
        rolit_v0.raw_env,
        "observe",
        lambda seen: flip_last(seen["observation"]),
        "the environment and the oracle disagree on the observation of red",
    ),
    (
        rolit_v0.raw_env,
        "observe",
        lambda seen: flip_last(seen["action_mask"]),
        "the environment and the oracle disagree on the legal mask of red",
    ),
]


@pytest.mark.parametrize(
    ("kind", "name", "spoil", "message"), FAULTS, ids=[f"{kind.__name__}-{name}" for kind, name, *_ in FAULTS]
)
def test_every_comparison_can_fail(
    kind: Any, name: str, spoil: Callable[[Any], object], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, name, planted(getattr(kind, name), spoil))
    with pytest.raises(DisagreementError, match=message):
        compare_rounds(1, seed=0)


def test_the_command_prints_what_it_compared(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--rounds", "8", "--seed", "3"])
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in capsys.readouterr().out.splitlines()]
    assert ["8x8-2p", "2", "122"] in rows
    assert ["4x4-2p", "1", "13"] in rows
    assert ["all", "8", str(4 * 61 + 3 * 33 + 13)] in rows


@pytest.mark.parametrize("arguments", [["--rounds", "0"], ["--seed", "-1"], ["--rounds", "many"]])
def test_the_command_refuses_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err
