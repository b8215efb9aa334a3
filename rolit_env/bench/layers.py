"""What `rolit bench` times of this package: a number of games comes in, work ready to be timed goes out.

Everything plays legally and at random. Where only an environment's own work is to be seen, the actions were drawn
beforehand, and the same round is played again from the same seed.
"""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

from rolit_env import loops, rolit_v0
from rolit_env.agents import AlphaBetaAgent, MctsAgent
from rolit_env.batch import GameBatch
from rolit_env.bench.machine import cores
from rolit_env.bench.measure import Row, Work

PLAYERS = 4
"""Players in the batches: most work for the rules. The environments have two, as the games they are compared with."""


def _recorded(batch: GameBatch) -> npt.NDArray[np.int8]:
    """Play a random round and return its actions, int8 [plies, B]: a byte each, so that reading them costs little."""
    rng = np.random.default_rng(0)
    actions = np.empty((batch.plies, len(batch)), np.int8)
    for cells in actions:
        cells[:] = batch.random_actions(rng)
        batch.step(cells)
    return actions


def _kernel(games: int) -> Work:
    batch = GameBatch(games, players=PLAYERS, seed=0)
    actions, loop = _recorded(batch), loops.step(batch.variant.size)

    def play() -> int:
        for cells in actions:
            loop(batch.balls, batch.mover_first(), cells, batch.legal, False, 0, games)
            batch.ply += 1
        return actions.size

    return Work(play, lambda: _balls(batch), prepare=lambda: batch.reset(seed=0))


def _step(games: int) -> Work:
    batch = GameBatch(games, players=PLAYERS, seed=0)
    actions = _recorded(batch)

    def play() -> int:
        for cells in actions:
            batch.step(cells)
        return actions.size

    return Work(play, lambda: _balls(batch), prepare=lambda: batch.reset(seed=0))


def _random(games: int) -> Work:
    rng = np.random.default_rng(0)
    GameBatch(1, players=PLAYERS).play_out(rng)  # so that no memory of compilers and caches counts
    tracemalloc.start()
    batch = GameBatch(games, players=PLAYERS, seed=rng)

    def play() -> int:
        batch.reset(seed=rng)
        while not batch.done:
            batch.step_random(rng)
        return batch.plies * games

    play()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Work(play, lambda: _balls(batch), facts={"bytes_per_game": most / games})


def _threads(games: int) -> Work:
    rng = np.random.default_rng(0)
    batch = GameBatch(games, players=PLAYERS, seed=rng, threads=len(cores()))

    def play() -> int:
        batch.reset(seed=rng)
        while not batch.done:
            batch.step_random(rng)
        return batch.plies * games

    return Work(play, lambda: _balls(batch))


def _playout(games: int) -> Work:
    batch, rng = GameBatch(games, players=PLAYERS, seed=0), np.random.default_rng(0)

    def play() -> int:
        batch.reset(seed=rng)
        batch.play_out(rng)
        return batch.plies * games

    return Work(play, lambda: _balls(batch))


def _observe(games: int) -> Work:
    batch, rng = GameBatch(games, players=PLAYERS, seed=0), np.random.default_rng(0)
    while batch.ply < batch.plies // 2:
        batch.step_random(rng)
    planes, mask = batch.planes(), batch.legal_mask()

    def play() -> int:
        batch.planes(out=planes)
        batch.legal_mask(out=mask)
        return games

    return Work(play, lambda: float(planes.sum() + mask.sum()))


def _torch(games: int) -> Work:
    from rolit_env.torch_batch import TorchBatch

    batch: Any = TorchBatch(games, players=PLAYERS, seed=0)

    def play() -> int:
        batch.reset()
        while not batch.done:
            batch.step_random()
        turns: int = batch.plies * games
        return turns

    return Work(play, lambda: _balls(batch))


def _vector(games: int) -> Work:
    env: Any = gymnasium.make_vec("rolit_env/Rolit-v0", num_envs=games, vectorization_mode="vector_entry_point", copy=False)
    rng, actions, ended = np.random.default_rng(0), [], False
    env.reset(seed=0)
    while not ended:
        actions.append(env.unwrapped.random_actions(rng))
        _, _, terminations, _, _ = env.step(actions[-1])
        ended = bool(terminations.all())
    won = 0.0

    def play() -> int:
        nonlocal won
        env.reset(seed=0)
        for cells in actions:
            observation, rewards, _, _, _ = env.step(cells)
        won = float(rewards.sum() + observation["observation"].sum())
        return len(actions) * games

    return Work(play, lambda: won)


