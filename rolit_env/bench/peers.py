"""What `rolit bench` compares with: other libraries at their documented best use, as work ready to be timed.

None has Rolit, so each plays the game it has that is nearest to it, legally and at random. A pass is no turn.
"""

from __future__ import annotations

import random
from typing import Any

from rolit_env.bench.layers import aec_loop
from rolit_env.bench.measure import Row, Work

PGX_GAMES = 1024
"""Games side by side in pgx, a number its documentation uses."""

ROUNDS = 50
"""Rounds between two looks at the clock where a library plays one game at a time."""


def _rust_reversi(_: int) -> Work:
    from rust_reversi import Board

    difference = 0

    def play() -> int:
        nonlocal difference
        turns = 0
        for _ in range(ROUNDS):
            board = Board()
            while not board.is_game_over():
                if board.is_pass():
                    board.do_pass()
                else:
                    board.do_move(board.get_random_move())
                    turns += 1
            difference += board.diff_piece_num()
        return turns

    return Work(play, lambda: float(difference))


def _pgx(_: int) -> Work:
    import jax
    import jax.numpy as jnp
    import pgx

    env: Any = pgx.make("othello")
    init, step, no_move = jax.vmap(env.init), jax.vmap(env.step), env.num_actions - 1

    @jax.jit  # type: ignore[untyped-decorator]  # where jax is not installed
    def play_round(key: Any) -> Any:
        # One compiled loop over the whole round, without a way back to Python in it; a uniformly random legal choice is
        # the largest of uniform numbers, which costs less here than a draw from a categorical distribution.
        def turn(carry: Any) -> Any:
            state, key, turns = carry
            key, noise = jax.random.split(key)
            chances = jax.random.uniform(noise, state.legal_action_mask.shape)
            actions = jnp.where(state.legal_action_mask, chances, -1).argmax(axis=1)
            turns += (~state.terminated & (actions != no_move)).sum()
            return step(state, actions), key, turns

        key, start = jax.random.split(key)
        state = init(jax.random.split(start, PGX_GAMES))
        state, key, turns = jax.lax.while_loop(lambda carry: ~carry[0].terminated.all(), turn, (state, key, 0))
        return key, turns, jnp.abs(state.rewards).sum()

    key, decided = jax.random.PRNGKey(0), 0.0

    def play() -> int:
        nonlocal key, decided
        key, turns, rewards = play_round(key)
        decided += float(rewards)  # waits for the result
        return int(turns)

    return Work(play, lambda: decided)


def _open_spiel(_: int) -> Work:
    import pyspiel

    game, rng, won = pyspiel.load_game("othello"), random.Random(0), 0.0
    no_move = game.num_distinct_actions() - 1

    def play() -> int:
        nonlocal won
        turns = 0
        for _ in range(ROUNDS):
            state = game.new_initial_state()
            while not state.is_terminal():
                action = rng.choice(state.legal_actions())
                state.apply_action(action)
                turns += action != no_move
            won += state.player_return(0)
        return turns

    return Work(play, lambda: won)


def _connect_four(_: int) -> Work:
    from pettingzoo.classic import connect_four_v3  # type: ignore[import-untyped]

    return aec_loop(connect_four_v3.env())


def _empty(_: int) -> Work:
    from rolit_env.bench import empty_env

    return aec_loop(empty_env.env())


PEERS = (
    Row(
        "rust-reversi",
        "rust-reversi, Othello, one game at a time",
        _rust_reversi,
        needs=("rust_reversi",),
        install="rust-reversi",
        peer=True,
    ),
    Row(
        "pgx",
        f"pgx, Othello, compiled by JAX, {PGX_GAMES:,} games",
        _pgx,
        cores="all",
        needs=("pgx", "jax"),
        install="pgx",
        peer=True,
    ),
    Row(
        "open-spiel",
        "OpenSpiel, Othello, one game at a time",
        _open_spiel,
        needs=("pyspiel",),
        install="open_spiel",
        peer=True,
    ),
    Row(
        "connect-four",
        "PettingZoo's `connect_four_v3.env()`, the AEC loop",
        _connect_four,
        needs=("pygame",),
        install="pygame-ce",
        peer=True,
    ),
    Row("empty", "no game in PettingZoo's wrappers, the AEC loop", _empty, peer=True),
)
