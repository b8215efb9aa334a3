"""Rolit as an environment of TorchRL: tensordicts with actions come in, those of the learner's next turns go out.

Legend: B rounds, n side, A = n·n actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Binary, Bounded, Categorical, Composite, Unbounded
from torchrl.envs import EnvBase

from rolit_env.vector_env import RolitVectorEnv


class RolitTorchEnv(EnvBase):  # type: ignore[misc]
    """Many rounds in lockstep with one learner, each with a seat of its own and agents in the others.

    A step runs from the learner's turn to its next one and carries all the reward in between, so that advantages follow
    one seat through its round. (TorchRL's `PettingZooWrapper` steps from turn to turn of all seats: what its advantage
    estimators take for one trajectory is everybody's turns.)

    The entries, beside TorchRL's own:

    - `observation`, int8 [B, 4, n, n], and `action_mask`, bool [B, A], as `RolitVectorEnv` gives them
    - `action`, int64 [B]
    - `reward`, float32 [B, 1]

    Hand the mask to `torchrl.modules.MaskedCategorical` with a finite `neg_inf`; illegal actions raise `IllegalMoveError`.
    TorchRL starts the next round where one has ended; all rounds end together, but on 6x6 with three players.

    Args:
        num_envs: Number of rounds, B.
        options: `size`, `players`, `seat`, `opponents`, `starter` and `reward`, as `RolitVectorEnv` takes them.

    Attributes:
        rounds: The vector environment inside.

    Raises:
        As `RolitVectorEnv` does.
    """

    def __init__(self, num_envs: int, **options: Any) -> None:
        # Each step in arrays of its own: TorchRL keeps them until a batch is full.
        rounds = RolitVectorEnv(num_envs, **options, autoreset_mode=AutoresetMode.DISABLED, copy=True)
        super().__init__(device=torch.device("cpu"), batch_size=torch.Size([rounds.num_envs]))
        self.rounds = rounds
        self._next_seed: int | None = None
        self._rng = np.random.default_rng()
        spaces: Any = rounds.single_observation_space
        batch, (cells,) = self.batch_size, spaces["action_mask"].shape
        self.observation_spec = Composite(
            observation=Bounded(0, 1, shape=(*batch, *spaces["observation"].shape), dtype=torch.int8),
            action_mask=Binary(cells, shape=(*batch, cells), dtype=torch.bool),
            shape=batch,
        )
        self.action_spec = Categorical(cells, shape=batch)
        self.reward_spec = Unbounded(shape=(*batch, 1))
        self.done_spec = Composite(
            {key: Binary(1, shape=(*batch, 1), dtype=torch.bool) for key in ("done", "terminated", "truncated")}, shape=batch
        )

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Return the tensordict, or a new one, with a random legal action for each round."""
        # TorchRL's own would draw from all cells.
        tensordict = TensorDict(batch_size=self.batch_size) if tensordict is None else tensordict
        return tensordict.set("action", torch.from_numpy(self.rounds.random_actions(self._rng)))

    def _reset(self, tensordict: TensorDictBase | None = None, **_: Any) -> TensorDictBase:
        chosen = None if tensordict is None else tensordict.get("_reset", None)
        options = {} if chosen is None or chosen.all() else {"reset_mask": chosen.view(-1).numpy()}
        seed, self._next_seed = self._next_seed, None
        observation, _ = self.rounds.reset(seed=seed, options=options)
        return self._pack(observation, np.zeros(self.rounds.num_envs, np.bool_))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        observation, rewards, ended, _, _ = self.rounds.step(tensordict["action"].numpy())
        return self._pack(observation, ended).set("reward", torch.from_numpy(rewards).float()[:, None])

    def _pack(self, observation: Any, ended: Any) -> TensorDictBase:
        over = torch.from_numpy(ended)[:, None]
        return TensorDict(
            {
                "observation": torch.from_numpy(observation["observation"]),
                "action_mask": torch.from_numpy(observation["action_mask"]).bool(),
                "done": over,
                "terminated": over.clone(),
                "truncated": torch.zeros_like(over),
            },
            batch_size=self.batch_size,
            device=self.device,
        )

    def _set_seed(self, seed: int | None) -> None:
        self._next_seed = seed
        self._rng = np.random.default_rng(seed)
