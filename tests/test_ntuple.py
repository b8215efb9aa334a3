"""N-tuple tables: numbers against a plain count, learning that helps, runs that resume, files that are checked."""

import copy
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.agents.ntuple import NTupleAgent, NTuples
from rolit_env.bits import popcount
from rolit_env.errors import CheckpointError, ConfigError, ModelFileError, OptionError, OutputError, VariantError
from rolit_env.kernel import kernel
from rolit_env.notation import parse_cell
from rolit_env.search.children import pair_children, seat_children
from rolit_env.search.evaluation import many_seat_values, pair_value, pair_values, seat_values
from rolit_env.search.ntuple import (
    FEATURE_LANES,
    FEATURE_WEIGHTS,
    LANES,
    best_child,
    find_position,
    make_scratch,
    mirror_twins,
    placements,
    tuple_set,
)
from rolit_env.search.patterns import TUPLES
from rolit_env.search.position import geometry_of
from rolit_env.search.safe import safe_balls
from rolit_env.search.small_board import small_board
from rolit_env.symmetry import cell_permutations, transform_words
from rolit_env.variant import COLORS, all_variants, variant
from training import ntuple as ntuple_module
from training.ntuple import FILE_NAME, NTupleConfig, NTupleLearner, load, save, train
from training.td import Tables, Workers, _most_or_fewest, make_workspace, play_and_learn

TINY = NTupleConfig(size=4, minutes=0, turns=12 * 2 * 400, rounds=100, evaluate_every=0)


@kernel
def position_numbers(view, seat, seats, size, tuples, out):
    for game in range(view.shape[0]):
        find_position(view[game], seat, seats, size, tuples, out[game])


@kernel
def best_cells(view, players, size, tuples, weights, scratch, cells, logits):
    for game in range(view.shape[0]):
        cell, logit = best_child(view[game], players, size, tuples, weights, scratch)
        cells[game], logits[game] = np.int64(cell), logit


def positions(size, players, ply, games=40, seed=0):
    batch = GameBatch(games, size=size, players=players, seed=seed)
    if ply:
        batch.step_random(np.random.default_rng(seed), ply)
    return batch


def numbers_of(batch, seat):
    chosen = batch.variant
    out = np.zeros((len(batch), LANES), np.uint16)
    seats = 1 if chosen.players == 2 else chosen.players
    position_numbers(batch.view(), seat, seats, chosen.size, tuple_set(TUPLES[chosen.size], chosen.size), out)
    return out


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_numbers_are_contents(chosen):
    size, players = chosen.size, chosen.players
    seen = set()
    for ply in (0, 5, chosen.plies - 1):
        batch = positions(size, players, ply, games=10)
        view = batch.view().tolist()
        for seat in range(1 if players == 2 else players):
            found = numbers_of(batch, seat)
            for game, words in enumerate(view):
                own = words[1 if players == 2 else seat]
                rival = words[1] if players > 2 and seat == 0 else words[0]
                occupied = words[0] | words[1] | words[2] | words[3]
                contents = [content(own, rival, occupied, cell, size) for cell in range(size * size)]
                seen.update(contents)
                lane = FEATURE_LANES
                for text in TUPLES[size]:
                    for placed in placements(tuple(parse_cell(name, size) for name in text.split()), size):
                        base, kinds = KINDS[len(placed)]
                        digits = [next(at for at, kind in enumerate(kinds) if contents[cell] in kind) for cell in placed]
                        assert found[game, lane] == sum(digit * base**place for place, digit in enumerate(digits))
                        lane += 1
    assert seen == set(CONTENTS)


CONTENTS = ("both capture", "seat captures", "rival captures", "nobody captures", "own", "other")
SIX = [{kind} for kind in CONTENTS]
FOUR = [{"both capture", "rival captures"}, {"seat captures", "nobody captures"}, {"own"}, {"other"}]
THREE = [set(CONTENTS[:4]), {"own"}, {"other"}]
KINDS = {cells: (len(kinds), kinds) for cells, kinds in zip(range(1, 11), [SIX] * 6 + [FOUR] * 2 + [THREE] * 2, strict=True)}


