"""The learner: returns, trajectories, snapshots, checkpoints that resume bit for bit, and play that really improves."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.adapters.masked import ILLEGAL
from rolit_env.errors import CheckpointError, ConfigError, DivergedError, OutputError, RolitError
from rolit_env.torch_batch import TorchBatch
from rolit_env.variant import all_variants
from training import ntuple as ntuple_module
from training import rollout as rollout_module
from training import train as train_module
from training.agent import NetworkAgent
from training.checkpoint import FILE_NAME, load_checkpoint, save_checkpoint
from training.command import run_command, stop_on_interrupt
from training.config import TrainConfig
from training.device import pick_device
from training.learner import Learner
from training.network import MLP, position_words
from training.ppo import Turns, lambda_returns, mover_first, ppo_gradients, turn_boards, update
from training.rollout import draw, play

CPU = torch.device("cpu")
TINY = TrainConfig(size=6, players=3, games=24, minibatch=128, hidden=(32,), minutes=0, turns=10_000, evaluate_every=0)


def tiny(**settings):
    return replace(TINY, **settings)


def plain_gae(values, payoffs, gae_lambda):
    """The textbook form, one seat and one game at a time: decayed sums of one-turn surprises."""
    plies, games, players = values.shape
    advantages = np.zeros((plies, games, players))
    for game in range(games):
        for seat in range(players):
            running = 0.0
            for ply in reversed(range(plies)):
                following = values[ply + 1, game, seat] if ply + 1 < plies else payoffs[game, seat]
                surprise = following - values[ply, game, seat]
                running = surprise + (gae_lambda * running if ply + 1 < plies else 0.0)
                advantages[ply, game, seat] = running
    return advantages


@pytest.mark.parametrize("gae_lambda", [0.0, 0.5, 0.95, 1.0])
def test_returns_are_gae_in_another_form(gae_lambda):
    rng = np.random.default_rng(0)
    values, payoffs = rng.normal(size=(12, 5, 3)), rng.normal(size=(5, 3))
    returns = lambda_returns(torch.from_numpy(values), torch.from_numpy(payoffs), gae_lambda).numpy()
    np.testing.assert_allclose(returns - values, plain_gae(values, payoffs, gae_lambda), atol=1e-12)


@pytest.mark.parametrize("variant", all_variants(), ids=lambda variant: variant.name)
def test_each_seats_payoff_reaches_its_own_turns(variant):
    """With λ = 1 the mover's return is what its seat got: +1 for a sole winner, −1 for a loser of two."""
    config = TrainConfig(size=variant.size, players=variant.players, games=64, hidden=(8,), opening_share=0.1)
    network = MLP(variant.size, variant.players, (8,))
    rollout = play(network, config, np.random.default_rng(1), CPU)
    returns = mover_first(lambda_returns(rollout.values, rollout.payoffs, 1.0))
    assert rollout.payoffs.sum(dim=1).abs().max() < 1e-6
    seen = set()
    for ply in range(variant.plies):
        mover = ply % variant.players
        torch.testing.assert_close(returns[ply, :, 0], rollout.payoffs[:, mover])
        for turn in range(variant.players):
            torch.testing.assert_close(returns[ply, :, turn], rollout.payoffs[:, (mover + turn) % variant.players])
        seen |= set(returns[ply, :, 0].tolist())
    assert max(seen) == 1.0
    assert min(seen) == pytest.approx(-1 / (variant.players - 1))


def test_a_losing_seats_minus_one_is_learnt_from():
    """The advantage at a loser's turns is negative, and at a winner's positive, when the network expects a draw."""
    config = TrainConfig(games=128, hidden=(8,), gae_lambda=1.0)
    network = MLP(8, 2, (8,))
    torch.nn.init.zeros_(network.value.weight)
    torch.nn.init.zeros_(network.value.bias)
    rollout = play(network, config, np.random.default_rng(2), CPU)
    advantages = mover_first(lambda_returns(rollout.values, rollout.payoffs, 1.0) - rollout.values)[..., 0]
    for seat in range(2):
        lost, won = rollout.payoffs[:, seat] == -1, rollout.payoffs[:, seat] == 1
        assert lost.any()
        assert won.any()
        assert (advantages[seat::2, lost] == -1).all()
        assert (advantages[seat::2, won] == 1).all()


