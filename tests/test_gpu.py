"""The script for GPUs, tried out on the processor: it measures what plays by the rules and names what does not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from rolit_env.torch_batch import TorchBatch
from training import gpu

QUICK = ["--device", "cpu", "--size", "4", "--players", "2", "--compile", "false", "--repeats", "1"]


def test_it_checks_measures_and_notes_everything_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gpu.json"
    assert gpu.main([*QUICK, "--batches", "64", "16", "--games", "8", "--json", str(path)]) == 0
    out, err = capsys.readouterr()
    for name in ("8x8-2p", "8x8-3p", "8x8-4p", "6x6-2p", "6x6-3p", "6x6-4p", "4x4-2p"):
        assert f"{name} eager: the same as GameBatch" in err
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["settings"]["variant"] == "4x4-2p"
    assert found["torch"] == torch.__version__
    assert [(row["batch"], row["compiled"], row["observed"]) for row in found["play"]] == [
        (batch, False, observed) for batch in (16, 64) for observed in (False, True)
    ]
    (learner,) = found["learner"]
    assert learner["games"] == 8
    assert learner["both"] < min(learner["play"], learner["learn"])
    assert all(row["turns_per_second"] > 0 for row in found["play"])
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    speeds = {(row["batch"], row["observed"]): f"{row['turns_per_second'] / 1e6:,.2f}" for row in found["play"]}
    assert [row[:3] for row in rows[:2]] == [[str(batch), speeds[batch, False], speeds[batch, True]] for batch in (16, 64)]
    assert rows[2] == [f"{value:,.0f}" for value in learner.values()]


def test_what_there_is_no_time_for_is_left_out_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main([*QUICK, "--batches", "16", "--games", "8", "--minutes", "0"]) == 0
    _, err = capsys.readouterr()
    assert "no time left for the learner with 8 games" in err
    assert "no time left for 16 games, eager, observed" in err
    assert "turns a second" not in err


def test_a_file_that_cant_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gpu.main([*QUICK, "--json", str(tmp_path / "nowhere" / "gpu.json")]) == 2
    out, err = capsys.readouterr()
    assert "its folder must exist" in err
    assert "turns a second" not in out + err


def flip_last(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.clone()
    tensor.view(-1)[-1] = 1 - tensor.view(-1)[-1]
    return tensor


def spoiled(method: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *arguments, **options: flip_last(method(*arguments, **options))


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("balls", "balls differ from GameBatch's after 0 turns"),
        ("planes", "planes differ from GameBatch's after 0 turns"),
        ("legal_mask", "masks differ from GameBatch's after 0 turns"),
        ("counts", "counts differ from GameBatch's after 0 turns"),
        ("payoffs", r"payoffs (win) differ from GameBatch's after 60 turns"),
        ("win_shares", "win shares differ from GameBatch's after 60 turns"),
    ],
)
def test_a_device_that_plays_wrongly_is_told(
    name: str, what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain: Any = getattr(TorchBatch, name)
    wrong = property(spoiled(plain.fget)) if isinstance(plain, property) else spoiled(plain)
    monkeypatch.setattr(TorchBatch, name, wrong)
    assert gpu.main([*QUICK, "--batches", "16", "--games", "8"]) == 1
    out, err = capsys.readouterr()
    assert err == f"training.gpu: 8x8-2p on cpu, eager: {what}\n"
    assert not out


def test_wrong_legal_cells_are_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    plain = TorchBatch._advance

    def advance(games: TorchBatch, *rows: torch.Tensor) -> None:
        plain(games, *rows)
        if games.ply == 5:
            games.legal = flip_last(games.legal)

    monkeypatch.setattr(TorchBatch, "_advance", advance)
    assert gpu.main([*QUICK]) == 1
    assert "8x8-2p on cpu, eager: legal cells differ from GameBatch's after 5 turns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "torch finds no CUDA device here; --device cpu tries the script out"),
        (["--device", "abacus"], "device='abacus' can't be used here"),
        ([*QUICK, "--players", "4"], "no variant of Rolit"),
        ([*QUICK, "--batches", "0"], "batches"),
        ([*QUICK, "--repeats", "0"], "repeats"),
        ([*QUICK, "--minutes", "-1"], "minutes"),
    ],
)
def test_bad_command_lines_are_one_line_and_exit_2(
    arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(arguments) == 2
    out, err = capsys.readouterr()
    assert not out
    assert err.count("\n") == 1
    assert err.startswith("training.gpu: ")
    assert message in err