def content(own, rival, occupied, cell, size):
    """Say what a cell holds, and who could capture there if it is empty."""
    if occupied >> cell & 1:
        return "own" if own >> cell & 1 else "other"
    seat, other = (captures(balls, occupied ^ balls, cell, size) for balls in (own, rival))
    return CONTENTS[0 if seat and other else 1 if seat else 2 if other else 3]


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_features_are_what_a_person_would_count(chosen):
    for ply in (1, 7, chosen.plies - 3):
        batch = positions(chosen.size, chosen.players, min(ply, chosen.plies - 2), games=20)
        seats = 1 if chosen.players == 2 else chosen.players
        for seat in range(seats):
            found = numbers_of(batch, seat)
            for game, words in enumerate(batch.view().tolist()):
                own = words[1 if seats == 1 else seat]
                rival = words[1 if seats > 1 and seat == 0 else 0]
                occupied = words[0] | words[1] | words[2] | words[3]
                capturing, touching, safe, balls = zip(
                    *(counts(one, occupied, chosen.size) for one in (own, rival)), strict=True
                )
                empty = chosen.cells - occupied.bit_count()
                assert found[game, :6].tolist() == [
                    capturing[0] * 32 + capturing[1],
                    empty * 64 + min(balls[0], 7) * 8 + min(balls[1], 7),
                    min(safe[0], 31) * 32 + min(safe[1], 31),
                    touching[0] * 32 + touching[1],
                    capturing[0] * 32 + touching[0],
                    empty * 64 + balls[0],
                ]


def counts(own, occupied, size):
    """Return cells where balls could capture, empty ones that they touch, those that can't be rolled any more, and all."""
    empty = [cell for cell in range(size * size) if not occupied >> cell & 1]
    capturing = [cell for cell in empty if captures(own, occupied ^ own, cell, size)]
    touching = [cell for cell in empty if any(own >> near & 1 for near in neighbours(cell, size))]
    safe = np.zeros(1, np.uint64)
    count_safe(np.uint64(own), np.uint64(occupied), size, safe)
    return len(capturing), len(touching), int(safe[0]), own.bit_count()


@kernel
def count_safe(own, occupied, size, safe):
    safe[0] = popcount(safe_balls(own, occupied, geometry_of(size)))


def neighbours(cell, size):
    row, column = divmod(cell, size)
    steps = [(row + down, column + right) for down in (-1, 0, 1) for right in (-1, 0, 1) if down or right]
    return [down * size + right for down, right in steps if 0 <= down < size and 0 <= right < size]


def test_more_than_seven_balls_count_as_seven():
    batch = positions(8, 2, 16, games=100)
    view = batch.view().tolist()
    for (other, own, *_), second in zip(view, numbers_of(batch, 0)[:, 1].tolist(), strict=True):
        assert second == 44 * 64 + min(own.bit_count(), 7) * 8 + min(other.bit_count(), 7)
    assert any(min(words[0].bit_count(), words[1].bit_count()) < 7 for words in view)
    assert any(min(words[0].bit_count(), words[1].bit_count()) > 7 for words in view)