def replayed(rollout, config, rng):
    """Play the recorded actions again, which raises when one was illegal."""
    games = GameBatch(config.games, size=config.size, players=config.players, seed=rng)
    for ply in range(games.plies):
        torch.testing.assert_close(position_words(games), rollout.words[ply])
        games.step(rollout.actions[ply].numpy())
    return games


@pytest.mark.parametrize("players", [2, 3, 4])
def test_rollouts_record_what_was_played(players):
    config = tiny(players=players, opening_share=0.2)
    network = MLP(6, players, (32,))
    rollout = play(network, config, np.random.default_rng(3), CPU)
    games = replayed(rollout, config, np.random.default_rng(3))
    np.testing.assert_array_equal(rollout.payoffs.numpy(), games.payoffs("win"))
    assert rollout.learns[6:].all()
    openings = (~rollout.learns).sum(dim=0)
    assert set(openings.tolist()) == set(range(7))
    for ply in range(games.plies):
        logits, values = network(rollout.words[ply])
        chosen = logits.log_softmax(dim=1).gather(1, rollout.actions[ply][:, None]).squeeze(1)
        torch.testing.assert_close(rollout.log_probs[ply], chosen, atol=0.05, rtol=0.05)  # played in bfloat16
        torch.testing.assert_close(rollout.values[ply].roll(-(ply % players), dims=1), values, atol=0.02, rtol=0.05)


def tensors_of(rollout):
    tensors = vars(rollout).copy()
    assert tensors.pop("advice") is None  # no teacher is asked here
    return tensors


@pytest.mark.parametrize("players", [2, 3, 4])
def test_rounds_on_a_gpu_would_be_the_same_rounds(monkeypatch, players):
    """Where the network lives on a GPU the games are tensors too; here they are so on the CPU."""
    config = tiny(players=players, opening_share=0.2, snapshot_share=0.5, payoff="rank")
    network, snapshot = MLP(6, players, (32,)), MLP(6, players, (32,))
    right = play(network, config, np.random.default_rng(5), CPU, snapshot)
    placed = []

    def place(games, device):
        placed.append(TorchBatch.from_games(games, device=device))
        return placed[-1]

    monkeypatch.setattr(rollout_module, "place", place)
    found = play(network, config, np.random.default_rng(5), CPU, snapshot)
    assert placed[0].done
    for name, tensor in tensors_of(right).items():
        assert torch.equal(tensors_of(found)[name], tensor), name


def test_nothing_within_rounds_waits_for_the_device(monkeypatch):
    """Tensors on this device have no content, so whatever the host would have to wait for is an error."""
    monkeypatch.setattr(rollout_module, "autocast", lambda config, device: nullcontext())
    monkeypatch.setattr(MLP, "unpack", lambda network, words: torch.zeros(len(words), 5, network.cells, device=words.device))
    meta, config = torch.device("meta"), tiny(snapshot_share=0.5)
    network, snapshot = MLP(6, 3, (32,)).to(meta), MLP(6, 3, (32,)).to(meta)
    rollout = play(network, config, np.random.default_rng(6), meta, snapshot)
    assert {tensor.device for tensor in tensors_of(rollout).values()} == {meta}
    assert rollout.words.shape == (32, 24, 5)
    assert rollout.payoffs.shape == (24, 3)


def test_draws_are_as_likely_as_the_policy_says_and_never_hit_what_is_ruled_out():
    policy = torch.tensor([0.0, 0.125, 0.0, 0.5, 0.25, 0.125, 0.0])
    points = torch.arange(1024) / 1024
    drawn = draw(policy.expand(1024, -1), points)
    assert torch.equal(drawn.bincount(minlength=7) / 1024, policy)
    # Policies whose float32 probabilities do not sum to 1, and points at both ends and close to the borders between cells.
    rng = torch.Generator().manual_seed(7)
    logits = torch.where(torch.rand(20_000, 64, generator=rng) < 0.15, 8 * torch.randn(20_000, 64, generator=rng), ILLEGAL)
    logits[:, 37] = 0
    policy = logits.softmax(dim=1)
    border = policy.cumsum(dim=1)[torch.arange(20_000), torch.arange(20_000) % 64].clamp(max=1 - 2**-24)
    for points in (torch.zeros(20_000), torch.full((20_000,), 1 - 2**-24), border, (border - 2**-24).clamp(min=0)):
        drawn = draw(policy, points)
        assert (policy.gather(1, drawn[:, None]) > 0).all()
    assert (draw((logits > ILLEGAL) / 64, border) >= 0).all()


