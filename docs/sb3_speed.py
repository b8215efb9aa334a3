"""Time MaskablePPO over rounds in lockstep and over environments stepped one by one: opponents come in, a table goes out.

    python docs/sb3_speed.py --opponents random greedy pool --games 512 --repeats 5

Both learn by the settings of `examples/sb3.py` from the same number of environments, in one process on the same cores, in
turns: `RolitVecEnv`, and Stable-Baselines3's `DummyVecEnv` of `RolitEnv`. A step is one turn of the learner, with the answers
of its opponents and the learning from it. `pool` is what the example meets after a while: a random player and ten snapshots.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from examples.sb3 import make_model
from rolit_env.adapters.masked import TorchAgent
from rolit_env.adapters.pool import OpponentPool
from rolit_env.adapters.sb3 import MaskableActor, RolitVecEnv
from rolit_env.agents import Agent, make_agent
from rolit_env.bench import machine
from rolit_env.gym_env import RolitEnv


class Timed:
    """A model over an environment, and the seconds that its parts took."""

    def __init__(self, env: VecEnv, size: int, players: int) -> None:
        self.model = make_model(env, size, players, seed=0)
        self.steps = self.model.n_steps * env.num_envs
        env.step = self._timed("environment", env.step)
        env.env_method = self._timed("environment", env.env_method)
        self.model.train = self._timed("learning", self.model.train)
        self.forget()

    def forget(self) -> None:
        """Start counting anew."""
        self.seconds: list[float] = []
        self.spent = {"environment": 0.0, "learning": 0.0}

    def iterate(self) -> None:
        """Play a round in each environment and learn from it."""
        before = time.perf_counter()
        self.model.learn(self.steps, reset_num_timesteps=False)
        self.seconds.append(time.perf_counter() - before)

    def _timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            before = time.perf_counter()
            result = function(*arguments, **options)
            self.spent[part] += time.perf_counter() - before
            return result

        return call


def make_opponent(name: str, size: int, players: int) -> Agent:
    """Return an agent by its description, or a full pool."""
    if name != "pool":
        return make_agent(name)
    pool = OpponentPool("random", capacity=10)
    for seed in range(pool.capacity):
        model = make_model(RolitVecEnv(1, size=size, players=players), size, players, seed)
        pool.add(TorchAgent(MaskableActor(model.policy), sample=True))
    return pool


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=8)
    parser.add_argument("--players", type=int, default=2)
    parser.add_argument("--opponents", nargs="+", default=["random", "greedy", "pool"], help="agents, or `pool`")
    parser.add_argument("--games", type=int, default=512, help="environments side by side")
    parser.add_argument("--repeats", type=int, default=5, help="timings of each")
    parser.add_argument("--threads", type=int, default=1, help="threads that torch uses, for both alike")
    options = parser.parse_args(argv)
    size, players = options.size, options.players
    torch.set_num_threads(options.threads)

    about = machine.describe()
    print(
        f"{about['processor']}, {options.threads} of {about['cores']} cores, torch {about['versions']['torch']}, commit "
        f"{about['commit']}; {options.games} environments, {players} players on {size}x{size}. Steps a second, medians of "
        f"{options.repeats} timings taken in turns.\n"
    )
    print("| opponents | DummyVecEnv | RolitVecEnv | times | lowest | highest | environment | acting | learning |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name in options.opponents:
        setting = {"size": size, "players": players, "opponents": make_opponent(name, size, players)}
        one_by_one = Timed(DummyVecEnv([lambda setting=setting: RolitEnv(**setting)] * options.games), size, players)
        lockstep = Timed(RolitVecEnv(options.games, **setting), size, players)
        for timed in (one_by_one, lockstep):
            timed.iterate()  # compiles
            timed.forget()
        for _ in range(options.repeats):
            one_by_one.iterate()
            lockstep.iterate()
        rates = [timed.steps / statistics.median(timed.seconds) for timed in (one_by_one, lockstep)]
        times = sorted(slow / fast for slow, fast in zip(one_by_one.seconds, lockstep.seconds, strict=True))
        environment, learning = (lockstep.spent[part] / sum(lockstep.seconds) for part in ("environment", "learning"))
        cells = [name, *(f"{rate:,.0f}" for rate in rates)]
        cells += [f"{ratio:.2f}" for ratio in (statistics.median(times), times[0], times[-1])]
        cells += [f"{share:.0%}" for share in (environment, 1 - environment - learning, learning)]
        print(f"| {' | '.join(cells)} |", flush=True)
    print("\nThe last three columns say where RolitVecEnv's time goes.")


if __name__ == "__main__":
    main()
