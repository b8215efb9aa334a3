"""Several processes learn what one would have learnt, stop together, and leave a run that any number can go on with."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch
import yaml

from rolit_env.errors import ConfigError
from tests.test_distil import TEACHER
from training import distributed
from training import train as train_module
from training.checkpoint import FILE_NAME, load_checkpoint
from training.config import TrainConfig
from training.learner import Learner
from training.ppo import update
from training.rollout import play

# Nothing is even: 25 games and minibatches of 99 turns can't be halved, and the last minibatch of each pass is a short one.
UNEVEN = {"size": 6, "players": 3, "games": 25, "minibatch": 99, "hidden": [32], "bfloat16": "never", "evaluate_every": 0}
ROUND = 25 * 32


def torchrun(processes, *command):
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes), *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )


def finish(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def tensors(learner):
    found = dict(learner.network.state_dict())
    for index, state in learner.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{index}.{name}": tensor for name, tensor in state.items()}
    for index, snapshot in enumerate(learner.pool.snapshots):
        found |= {f"snapshot.{index}.{name}": tensor for name, tensor in snapshot.items()}
    return found


def compare(found, right):
    assert found.rng.bit_generator.state == right.rng.bit_generator.state
    assert (found.turns, found.iteration) == (right.turns, right.iteration)
    found, right = tensors(found), tensors(right)
    assert found.keys() == right.keys()
    for name, tensor in right.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("settings", "first", "then"),
    [
        ({}, 2, 1),
        ({"symmetry": True, "snapshot_share": 0.5, "snapshot_every": 1, "snapshots": 2}, 1, 2),
        ({"network": "afterstates", "players": 2}, 2, 1),
        ({"network": "afterstates", "players": 3}, 1, 2),
        ({"teacher": TEACHER, "opponents": [TEACHER], "opponent_share": 0.5}, 2, 1),
    ],
    ids=["two, then one", "one, then two", "two tables, two, then one", "two tables, one, then two", "guests"],
)
def test_two_processes_learn_what_one_does_and_each_number_goes_on_with_the_others_run(tmp_path, settings, first, then):
    config = UNEVEN | settings | {"minutes": 0, "turns": 4 * ROUND}
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    alone.mkdir()
    right = Learner.fresh(TrainConfig.from_dict(config))
    before = {name: tensor.clone() for name, tensor in right.network.state_dict().items()}
    train_module.train(right, alone)

    # The learning rate depends on how much of the budget is used up, so both parts have the whole one.
    half = tmp_path / "half.py"
    half.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from training import distributed\n"
        "from training.train import COMMAND, train\n"
        "learner, run = COMMAND.prepare(sys.argv[1:])\n"
        "with distributed.connected():\n"
        "    train(learner, run, lambda: learner.iteration == 2)\n"
    )
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    finish(torchrun(first, "--", str(half), "--config", str(file), "--run", str(shared)))
    halfway = load_checkpoint(shared)
    assert halfway.iteration == 2
    out = finish(torchrun(then, "-m", "--", "training.train", "--resume", str(shared)))
    assert out.count("budget used up") == 1
    found = load_checkpoint(shared)
    compare(found, right)
    assert len(tensors(found)) == len(before) * (4 + settings.get("snapshots", 0))
    assert all((found.network.state_dict()[name] - tensor).abs().max() > 1e-3 for name, tensor in before.items())


def test_every_process_knows_the_figures_of_all(tmp_path):
    program = tmp_path / "figures.py"
    program.write_text(
        "import json, sys\n"
        "from pathlib import Path\n"
        "from training import distributed\n"
        "from training.config import TrainConfig\n"
        "from training.learner import Learner\n"
        "from training.ppo import update\n"
        "from training.rollout import play\n"
        "learner = Learner.fresh(TrainConfig.from_dict(json.loads(sys.argv[1])))\n"
        "with distributed.connected():\n"
        "    rollout = play(learner.network, learner.config, learner.rng, learner.device)\n"
        "    stats = update(learner.network, learner.optimizer, rollout, learner.config, learner.rng)\n"
        "Path(__file__).with_name(f'{distributed.rank()}.json').write_text(json.dumps(vars(stats)))\n"
    )
    finish(torchrun(2, "--", str(program), json.dumps(UNEVEN)))
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    learner = Learner.fresh(TrainConfig.from_dict(UNEVEN))
    rollout = play(learner.network, learner.config, learner.rng, learner.device)
    right = vars(update(learner.network, learner.optimizer, rollout, learner.config, learner.rng))
    assert first == second
    assert first == pytest.approx(right, rel=1e-4, abs=1e-6)


def test_the_first_processs_clock_ends_the_run_and_sets_the_pace_for_all(tmp_path):
    """The second process's clock runs ten times as fast; with clocks of their own the two would part, or wait forever."""
    program = tmp_path / "clocks.py"
    program.write_text(
        "import time\n"
        "from pathlib import Path\n"
        "import torch\n"
        "from training import distributed\n"
        "from training.config import TrainConfig\n"
        "from training.learner import Learner\n"
        "from training.train import train\n"
        "config = TrainConfig(size=4, games=16, minibatch=64, hidden=(16,), minutes=0.02, evaluate_every=0.005,\n"
        "    evaluate_rounds=4, save_every=0.004)\n"
        "learner = Learner.fresh(config)\n"
        "if distributed.rank() == 1:\n"
        "    monotonic = time.monotonic\n"
        "    time.monotonic = lambda: 10 * monotonic()\n"
        "run = Path(__file__).parent if distributed.rank() == 0 else Path('nowhere')  # where nothing can be written\n"
        "with distributed.connected():\n"
        "    train(learner, run)\n"
        "    weights = torch.cat([parameter.detach().flatten() for parameter in learner.network.parameters()])\n"
        "    both = torch.stack([weights, torch.zeros_like(weights)]) * (1 if distributed.rank() == 0 else -1)\n"
        "    distributed.add_up([both])\n"
        "    assert not both.any(), both\n"
        "    assert learner.finished\n"
        "    assert distributed.rank() == 1 or len(learner.evaluations) > 1\n"
    )
    finish(torchrun(2, "--", str(program)))
    assert (tmp_path / FILE_NAME).exists()
    assert len(list(tmp_path.glob("events.out.tfevents*"))) == 1