def captures(own, others, cell, size):
    """Walk from a cell in all directions, as a person would."""
    row, column = divmod(cell, size)
    for down in (-1, 0, 1):
        for right in (-1, 0, 1):
            at, seen = (row + down, column + right), 0
            while (down or right) and 0 <= at[0] < size and 0 <= at[1] < size and others >> at[0] * size + at[1] & 1:
                at, seen = (at[0] + down, at[1] + right), seen + 1
            if seen and 0 <= at[0] < size and 0 <= at[1] < size and own >> at[0] * size + at[1] & 1:
                return True
    return False


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_the_best_cell_has_the_highest_sum_of_weights_after_its_turn(chosen):
    size, players = chosen.size, chosen.players
    tuples = tuple_set(TUPLES[size], size)
    weights = np.random.default_rng(1).normal(size=tuples.size).astype(np.float32)
    weights[0] = 0
    batch = positions(size, players, chosen.plies // 2)
    cells, logits = np.zeros(len(batch), np.int64), np.zeros(len(batch))
    best_cells(batch.view(), players, size, tuples, weights, make_scratch(players), cells, logits)
    for game in range(len(batch)):
        board = batch.board(game)
        sums = {}
        for move in board.legal_moves:
            after = board.copy()
            after.push(move)
            found = numbers_of(GameBatch.from_boards([after]), players - 1)[0]
            sums[move] = float(weights[tuples.offsets + found].sum())
        assert sums[cells[game]] == pytest.approx(max(sums.values()), abs=1e-3)
        assert logits[game] == pytest.approx(max(sums.values()), abs=1e-3)


def test_learnt_tables_value_a_position_as_its_mirror_images():
    learner = NTupleLearner.fresh(replace(TINY, size=6, players=3))
    Workers(learner.tables, learner.ntuples.weights, learner.course, learner.states).play(60)
    batch = positions(6, 3, 14)
    tuples, weights = learner.ntuples.layout, learner.tables.weights[1, 2]
    seen = []
    for permutation in cell_permutations(6):
        view = transform_words(batch.view(), np.tile(permutation, (len(batch), 1)))
        out = np.zeros((len(batch), LANES), np.uint16)
        position_numbers(view, 2, 3, 6, tuples, out)
        seen.append(weights[tuples.offsets + out].sum(axis=1))
    assert np.abs(seen[0]).max() > 0.01
    np.testing.assert_allclose(np.array(seen), np.tile(seen[0], (8, 1)), atol=1e-4)


def test_twins_are_their_own_twins_and_tables_too_alike_are_refused():
    for size, tuples in TUPLES.items():
        twins = mirror_twins(tuples, size)
        assert len(twins) == tuple_set(tuples, size).size
        assert (twins[twins] == np.arange(len(twins))).all()
        assert (twins != np.arange(len(twins))).any()
    with pytest.raises(OptionError, match="too many ways"):
        mirror_twins(("c3 d3 c4 d4",), 6)


def test_what_threads_learnt_is_averaged_by_the_errors_they_met():
    learner = NTupleLearner.fresh(TINY)
    alone = [Tables(*(table.copy() for table in learner.tables)) for _ in range(2)]
    for tables, state in zip(alone, learner.states.copy(), strict=True):
        play_and_learn(tables, learner.course, 50, state, make_workspace(tables, learner.course))
    Workers(learner.tables, learner.ntuples.weights, learner.course, learner.states).play(50, averaging=0.25)
    sizes = np.array([tables.errors[..., 1] for tables in alone])
    moves = np.array([tables.weights for tables in alone])
    weights = (sizes * moves).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1e-30)
    errors = sum(tables.errors for tables in alone)
    assert ((sizes > 0).sum(axis=0) == 1).any()  # there a thread's move counts as a whole
    np.testing.assert_allclose(learner.tables.weights, weights, atol=1e-5)
    np.testing.assert_allclose(learner.tables.errors, TINY.fading * errors, atol=1e-4)
    np.testing.assert_allclose(learner.ntuples.weights, 0.25 * weights, atol=1e-5)
    assert np.abs(weights).sum() > 0


