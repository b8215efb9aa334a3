"""Networks that know nothing of masks play legally, greedily or at random, and round after round."""

import copy
import pickle

import numpy as np
import pytest
import torch
from torch import nn

from rolit_env import GameBatch, play_rounds
from rolit_env.adapters.masked import TorchAgent, masked_logits, predict
from rolit_env.errors import OptionError, RoundOverError
from rolit_env.gym_env import RolitEnv
from rolit_env.variant import all_variants
from rolit_env.vector_env import RolitVectorEnv


class Blind(nn.Module):
    """Knows of the mask only to do the opposite: it prefers illegal cells."""

    def __init__(self, size):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4 * size * size, size * size)

    def forward(self, planes, mask):
        logits = 5 * self.layer(planes.float().flatten(1)) - 100 * mask
        return logits, logits.mean(dim=1)


def test_illegal_cells_have_no_probability_and_the_rest_keep_theirs():
    logits = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    mask = torch.tensor([[1, 0, 1], [0, 1, 0]], dtype=torch.int8)
    masked = masked_logits(logits, mask)
    probabilities = masked.softmax(dim=1)
    expected = torch.tensor([1.0, 3.0]).softmax(dim=0)
    torch.testing.assert_close(probabilities, torch.tensor([[expected[0], 0, expected[1]], [0, 1, 0]]))
    entropy = torch.distributions.Categorical(logits=masked).entropy().sum()
    entropy.backward()
    assert torch.isfinite(entropy)
    assert torch.isfinite(logits.grad).all()
    assert (logits.grad[mask == 0] == 0).all()
    assert torch.isfinite(masked_logits(logits, torch.zeros(2, 3)).softmax(dim=1)).all()  # the end of a round


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 4), (3, 2)])
def test_a_mask_of_another_shape_is_refused(shape):
    with pytest.raises(OptionError, match=r"must have the shape of the logits, \(2, 3\)"):
        masked_logits(torch.zeros(2, 3), torch.ones(shape))


@pytest.mark.parametrize("sample", [False, True])
@pytest.mark.parametrize("variant", all_variants(), ids=lambda variant: variant.name)
def test_a_blind_network_plays_legally_to_the_end(variant, sample):
    agent = TorchAgent(Blind(variant.size), sample=sample)
    games = GameBatch(20, size=variant.size, players=variant.players, seed=0)
    rng = np.random.default_rng(0)
    while not games.done:
        games.step(agent.act(games, rng))
    with pytest.raises(RoundOverError, match="no legal action"):
        agent.act(games, rng)


def test_without_the_mask_it_would_not():
    games = GameBatch(20, size=6, seed=0)
    logits, _ = Blind(6)(torch.from_numpy(games.planes()), torch.from_numpy(games.legal_mask()))
    legal = np.take_along_axis(games.legal_mask(), logits.argmax(dim=1).numpy()[:, None], axis=1)
    assert not legal.any()


def test_greedy_takes_the_best_legal_cell_and_sampling_follows_the_softmax():
    class Fixed(nn.Module):
        def forward(self, planes, mask):
            logits = torch.zeros(mask.shape)
            logits[:, cells[0]] = 1.0
            return (logits,)

    games = GameBatch(1, size=6, starter="red")[np.zeros(4000, np.int64)]
    cells = np.flatnonzero(games.legal_mask()[0])
    rng = np.random.default_rng(0)
    assert set(TorchAgent(Fixed()).act(games, rng).tolist()) == {cells[0]}
    drawn = TorchAgent(Fixed(), sample=True).act(games, rng)
    expected = np.exp([1.0, *[0.0] * (len(cells) - 1)])
    counts = np.array([(drawn == cell).sum() for cell in cells])
    expected *= len(drawn) / expected.sum()
    assert counts.sum() == len(drawn)
    assert ((counts - expected) ** 2 / expected).sum() < 13.8  # chi², two degrees of freedom, one in a thousand


def test_observations_of_both_environments_are_understood():
    module = Blind(6)
    env = RolitEnv(size=6, illegal_move="raise")
    observation, _ = env.reset(seed=0)
    over = False
    while not over:
        action = predict(module, observation)
        assert action.shape == ()
        observation, _, over, _, _ = env.step(action)
    with pytest.raises(RoundOverError):
        predict(module, observation)

    envs = RolitVectorEnv(5, size=6)  # which raises when an action is illegal
    observation, _ = envs.reset(seed=0)
    for _ in range(16):
        observation, _, over, _, _ = envs.step(predict(module, observation, np.random.default_rng(0)))
    assert over.all()


def test_one_round_that_is_over_among_many_is_noticed():
    games = GameBatch(3, size=6, seed=0)
    mask = games.legal_mask()
    mask[1] = 0
    with pytest.raises(RoundOverError, match="no legal action"):
        predict(Blind(6), {"observation": games.planes(), "action_mask": mask})


def test_agents_can_be_copied_and_pickled_and_take_part_in_the_arena():
    agent = TorchAgent(Blind(6), "blind")
    games = GameBatch(50, size=6, seed=0)
    actions = agent.act(games, np.random.default_rng(0))
    for twin in (copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        assert twin.name == "blind"
        np.testing.assert_array_equal(twin.act(games, np.random.default_rng(0)), actions)
    result = play_rounds([agent, "random"], 40, size=6)
    assert result.agents == ("blind", "random")