def test_snapshots_play_all_seats_but_one_in_their_share_of_rounds():
    config = tiny(opening_share=0.0, snapshot_share=0.5)
    learner, snapshot = MLP(6, 3, (32,)), MLP(6, 3, (32,))
    with torch.no_grad():  # a snapshot that always plays its lowest legal cell can be told from a drawn move
        snapshot.policy.weight.zero_()
        snapshot.policy.bias.copy_(-1000.0 * torch.arange(36))
    rollout = play(learner, config, np.random.default_rng(4), CPU, snapshot)
    assert rollout.learns[:, :12].all()
    for game in range(12, 24):
        seats = {ply % 3 for ply in range(32) if rollout.learns[ply, game]}
        assert len(seats) == 1
        foreign = ~rollout.learns[:, game]
        legal = rollout.words[foreign, game, 4]
        lowest = (legal & -legal).double().log2().long()
        assert (rollout.actions[foreign, game] == lowest).all()
    assert {ply % 3 for game in range(12, 24) for ply in range(3) if rollout.learns[ply, game]} == {0, 1, 2}


def test_network_masks_and_sums_to_zero():
    for variant in all_variants():
        games = GameBatch(16, size=variant.size, players=variant.players, seed=0)
        network = MLP(variant.size, variant.players, (16,))
        for ply in range(variant.plies):
            logits, values = network(position_words(games))
            assert logits.shape == (16, variant.cells)
            assert values.shape == (16, variant.players)
            assert ((logits > ILLEGAL).numpy() == (games.legal_mask() == 1)).all()
            assert values.sum(dim=1).abs().max() < 1e-5
            planes, mask = torch.from_numpy(games.planes()).float(), torch.from_numpy(games.legal_mask()).float()
            for found, wanted in zip(network.from_planes(planes, mask), (logits, values), strict=True):
                torch.testing.assert_close(found, wanted)
            games.step(games.random_actions(np.random.default_rng(ply)))


def test_gradients_by_hand_are_autograds():
    config = TrainConfig(clip=0.1, value_weight=0.7, entropy=0.05)
    rng = torch.Generator().manual_seed(8)
    logits = torch.where(torch.rand(500, 64, generator=rng) < 0.3, 2 * torch.randn(500, 64, generator=rng), ILLEGAL)
    actions = logits.argmax(dim=1)
    # Ratios on both sides of the clip, each with gains and losses.
    log_probs = logits.log_softmax(dim=1).gather(1, actions[:, None]).squeeze(1) + 0.3 * torch.randn(500, generator=rng)
    turns = Turns(
        words=torch.zeros(500, 5, dtype=torch.int64),
        actions=actions,
        log_probs=log_probs,
        advantages=torch.randn(500, generator=rng),
        targets=torch.randn(500, 3, generator=rng),
    )
    values = torch.randn(500, 3, generator=rng)

    logits.requires_grad_()
    values.requires_grad_()
    log_policy = logits.log_softmax(dim=1)
    ratio = (log_policy.gather(1, actions[:, None]).squeeze(1) - log_probs).exp()
    policy_loss = -torch.min(ratio * turns.advantages, ratio.clamp(0.9, 1.1) * turns.advantages)
    value_loss = (values - turns.targets).square().mean(dim=1)
    entropy = -(log_policy.exp() * log_policy).sum(dim=1)
    (policy_loss + 0.7 * value_loss - 0.05 * entropy).mean().backward()
    outside = ((ratio < 0.9) | (ratio > 1.1)).float()
    assert 0.2 < outside.mean() < 0.9

    by_logits, by_values, figures = ppo_gradients(logits, values, turns, 500, config)
    torch.testing.assert_close(by_logits, logits.grad, rtol=1e-4, atol=1e-8)
    torch.testing.assert_close(by_values, values.grad)
    wanted = torch.stack([policy_loss, value_loss, entropy, outside, ratio - 1 - ratio.log()])
    torch.testing.assert_close(figures, wanted, rtol=1e-4, atol=1e-5)


def test_symmetries_move_positions_and_actions_together():
    rng = np.random.default_rng(5)
    games = GameBatch(256, players=4, seed=rng)
    for _ in range(20):
        games.step(games.random_actions(rng))
    words, actions = position_words(games), torch.from_numpy(games.random_actions(rng))
    turned, moved = turn_boards(words, actions, 8, rng)
    assert not torch.equal(turned, words)
    assert (turned[:, 4] >> moved & 1 == 1).all()
    count = np.bitwise_count
    np.testing.assert_array_equal(count(turned.numpy().view(np.uint64)), count(words.numpy().view(np.uint64)))