def _one_seat(_: int) -> Work:
    env: Any = gymnasium.make("rolit_env/Rolit-v0")
    draw, won = random.Random(0).random, 0.0
    env.reset(seed=0)

    def play() -> int:
        nonlocal won
        turns, ended = 0, False
        observation, _ = env.reset()
        while not ended:
            legal = observation["action_mask"].nonzero()[0]
            observation, reward, ended, _, _ = env.step(legal[int(draw() * len(legal))])
            turns += 1
        won += reward
        return turns

    return Work(play, lambda: won)


def _aec(_: int) -> Work:
    return aec_loop(rolit_v0.env())


def _raw(_: int) -> Work:
    env = rolit_v0.raw_env()
    draw, won = random.Random(0).random, 0.0
    env.reset(seed=0)

    def play() -> int:
        nonlocal won
        turns = 0
        env.reset()
        while True:
            observation, reward, termination, _, _ = env.last()
            if termination:
                won += reward
                return turns
            legal = observation["action_mask"].nonzero()[0]
            env.step(legal[int(draw() * len(legal))])
            turns += 1

    return Work(play, lambda: won)


def _search(_: int) -> Work:
    batch, rng, agent = GameBatch(64, seed=0), np.random.default_rng(0), AlphaBetaAgent(depth=4, exact=0)
    batch.step_random(rng, batch.plies // 3)
    total = 0

    def play() -> int:
        nonlocal total
        result = agent.search(batch, rng)
        total += int(result.values.sum())
        return int(result.nodes.sum())

    return Work(play, lambda: float(total))


def _mcts(games: int, simulations: int = 100) -> Work:
    batch, rng = GameBatch(games, players=PLAYERS, seed=0), np.random.default_rng(0)
    agent = MctsAgent(simulations=simulations)

    def play() -> int:
        batch.reset(seed=rng)
        while not batch.done:
            batch.step(agent.act(batch, rng))
        return batch.plies * games * simulations

    return Work(play, lambda: _balls(batch))


def aec_loop(env: Any) -> Work:
    """Return a round of any AEC environment with masks, played as PettingZoo's documentation shows it."""
    env.reset(seed=0)
    for number, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(number)
    total = 0.0

    def play() -> int:
        nonlocal total
        turns = 0
        env.reset()
        for agent in env.agent_iter():
            observation, reward, termination, truncation, _ = env.last()
            if termination or truncation:
                total += abs(reward)
                env.step(None)
            else:
                env.step(env.action_space(agent).sample(observation["action_mask"]))
                turns += 1
        return turns

    return Work(play, lambda: total)


def _balls(batch: Any) -> float:
    """Return the balls of the first seat over all games, which take a whole round of all of them to know."""
    return float(batch.seat_counts()[:, 0].sum())


LAYERS = (
    Row("kernel", "the loop inside `GameBatch.step`, nothing checked, {games} games", _kernel, games="first"),
    Row("step", "`GameBatch.step`, actions given, {games} games", _step, games="all"),
    Row("random", "`GameBatch.step_random`, {games} games", _random, games="all"),
    Row("threads", "`GameBatch.step_random` with threads, {games} games", _threads, cores="all", games="last"),
    Row("playout", "`GameBatch.play_out`, {games} games", _playout, games="first"),
    Row("observe", "planes and masks into buffers, {games} games", _observe, games="first"),
    Row(
        "torch",
        "`TorchBatch.step_random` on the CPU, {games} games",
        _torch,
        cores="all",
        needs=("torch",),
        install="torch",
        games="first",
    ),
    Row("vector", "vector environment, random opponents, {games} games", _vector, games="first"),
    Row("one-seat", "one-seat environment, random opponent", _one_seat),
    Row("aec", "`rolit_v0.env()`, the AEC loop", _aec),
    Row("raw", "`rolit_v0.raw_env()`, without wrappers", _raw),
    Row("mcts", "`mcts`, simulations in place of turns, 64 games", lambda _: _mcts(64)),
    Row("mcts-one", "`mcts`, simulations in place of turns, one game", lambda _: _mcts(1)),
    Row("search", "`alphabeta:depth=4`, positions looked at in place of turns", _search),
)
