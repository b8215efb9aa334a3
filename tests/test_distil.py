"""Learning from a teacher: whom it asks, what its moves change, and how a run goes on without it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml

from rolit_env import GameBatch, make_agent
from rolit_env.adapters.masked import ILLEGAL
from rolit_env.agents import Agent
from rolit_env.errors import AgentError, ConfigError
from rolit_env.variant import variant
from tests.test_training import states
from training import train as train_module
from training.checkpoint import FILE_NAME, load_checkpoint
from training.config import TrainConfig
from training.distil import imitate, imitation_gradients
from training.export import export
from training.guests import Guest, Searcher
from training.learner import Learner
from training.network import position_words
from training.ppo import Turns
from training.rollout import play

TEACHER = "tests.test_distil:first_legal"
CONFIG = TrainConfig(
    size=6,
    players=3,
    games=40,
    minibatch=128,
    network="afterstates",
    minutes=0,
    turns=10_000,
    evaluate_every=0,
    teacher=TEACHER,
)


class FirstLegal(Agent):
    """Plays the first legal cell."""

    name = TEACHER

    def act(self, games, rng):
        """Return it, int64 [B]."""
        return games.legal_mask().argmax(axis=1)


def first_legal():
    """Make one."""
    return FirstLegal()


def test_it_is_asked_about_the_learners_own_turns_alone():
    learner = Learner.fresh(CONFIG)
    asked = []

    class Teacher:
        def moves(self, games, seed):
            asked.append((games, seed))
            return torch.from_numpy(FirstLegal().act(games, None))

    rollout = play(learner.network, CONFIG, learner.rng, learner.device, teacher=Teacher())
    assert [len(games) for games, _ in asked] == rollout.learns.sum(dim=1).tolist()
    assert 0 < len(asked[0][0]) < 40
    assert len({seed for _, seed in asked}) == len(asked)
    for ply, (games, _) in enumerate(asked):
        mine = rollout.learns[ply]
        assert torch.equal(position_words(games), rollout.words[ply, mine])
        assert torch.equal(rollout.advice[ply, mine], torch.from_numpy(FirstLegal().act(games, None)))


def test_a_teacher_does_not_play():
    rollouts = []
    for teacher in (None, Guest(TEACHER, CONFIG.variant)):
        learner = Learner.fresh(CONFIG)
        rollouts.append(play(learner.network, CONFIG, learner.rng, learner.device, teacher=teacher))
    plain, taught = rollouts
    assert plain.advice is None
    for part in ("words", "actions", "values", "learns", "payoffs"):
        assert torch.equal(getattr(plain, part), getattr(taught, part))
    assert taught.advice[taught.learns].ne(taught.actions[taught.learns]).any()


@pytest.mark.parametrize("threads", [1, 3])
def test_moves_are_those_of_the_agent_whatever_the_threads(threads):
    teacher = Guest("alphabeta:depth=2", variant(6, 2))
    games = GameBatch(200, size=6, players=2, seed=1)
    rng = np.random.default_rng(2)
    for _ in range(9):
        games.step_random(rng)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        moves = teacher.moves(games, 5)
    finally:
        torch.set_num_threads(before)
    values = make_agent("alphabeta:depth=2").search(games, rng).values
    children = games.copy()
    children.step(moves.numpy())
    assert (make_agent("alphabeta:depth=1").search(children, rng).values == -values).all()


def test_gradients_by_hand_are_autograds():
    config = TrainConfig(value_weight=0.7)
    rng = torch.Generator().manual_seed(3)
    logits = torch.where(torch.rand(300, 64, generator=rng) < 0.3, 2 * torch.randn(300, 64, generator=rng), ILLEGAL)
    values, targets = torch.randn(300, 3, generator=rng), torch.randn(300, 3, generator=rng)
    moves = (logits + torch.randn(300, 64, generator=rng)).argmax(dim=1)
    turns = Turns(torch.zeros(300, 5, dtype=torch.int64), moves, torch.zeros(300), torch.zeros(300), targets)

    logits.requires_grad_()
    values.requires_grad_()
    surprise = torch.nn.functional.cross_entropy(logits, moves, reduction="none")
    value_loss = (values - targets).square().mean(dim=1)
    (surprise.sum() / 600 + 0.7 * value_loss.sum() / 600).backward()

    by_logits, by_values, figures = imitation_gradients(logits, values, turns, 600, config)
    torch.testing.assert_close(by_logits, logits.grad, rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(by_values, values.grad)
    policy = logits.softmax(dim=1)
    entropy = -(policy * logits.log_softmax(dim=1)).sum(dim=1)
    other = (logits.argmax(dim=1) != moves).float()
    assert 0.1 < other.mean() < 0.9
    torch.testing.assert_close(figures, torch.stack([surprise, value_loss, entropy, other, surprise]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("network", ["mlp", "afterstates"])
def test_the_policy_comes_to_play_as_its_teacher_does(network):
    config = replace(CONFIG, network=network, games=200, teacher="greedy", learning_rate=0.005, epochs=4)
    learner = Learner.fresh(config)
    teacher = Guest("greedy", config.variant)
    agreed = []
    for _ in range(6):
        rollout = play(learner.network, config, learner.rng, learner.device, teacher=teacher)
        with torch.no_grad():
            logits, _ = learner.network(rollout.words[rollout.learns])
        agreed.append((logits.argmax(dim=1) == rollout.advice[rollout.learns]).float().mean().item())
        told = 1 - imitate(learner, rollout).clipped
    assert agreed[0] < 0.4
    assert agreed[-1] > agreed[0] + 0.1, agreed
    assert told > agreed[-1] - 0.05


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_teacher_leaves_when_its_part_is_over_and_a_resumed_run_knows(tmp_path, share, monkeypatch):
    calls = []
    monkeypatch.setattr(FirstLegal, "act", lambda self, games, rng: (calls.append(1), games.legal_mask().argmax(axis=1))[1])
    config = replace(CONFIG, turns=40 * 32 * 8, taught_share=share, snapshot_share=0.5, snapshot_every=1)
    whole = Learner.fresh(config)
    train_module.train(whole, tmp_path)
    asked = len(calls)
    assert (asked == 0) == (share == 0)

    interrupted = Learner.fresh(config)
    while not interrupted.finished:
        stop_at = interrupted.iteration + 3
        train_module.train(interrupted, tmp_path, lambda learner=interrupted, at=stop_at: learner.iteration == at)
        interrupted = load_checkpoint(tmp_path)
    assert len(calls) == 2 * asked
    (tensors, *rest), (resumed, *resumed_rest) = states(whole), states(interrupted)
    assert rest == resumed_rest
    for name, tensor in tensors.items():
        assert torch.equal(tensor, resumed[name]), name


@pytest.mark.parametrize("players", [2, 3])
def test_a_searcher_goes_by_the_weights_that_the_network_has(tmp_path, players):
    config = replace(CONFIG, players=players, searcher="mcts:simulations=24")
    learner = Learner.fresh(config)
    rng = np.random.default_rng(4)
    games = GameBatch(60, size=6, players=players, seed=rng)
    for _ in range(4):
        games.step_random(rng)
    searcher, seen = Searcher(config.searcher, config.variant), []
    for number in range(2):
        with torch.no_grad():
            for table in (learner.network.turn_table, learner.network.value_table):
                table.weight.normal_(0, 0.3, generator=torch.Generator().manual_seed(number))
                table.weight.copy_(table.weight.half())  # as files hold them
        file = tmp_path / f"{number}.onnx"
        export(learner, file, rounds=1, opponents=())
        searcher.follow(learner.network)
        seen.append(searcher.moves(games, 7))
        assert torch.equal(seen[-1], Guest(f"{config.searcher},policy={file}", config.variant).moves(games, 7))
    assert (seen[0] != seen[1]).any()


@pytest.mark.parametrize("agent", ["greedy", "alphabeta:depth=2", "mcts:eval=6x6-2p-ntuple"])
def test_a_searcher_must_be_a_search_by_the_learners_own_network(tmp_path, agent):
    config = replace(CONFIG, players=2, searcher=agent)
    with pytest.raises(ConfigError, match=f"searcher={agent} does not search by the learner's network; allowed is mcts"):
        train_module.start_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match="searcher=mcts can't go by network=mlp; allowed is afterstates"):
        replace(CONFIG, network="mlp", searcher="mcts")


def test_a_searcher_comes_last_and_plays_against_the_opponents(tmp_path, monkeypatch):
    drawn = []
    original = train_module.play

    def watched(network, config, rng, device, snapshot, opponent, teacher):
        drawn.append((teacher and teacher.description, opponent and opponent.description))
        return original(network, config, rng, device, snapshot, opponent, teacher)

    monkeypatch.setattr(train_module, "play", watched)
    config = replace(
        CONFIG,
        turns=40 * 32 * 8,
        taught_share=0.25,
        searcher="mcts:simulations=4",
        searched_share=0.5,
        opponents=("greedy",),
    )
    learner = Learner.fresh(config)
    train_module.train(learner, tmp_path)
    assert drawn == [(TEACHER, None)] * 2 + [(None, "greedy")] * 2 + [("mcts:simulations=4", "greedy")] * 4


@pytest.mark.parametrize("setting", ["teacher", "opponents", "evaluate_against"])
@pytest.mark.parametrize(
    ("agent", "error", "words"),
    [
        ("alphabeta", ConfigError, "alphabeta is of no use in this training: .* is for two players"),
        ("nobody", AgentError, "nobody"),
    ],
)
def test_an_agent_that_can_not_play_is_refused_before_anything_is_made(tmp_path, setting, agent, error, words):
    run = tmp_path / "run"
    with pytest.raises(error, match=words):
        train_module.start_run(replace(CONFIG, **{setting: agent if setting == "teacher" else (agent,)}), run)
    assert not run.exists()


def test_a_config_file_names_the_teacher(tmp_path):
    settings = tmp_path / "taught.yaml"
    settings.write_text(yaml.safe_dump(CONFIG.to_dict() | {"turns": 40 * 32}))
    run = tmp_path / "run"
    assert train_module.main(["--config", str(settings), "--run", str(run)]) == 0
    assert load_checkpoint(run).config.teacher == TEACHER
    assert (run / FILE_NAME).is_file()


def test_an_opponent_plays_all_seats_but_one_in_its_share_of_rounds():
    config = replace(CONFIG, opponent_share=0.5, snapshot_share=0.2, opening_share=0.3)
    learner = Learner.fresh(config)
    opponent = Guest(TEACHER, config.variant)
    rollout = play(learner.network, config, learner.rng, learner.device, Learner.fresh(config).network, opponent)
    learnt = rollout.learns[-3:].sum(dim=0)  # no openings there
    assert learnt.tolist() == [1] * 16 + [3] * 16 + [1] * 8
    legal = rollout.words[:, :16, 4]
    first = (legal & -legal).double().log2().long()
    hired = torch.ones(32, 16, dtype=torch.bool)
    for game in range(16):
        hired[game % 3 :: 3, game] = False
    opens = ~rollout.learns[:, :16] & ~hired
    opening = opens | (torch.arange(32)[:, None] < opens.sum(dim=0) * 3 + 3)
    assert torch.equal(rollout.actions[:, :16][hired & ~opening], first[hired & ~opening])
    assert (hired & ~opening).sum() > 100
    assert opening.sum() < 200


def test_each_iteration_draws_one_of_the_opponents(tmp_path, monkeypatch):
    drawn = []
    original = train_module.play

    def watched(network, config, rng, device, snapshot, opponent, teacher):
        drawn.append(opponent and opponent.description)
        return original(network, config, rng, device, snapshot, opponent, teacher)

    monkeypatch.setattr(train_module, "play", watched)
    config = replace(CONFIG, turns=40 * 32 * 12, teacher="greedy", taught_share=0.25, opponents=("greedy", "positional"))
    train_module.train(Learner.fresh(config), tmp_path)
    assert drawn[:3] == [None] * 3
    assert set(drawn[3:]) == {"greedy", "positional"}