@pytest.mark.parametrize("players", [2, 4])
def test_learning_beats_random(tmp_path, players):
    config = TrainConfig(
        size=6, players=players, games=256, minibatch=1024, hidden=(128,), turns=500_000, minutes=0, evaluate_every=0
    )
    learner = Learner.fresh(config)
    before = play_rounds([NetworkAgent(learner), make_agent("random")], 1000, size=6, players=players)
    train_module.train(learner, tmp_path)
    after = play_rounds([NetworkAgent(learner), make_agent("random")], 1000, size=6, players=players)
    par = after.par[0]
    assert after.win_share[0] - after.interval[0] > par + 0.15, (before, after)
    assert after.win_share[0] > before.win_share[0] + 0.1


def states(learner):
    tensors = dict(learner.network.state_dict())
    for index, state in learner.optimizer.state_dict()["state"].items():
        tensors |= {f"{index}.{name}": tensor for name, tensor in state.items()}
    for index, snapshot in enumerate(learner.pool.snapshots):
        tensors |= {f"{index}.{name}": tensor for name, tensor in snapshot.items()}
    return tensors, learner.rng.bit_generator.state, learner.turns, learner.iteration


@pytest.mark.parametrize("settings", [{}, {"symmetry": True, "snapshot_share": 0.5, "snapshot_every": 2, "snapshots": 2}])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path, settings):
    config = tiny(turns=24 * 32 * 9, **settings)
    whole = Learner.fresh(config)
    train_module.train(whole, tmp_path)
    assert whole.iteration == 9

    # The interrupted one also evaluates after each iteration, which must not move the learner's random state.
    interrupted = Learner.fresh(replace(config, evaluate_every=1e-9, evaluate_rounds=6))
    while not interrupted.finished:
        stop_at = interrupted.iteration + 4
        train_module.train(interrupted, tmp_path, lambda learner=interrupted, at=stop_at: learner.iteration == at)
        assert len(interrupted.evaluations) == interrupted.iteration
        interrupted = load_checkpoint(tmp_path)

    (tensors, *rest), (resumed_tensors, *resumed_rest) = states(whole), states(interrupted)
    assert rest == resumed_rest
    assert tensors.keys() == resumed_tensors.keys()
    assert len(tensors) > 4
    for name, tensor in tensors.items():
        assert torch.equal(tensor, resumed_tensors[name]), name


def test_a_single_turn_teaches_nothing_and_breaks_nothing():
    config = TrainConfig(size=4, games=1, hidden=(8,), opening_share=0.9)
    learner = Learner.fresh(config)
    rollout = play(learner.network, config, learner.rng, CPU)
    one = replace(rollout, learns=torch.zeros_like(rollout.learns))
    one.learns[-1] = True
    before = {name: tensor.clone() for name, tensor in learner.network.state_dict().items()}
    update(learner.network, learner.optimizer, one, config, learner.rng)
    for name, tensor in learner.network.state_dict().items():
        assert torch.equal(tensor, before[name])