def test_many_threads_learn_as_one_does():
    # What the first phases learn is common to all rounds; the sum of what eight threads learnt of it would overshoot.
    errors = {}
    for workers in (1, 8):
        learner = NTupleLearner.fresh(replace(TINY, workers=workers, rounds=400 // workers))
        threads = Workers(learner.tables, learner.ntuples.weights, learner.course, learner.states)
        errors[workers] = np.mean([threads.play(learner.config.rounds) for _ in range(20)][10:])
    assert errors[8] < 2 * errors[1]


def test_results_count_less_the_earlier_a_turn_is():
    config = replace(TINY, workers=1, explore=0.0, opening_share=0.0, lopsided=0.0, learning_rate=0.0, td_lambda=0.7, exact=0)
    learner = NTupleLearner.fresh(config)
    play_and_learn(learner.tables, learner.course, 20, learner.states[0], make_workspace(learner.tables, learner.course))
    # All values are a half, and stay so, so that errors come from results alone: a half for each round that was not drawn.
    by_empty_cells = errors_by_empty_cells(learner)[..., 1].sum(axis=0)[:12]
    assert by_empty_cells[0] in np.arange(1, 21) / 2
    # The turn before the last learns from the result itself, which no estimate blurs.
    np.testing.assert_allclose(by_empty_cells, by_empty_cells[0] * 0.7 ** np.maximum(np.arange(12) - 1, 0), rtol=1e-5)


def test_what_was_played_for_a_try_teaches_nothing_about_the_turns_before():
    for explore in (0.0, 1.0):
        config = replace(
            TINY, workers=1, explore=explore, opening_share=0.0, lopsided=0.0, learning_rate=0.0, td_lambda=1.0, exact=0
        )
        learner = NTupleLearner.fresh(config)
        play_and_learn(learner.tables, learner.course, 200, learner.states[0], make_workspace(learner.tables, learner.course))
        sizes = errors_by_empty_cells(learner)[..., 1].sum(axis=0)[:12]
        if explore:  # of the turns before the last nearly all strayed, and all values are a half
            assert sizes[0] == sizes[1] > 4 * sizes[4]
            assert sizes[8] < 0.02 * sizes[0]
        else:
            np.testing.assert_allclose(sizes, sizes[0])


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_rounds_begin_as_any_colour_does(chosen):
    starts = NTupleLearner.fresh(NTupleConfig(size=chosen.size, players=chosen.players)).course.starts
    for color, start in zip(chosen.colors, starts, strict=True):
        batch = GameBatch(1, size=chosen.size, players=chosen.players, starter=color)
        assert batch.view()[0].tolist() == start.tolist()
    assert len(np.unique(starts, axis=0)) == len(chosen.colors)


def test_the_exact_value_stands_in_for_what_came_of_the_turns_before():
    # All of 4x4 is solved after the first turn: under best play the second player wins, whatever red begins with.
    config = replace(TINY, workers=1, explore=0.0, opening_share=0.0, lopsided=0.0, learning_rate=0.0, exact=11, siblings=0.0)
    learner = NTupleLearner.fresh(config)
    play_and_learn(learner.tables, learner.course, 30, learner.states[0], make_workspace(learner.tables, learner.course))
    assert small_board().values[0].max() < 0
    assert errors_by_empty_cells(learner)[0, 11, 0] == pytest.approx(30 * -0.5)


def test_all_turns_near_the_end_learn_from_exact_values():
    played, all_of_them = (sizes_near_the_end(siblings) for siblings in (0.0, 1.0))
    assert played.min() > 0.5 * 0.5 * 30
    assert all_of_them[0] == played[0]  # the last turn has no other
    assert (all_of_them[3:] > 2 * played[3:]).all()


def sizes_near_the_end(siblings):
    config = replace(TINY, size=6, workers=1, explore=0.5, learning_rate=0.0, exact=8, siblings=siblings)
    learner = NTupleLearner.fresh(config)
    play_and_learn(learner.tables, learner.course, 30, learner.states[0], make_workspace(learner.tables, learner.course))
    sizes = errors_by_empty_cells(learner)[..., 1].sum(axis=0)[:9]
    assert (sizes % 0.5 == 0).all()  # known results against values of a half
    return sizes


def errors_by_empty_cells(learner):
    """Return the sums of errors, and of their sizes, by phase and number of empty cells, of the seat that has just moved."""
    errors = learner.tables.errors[:, 0, learner.ntuples.layout.offsets[1] :][:, : 64 * 64]
    return errors.reshape(-1, 64, 64, 2).sum(axis=2)


@kernel
def most_or_fewest(view, legal, most, rules, kept, after):
    for game in range(view.shape[0]):
        kept[game] = _most_or_fewest(view[game], legal[game], most, rules, after)


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_lopsided_turns_take_the_most_balls_or_the_fewest(chosen):
    batch = positions(chosen.size, chosen.players, chosen.plies // 2)
    rules = NTupleLearner.fresh(NTupleConfig(size=chosen.size, players=chosen.players)).course.rules
    for most in (True, False):
        kept = np.zeros(len(batch), np.uint64)
        most_or_fewest(batch.view(), batch.legal, most, rules, kept, np.zeros(4, np.uint64))
        for game in range(len(batch)):
            board = batch.board(game)
            balls = {}
            for cell in board.legal_moves:
                after = board.copy()
                after.push(cell)
                balls[cell] = after.words[COLORS.index(board.color_to_move)].bit_count()
            wanted = (max if most else min)(balls.values())
            assert kept[game] == sum(1 << cell for cell in balls if balls[cell] == wanted)


def test_lopsided_rounds_teach_how_to_play_on_without_balls():
    met = {}
    for lopsided in (0.0, 1.0):
        learner = NTupleLearner.fresh(NTupleConfig(size=8, workers=1, lopsided=lopsided))
        play_and_learn(learner.tables, learner.course, 100, learner.states[0], make_workspace(learner.tables, learner.course))
        errors = learner.tables.errors[:, 0, learner.ntuples.layout.offsets[1] :][:, : 64 * 64]
        met[lopsided] = (errors.reshape(-1, 64, 8, 8, 2)[..., 0, 1] > 0).sum()  # the next mover has no ball
    assert met[1.0] > met[0.0]


@pytest.mark.parametrize(("size", "players", "share"), [(6, 2, 0.93), (6, 4, 0.55)])
def test_learning_improves_play(size, players, share):
    config = NTupleConfig(size=size, players=players, minutes=0, turns=32 * 6000, rounds=500, evaluate_every=0)
    learner = NTupleLearner.fresh(config)
    workers = Workers(learner.tables, learner.ntuples.weights, learner.course, learner.states)
    for _ in range(6):
        workers.play(config.rounds)
    result = play_rounds([NTupleAgent.of(learner.ntuples), "random"], 1000, size=size, players=players, seed=1)
    assert result.win_share[0] > share, result.win_share


def test_a_run_that_was_stopped_goes_on_bit_for_bit(tmp_path: Path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder in (whole, parts):
        folder.mkdir()
    learner = NTupleLearner.fresh(TINY)
    train(learner, whole)
    stops = iter((False, True))
    train(NTupleLearner.fresh(TINY), parts, lambda: next(stops))
    halfway = load(parts)
    assert halfway.turns == 12 * 2 * 100
    train(halfway, parts)
    first, second = load_file(whole / FILE_NAME), load_file(parts / FILE_NAME)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    assert np.abs(first["weights"]).sum() > 0


def test_damaged_runs_are_refused(tmp_path: Path):
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load(tmp_path)
    learner = NTupleLearner.fresh(TINY)
    save(learner, tmp_path)
    path = tmp_path / FILE_NAME
    good = path.read_bytes()
    path.write_bytes(good[:1000])
    with pytest.raises(CheckpointError, match="cut short"):
        load(tmp_path)
    path.write_bytes(good)
    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    save_file(load_file(path), path, metadata={**metadata, "format": "other"})
    with pytest.raises(CheckpointError, match="lacks the mark"):
        load(tmp_path)
    save_file({**load_file(path), "states": np.zeros((3, 1), np.uint64)}, path, metadata=metadata)
    with pytest.raises(CheckpointError, match="does not hold what its settings ask for"):
        load(tmp_path)
    state = json.loads(metadata["state"])
    state["config"]["phases"] = 99
    path.write_bytes(good)
    save_file(load_file(path), path, metadata={**metadata, "state": json.dumps(state)})
    with pytest.raises(CheckpointError, match="phases=99 is out of range"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"tuples": ("a1 i9",)}, "'i9' is no cell"),
        ({"tuples": ("a1 a1",)}, "'a1 a1' is no tuple"),
        ({"tuples": ("a1 b1 c1 d1 e1 f1 g1 h1 a2 b2 c2",)}, "1 to 10 different cells"),
        ({"tuples": ("a1 b2",) * 40}, "too many placements"),
        ({"workers": 0}, "workers=0 is out of range"),
        ({"explore": 1.5}, "explore=1.5 is out of range"),
        ({"lopsided": -0.1}, "lopsided=-0.1 is out of range"),
        ({"size": 4, "players": 3}, "no variant"),
    ],
)
def test_settings_that_can_not_be_are_named(settings, sentence):
    with pytest.raises((ConfigError, OptionError, VariantError, ValueError), match=re.escape(sentence)):
        NTupleConfig(**settings)


def test_the_command_line_trains_resumes_and_complains_in_one_line(tmp_path: Path, capsys):
    run = tmp_path / "run"
    quick = ["--size", "4", "--turns", "2400", "--rounds", "100", "--run", str(run), "--evaluate_rounds", "20"]
    quick += ["--evaluate_against", "[greedy, 'alphabeta:depth=2']"]
    assert ntuple_module.main([*quick[:-1], "[nobody]"]) == 2
    assert "nobody" in capsys.readouterr().err
    assert not run.exists()
    assert ntuple_module.main(quick) == 0
    assert "release" in capsys.readouterr().out
    learner = load(run)
    assert learner.turns == 2400
    assert set(learner.evaluations[-1]["win_share"]) == {"greedy", "alphabeta:depth=2"}
    assert ntuple_module.main(["--resume", str(run), "--turns", "4800"]) == 0
    assert load(run).turns == 4800
    capsys.readouterr()
    for argv, word in (
        (quick, "holds a run already"),
        (["--size", "5"], "no variant"),
        (["--resume", str(tmp_path / "none")], "there is no checkpoint"),
        (["--lerning_rate", "3"], "lerning_rate"),
    ):
        assert ntuple_module.main(argv) == 2
        error = capsys.readouterr().err
        assert word in error
        assert error.count("\n") == 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tables = NTuples.empty(variant(6, 2), ("a1 b1 c1", "a1 b2"), 2)
    tables.weights[:] = np.random.default_rng(0).normal(size=tables.weights.shape)
    path = tmp_path / "six.safetensors"
    tables.save(path)
    path.with_suffix(".json").write_text(json.dumps({"variant": {"size": 6, "players": 2}}))
    return path


def test_a_file_plays_as_the_tables_it_was_made_of(file: Path):
    agent = make_agent(f"ntuple:{file}")
    assert agent.name == f"ntuple:{file}"
    assert make_agent(str(file)).name == agent.name
    loaded = NTuples.load(file)
    assert loaded.tuples == ("a1 b1 c1", "a1 b2")
    assert loaded.phase_of_turn.tolist() == [0] * 16 + [1] * 16
    batch = positions(6, 2, 20)
    actions = agent.act(batch, np.random.default_rng(0))
    np.testing.assert_array_equal(actions, NTupleAgent.of(loaded).act(batch, np.random.default_rng(1)))
    batch.step(actions)
    with pytest.raises(VariantError, match="plays size 6 with 2 players"):
        agent.act(GameBatch(1, size=8), np.random.default_rng(0))


def test_files_and_cards_that_do_not_fit_are_refused(file: Path):
    card = file.with_suffix(".json")
    text, good = card.read_text(), file.read_bytes()
    with pytest.raises(ModelFileError, match="there is no file"):
        make_agent("ntuple:none.safetensors")
    card.unlink()
    with pytest.raises(ModelFileError, match="has no card"):
        NTupleAgent(file)
    card.write_text(json.dumps({"variant": {"size": 8, "players": 2}}))
    with pytest.raises(ModelFileError, match="its card says otherwise"):
        NTupleAgent(file)
    card.write_text(json.dumps({"variant": {"size": 6, "players": 2}, "sha256": "0"}))
    with pytest.raises(ModelFileError, match="SHA-256"):
        NTupleAgent(file)
    card.write_text(text)
    file.write_bytes(good[:-9])
    with pytest.raises(ModelFileError, match="cut short"):
        NTupleAgent(file)
    save_file({"weights": np.zeros((1, 1, 1), np.float16)}, file)
    with pytest.raises(ModelFileError, match="lacks the mark"):
        NTupleAgent(file)
    file.write_bytes(good)
    with safe_open(file, framework="numpy") as opened:
        metadata = opened.metadata()
    tensors = load_file(file)
    changes = [
        ({"met": tensors["met"][:-1]}, "must say of .* weights which it holds"),
        ({"met": tensors["met"].astype(np.uint16)}, "must say of .* weights which it holds"),
        ({"weights": tensors["weights"][1:]}, f"must hold {len(tensors['weights'])} finite float16 weights"),
        ({"weights": tensors["weights"].astype(np.float32)}, "finite float16 weights"),
        ({"weights": np.full_like(tensors["weights"], np.nan)}, "finite float16 weights"),
    ]
    for change, message in changes:
        save_file(tensors | change, file, metadata=metadata)
        with pytest.raises(ModelFileError, match=message):
            NTupleAgent(file)


def test_tables_are_not_written_where_they_can_not_be(tmp_path: Path):
    with pytest.raises(OutputError, match="can't be written"):
        NTuples.empty(variant(4, 2), ("a1",), 1).save(tmp_path / "no" / "folder.safetensors")


@kernel
def values_of(view, rows, players, size, evaluation, cells, words, counts, values, twins):
    """Write the values of all positions after each, one by one and all at once, int64 [B, 4, 64]."""
    for game in range(view.shape[0]):
        own, following, third, fourth = view[game, 0], view[game, 1], view[game, 2], view[game, 3]
        if players == 2:
            counts[game] = pair_children(own, following, third | fourth, size, cells, words[:3])
            pair_values(words[:3], counts[game], size, evaluation, twins[game, 0])
            words[3] = 0
        else:
            counts[game] = seat_children(own, following, third, fourth, rows, size, cells, words)
            many_seat_values(words, counts[game], players, size, evaluation, twins[game])
        for child in range(counts[game]):
            a, b, c, d = words[0, child], words[1, child], words[2, child], words[3, child]
            if players == 2:
                values[game, 0, child] = pair_value(a, b, c, d, size, evaluation)
            else:
                values[game, 0, child], values[game, 1, child], values[game, 2, child], values[game, 3, child] = seat_values(
                    a, b, c, d, players, size, evaluation
                )


@pytest.mark.parametrize("chosen", all_variants(), ids=lambda chosen: chosen.name)
def test_tables_value_positions_for_searches(chosen):
    size, players = chosen.size, chosen.players
    tables = NTuples.empty(chosen, TUPLES[size], 3)
    tables.weights[:] = np.random.default_rng(2).normal(scale=0.2, size=tables.weights.shape)
    cells, words = np.zeros(64, np.uint64), np.zeros((4, 64), np.uint64)
    for ply in (1, chosen.plies // 2, chosen.plies - 2):
        batch = positions(size, players, ply, games=16)
        values, twins, counts = np.zeros((16, 4, 64), np.int64), np.zeros((16, 4, 64), np.int64), np.zeros(16, np.int64)
        rows = make_scratch(players).rows
        values_of(batch.view(), rows, players, size, tables.evaluation(), cells, words, counts, values, twins)
        children = np.arange(64) < counts[:, None, None]
        np.testing.assert_array_equal(np.where(children, values, 0), np.where(children, twins, 0))
        weights = tables.weights[tables.phase_of_turn[ply]]  # of the turn that leads to the children
        for game in range(16):
            board = batch.board(game)
            for child, move in enumerate(sorted(board.legal_moves)):
                after = board.copy()
                after.push(move)
                one = GameBatch.from_boards([after])
                logits = np.array(
                    [weights[seat][tables.layout.offsets + numbers_of(one, seat)[0]].sum() for seat in range(len(weights))]
                )
                if players == 2:
                    assert values[game, 0, child] == pytest.approx(-1000 * logits[0], abs=2)
                else:
                    shares = 1 / (1 + np.exp(-logits))
                    np.testing.assert_allclose(values[game, :players, child], 1e6 * shares, atol=30)


@pytest.mark.parametrize(("players", "kinds"), [(2, ("alphabeta", "mcts")), (4, ("paranoid", "maxn", "brs", "mcts"))])
def test_searches_go_by_the_tables_of_a_file(tmp_path: Path, players, kinds):
    tables = NTuples.empty(variant(6, players), ("a1 b1 c1",), 1)
    # A ball in a corner is all that counts, so a search of one turn takes a corner whenever it can.
    numbers = np.arange(6**3)
    tables.weights[0, :, 1 + FEATURE_WEIGHTS :] = 4.0 * (numbers % 6 == 4) - 4.0 * (numbers % 6 == 5)
    file = tmp_path / "corners.safetensors"
    tables.save(file)
    file.with_suffix(".json").write_text(json.dumps({"variant": {"size": 6, "players": players}}))
    batch = positions(6, players, 14, games=200)
    corners = np.uint64(sum(1 << cell for cell in (0, 5, 30, 35)))
    can = (batch.legal & corners) != 0
    assert can.sum() > 5
    for kind in kinds:
        budget = "simulations=60" if kind == "mcts" else "depth=1"
        agent = make_agent(f"{kind}:{budget},eval={file}")
        assert make_agent(agent.name).name == agent.name
        actions = agent.act(batch, np.random.default_rng(0))
        took = (np.uint64(1) << actions.astype(np.uint64) & corners) != 0
        assert took[can].mean() > (0.8 if kind == "mcts" else 0.99), kind
        with pytest.raises(VariantError, match=f"plays size 6 with {players} players"):
            agent.check_variant(variant(8, players))
        copied = copy.deepcopy(agent)
        np.testing.assert_array_equal(copied.act(batch, np.random.default_rng(0)), actions)
    with pytest.raises(ModelFileError, match="there is no file"):
        make_agent(f"{kinds[0]}:eval=none.safetensors")