def test_ctrl_c_on_any_process_ends_all_after_the_iteration_and_saves(tmp_path):
    run = tmp_path / "run"
    settings = ["--size", "4", "--games", "16", "--hidden", "[8]", "--minutes", "5", "--evaluate_every", "0"]
    process = torchrun(2, "-m", "--", "training.train", *settings, "--save_every", "1e-6", "--run", str(run))
    while process.poll() is None and not ((run / FILE_NAME).exists() and load_checkpoint(run).iteration):
        time.sleep(0.1)  # once there was an iteration, all processes heed signals
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()
    assert len(children) == 2
    os.kill(int(children[1]), signal.SIGINT)
    out = finish(process)
    assert out.count("stopped after") == 1
    learner = load_checkpoint(run)
    assert learner.turns == learner.iteration * 16 * 12


@pytest.mark.parametrize("processes", [1, 2, 3, 8])
def test_shares_are_everything_once_and_as_equal_as_can_be(monkeypatch, processes):
    monkeypatch.setattr(distributed, "processes", lambda: processes)
    for count in (0, 1, 7, 8, 1000):
        shares = []
        for rank in range(processes):
            monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
            shares.append(range(count)[distributed.share(count)])
        assert [place for share in shares for place in share] == list(range(count))
        assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_without_torchrun_one_process_has_everything():
    assert (distributed.rank(), distributed.processes(), distributed.local_rank()) == (0, 1, 0)
    part = torch.arange(6).view(2, 3)
    with distributed.connected():
        assert distributed.join(part, 3, dim=1) is part
        distributed.add_up([part])
        assert distributed.agree(1.5, True) == (1.5, True)
    assert torch.equal(part, torch.arange(6).view(2, 3))


def test_more_processes_than_games_are_refused(monkeypatch):
    monkeypatch.setattr("training.learner.processes", lambda: 3)
    Learner.fresh(TrainConfig(games=3, hidden=(8,)))
    with pytest.raises(ConfigError, match="games=2 is too few for 3 processes"):
        Learner.fresh(TrainConfig(games=2, hidden=(8,)))