def test_a_loss_that_is_no_number_stops_the_run(tmp_path):
    learner = Learner.fresh(tiny(learning_rate=1e30, final_learning_rate=1e30))
    save_checkpoint(learner, tmp_path)
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(DivergedError, match="lower learning_rate"):
        train_module.train(learner, tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_symmetry_leaves_the_first_ratio_at_one():
    """Turned boards are judged against what the network says of turned boards, so nothing is clipped before it moves."""
    config = tiny(symmetry=True, epochs=1, minibatch=24 * 32, learning_rate=0.0, bfloat16="never")
    learner = Learner.fresh(config)
    with torch.no_grad():
        learner.network.policy.weight.mul_(100)
    stats = update(learner.network, learner.optimizer, play(learner.network, config, learner.rng, CPU), config, learner.rng)
    assert stats.clipped == 0
    assert abs(stats.approx_kl) < 1e-4


def test_the_seed_decides_the_run():
    def weights(seed):
        learner = Learner.fresh(tiny(seed=seed))
        update(learner.network, learner.optimizer, play(learner.network, TINY, learner.rng, CPU), TINY, learner.rng)
        return learner.network.policy.weight

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


@pytest.fixture
def run(tmp_path):
    learner = Learner.fresh(TINY)
    save_checkpoint(learner, tmp_path)
    return tmp_path


def test_bad_checkpoints_are_refused(run, tmp_path):
    path = run / FILE_NAME
    whole = path.read_bytes()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "elsewhere")
    for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match="cut short"):
            load_checkpoint(run)
    path.write_bytes(b"\x80\x04\x95junk" * 1000)  # looks like a pickle; it is never unpickled
    with pytest.raises(CheckpointError, match="no safetensors file"):
        load_checkpoint(run)
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match="no checkpoint of this trainer"):
        load_checkpoint(run)

    save_checkpoint(Learner.fresh(TINY), run)
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    broken = {name: tensor for name, tensor in tensors.items() if name != "network.policy.bias"}
    save_file(broken, path, metadata)
    with pytest.raises(CheckpointError, match="does not hold"):
        load_checkpoint(run)
    save_file(tensors | {"network.policy.bias": torch.zeros(5)}, path, metadata)
    with pytest.raises(CheckpointError, match="does not hold"):
        load_checkpoint(run)
    state = json.loads(metadata["state"])
    for change in ({"size": 5}, {"colour": "red"}, {"turns": -1}, {"payoff": "money"}, {"games": 2.5}, {"hidden": "wide"}):
        save_file(tensors, path, metadata | {"state": json.dumps(state | {"config": state["config"] | change})})
        with pytest.raises(CheckpointError, match="can't go on"):
            load_checkpoint(run)
    for change in (
        {"turns": "many"},
        {"evaluations": 5},
        {"seconds": None},
        {"rng": {"bit_generator": "MT19937"}},
        {"snapshots": 1},
    ):
        save_file(tensors, path, metadata | {"state": json.dumps(state | change)})
        with pytest.raises(CheckpointError, match="does not hold"):
            load_checkpoint(run)


def test_the_draft_of_a_killed_process_is_no_obstacle(run):
    (run / f".checkpoint.{os.getpid()}.safetensors").write_bytes(b"cut sh")
    save_checkpoint(Learner.fresh(tiny(seed=9)), run)
    assert load_checkpoint(run).config.seed == 9
    assert [path.name for path in run.iterdir()] == [FILE_NAME]


def test_an_unwritable_checkpoint_is_one_error_and_keeps_the_old_one(run, monkeypatch):
    before = (run / FILE_NAME).read_bytes()

    def fail(*_args, **_kwargs):
        raise OSError("disk full")

    for slip in ("training.checkpoint.save_file", "pathlib.Path.replace"):
        with monkeypatch.context() as patch:
            patch.setattr(slip, fail)
            with pytest.raises(OutputError, match="can't be written"):
                save_checkpoint(Learner.fresh(tiny(seed=9)), run)
        assert (run / FILE_NAME).read_bytes() == before
        assert len(list(run.iterdir())) == 1
    with pytest.raises(OutputError):
        save_checkpoint(Learner.fresh(TINY), run / "no" / "such" / "folder")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": 5}, "no variant"),
        ({"players": 5}, "no variant"),
        ({"size": 4, "players": 3}, "no variant"),
        ({"games": 0}, "games=0 is out of range"),
        ({"evaluate_against": ()}, "name one agent or more"),
        ({"evaluate_against": ("greedy", "greedy")}, "each once"),
        ({"clip": 1.5}, "clip=1.5 is out of range; allowed is 0 to 1"),
        ({"minutes": 0}, "nothing to do"),
        ({"hidden": ()}, "no network"),
        ({"opening_share": 1.0}, "opening_share=1.0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(RolitError, match=message):
        TrainConfig(**settings)


def test_unknown_setting_and_device_are_refused():
    with pytest.raises(ConfigError, match="there is no setting colour; known are size, players"):
        TrainConfig.from_dict({"colour": "red"})
    for device in ("abacus", "cuda:99", "meta"):
        with pytest.raises(ConfigError, match="allowed are auto, cpu"):
            pick_device(TrainConfig(device=device))


def run_train(capsys, *argv):
    code = train_module.main(list(argv))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_command_trains_resumes_and_explains(tmp_path, capsys):
    config = tmp_path / "tiny.yaml"
    config.write_text("size: 4\ngames: 16\nhidden: [8]\nturns: 384\nminutes: 0\nminibatch: 64\nopening_share: 0.2\n")
    run = tmp_path / "run"
    code, out, err = run_train(capsys, "--config", str(config), "--run", str(run))
    assert code == 0, err
    assert "384 turns" in out
    assert load_checkpoint(run).turns == 384
    assert any(path.name.startswith("events.out.tfevents") for path in run.iterdir())

    hint = re.search(r"go on:  python -m training.train (.*?)  \(", out)[1].split()
    code, out, err = run_train(capsys, *hint)
    assert code == 0, err
    assert load_checkpoint(run).turns == 768
    code, out, err = run_train(capsys, "--resume", str(run), "--minutes", "1e-6")
    assert code == 0, err
    assert "--minutes" in out
    assert load_checkpoint(run).turns == 768

    code, _, err = run_train(capsys, "--config", str(config), "--run", str(run))
    assert code == 2
    assert "holds a run already" in err
    assert load_checkpoint(run).turns == 768


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--games", "many"], "games"),
        (["--colour", "red"], "colour"),
        (["--size", "5"], "no variant"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
        (["--payoff", "money"], "payoff"),
        (["--resume", "nowhere"], "there is no checkpoint"),
        (["--resume", "nowhere", "--size", "6"], "only --minutes and --turns may be given"),
        (["--run", "/proc/no/run"], "can't be made"),
        (["--run", "{tmp}/" + "r" * 300], "too long"),
        (["--resume", "r" * 300], "checkpoint"),
        (["--config", "{root}/docs/game.png"], "no text in UTF-8"),
        (["--seed", str(10**24)], "seed"),
        (["--games", str(10**13), "--run", "{tmp}/run"], "games="),
        (["--res", "runs/mine"], "res"),
        (["--device", "abacus", "--run", "{tmp}/run"], "device"),
    ],
)
def test_bad_command_lines_are_one_line_and_exit_2(tmp_path, capsys, request, argv, message):
    code, out, err = run_train(capsys, *(argument.format(tmp=tmp_path, root=request.config.rootpath) for argument in argv))
    assert code == 2
    assert not out
    assert err.count("\n") == 1, err
    assert err.startswith("training.train: ")
    assert message in err
    assert not list(tmp_path.iterdir())


def test_unknown_key_in_a_config_file_is_named(tmp_path, capsys):
    config = tmp_path / "bad.yaml"
    config.write_text("size: 8\nlerning_rate: 0.1\n")
    code, _, err = run_train(capsys, "--config", str(config))
    assert code == 2
    assert "lerning_rate" in err
    assert err.count("\n") == 1, err


def test_every_setting_can_stand_in_a_file(tmp_path):
    for bfloat16 in ("auto", "always", "never"):
        config = TrainConfig(bfloat16=bfloat16, seed=3)
        path = tmp_path / "all.yaml"
        path.write_text(yaml.safe_dump(config.to_dict()))
        options = train_module.COMMAND.parser().parse_args(["--config", str(path)]).as_dict()
        assert TrainConfig.from_dict({key: options[key] for key in config.to_dict()}) == config


def test_every_config_in_the_repository_loads(request):
    # Those of tournaments are loaded by the tests of tournaments.
    paths = [path for path in sorted((request.config.rootpath / "configs").glob("*.yaml")) if "tournament" not in path.stem]
    names = {variant.name for variant in all_variants()}
    assert {path.stem for path in paths} == names | {f"{name}-ntuple" for name in names}
    for path in paths:
        command = ntuple_module.COMMAND if path.stem.endswith("-ntuple") else train_module.COMMAND
        options = command.parser().parse_args(["--config", str(path)]).as_dict()
        for key in ("run", "config", "resume"):
            options.pop(key)
        assert command.config.from_dict(options).variant.name == path.stem.removesuffix("-ntuple")


def test_ctrl_c_ends_after_the_iteration_and_saves(tmp_path):
    run = tmp_path / "run"
    command = [sys.executable, "-m", "training.train", "--size", "4", "--games", "16", "--run", str(run), "--minutes", "5"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not (run / FILE_NAME).exists() and process.poll() is None:
        time.sleep(0.05)
    time.sleep(2.0)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.startswith("stopped after")
    assert "Traceback" not in err
    learner = load_checkpoint(run)
    assert learner.turns == learner.iteration * 16 * 12 > 0
    shutil.rmtree(run)


def test_the_second_ctrl_c_breaks_off_and_handlers_come_back(request):
    # A shell that runs the tests in the background has them ignore Ctrl-C; here it must mean what it means to a person.
    before = signal.default_int_handler
    found = signal.signal(signal.SIGINT, before)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, found))
    with stop_on_interrupt() as should_stop:
        assert not should_stop()
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before

    def interrupted():
        raise KeyboardInterrupt

    assert run_command("training.train", interrupted) == 130
