"""The network that looks at where turns lead: its rows, its sums and gradients, its optimiser, and what all boards share."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from rolit_env import GameBatch, make_agent, play_rounds
from rolit_env.errors import CheckpointError
from rolit_env.search.patterns import table_rows
from rolit_env.symmetry import cell_permutations, transform_words
from rolit_env.variant import all_variants
from training import train as train_module
from training.afterstate import Afterstates
from training.agent import NetworkAgent
from training.checkpoint import load_checkpoint, save_checkpoint
from training.config import TrainConfig
from training.lazy_adam import LazyAdam, move_rows_in_torch
from training.learner import Learner
from training.network import position_words
from training.patterns import RowSums, afterstate_rows, patterns, position_rows, rows_in_torch

EACH_VARIANT = pytest.mark.parametrize("variant", all_variants(), ids=lambda variant: variant.name)
TINY = TrainConfig(
    size=6, players=3, network="afterstates", games=24, minibatch=128, minutes=0, turns=24 * 32 * 6, evaluate_every=0
)


@pytest.fixture
def threads():
    """Return what sets torch's number of threads, and set it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def positions(variant, games=8):
    """Yield a batch at each turn of random rounds."""
    rng = np.random.default_rng(variant.cells + variant.players)
    batch = GameBatch(games, size=variant.size, players=variant.players, seed=rng)
    while not batch.done:
        yield batch
        batch.step(batch.random_actions(rng))


@EACH_VARIANT
def test_rows_after_a_turn_are_those_of_the_position_that_it_leads_to(variant):
    """The seat that has just moved is the last of the next position, or the only one whose rows two players have."""
    size, players = variant.size, variant.players
    rng = np.random.default_rng(0)
    for batch in positions(variant):
        found, cells, rows = afterstate_rows(position_words(batch), size, players)
        actions = batch.random_actions(rng)
        np.testing.assert_array_equal(np.bincount(found), batch.legal_mask().sum(axis=1))
        chosen = cells.numpy() == actions[found]
        batch = batch.copy()
        batch.step(actions)
        after = position_rows(position_words(batch), size, players)
        after = after if players == 2 else after.view(len(batch), players, -1)[:, -1]
        assert torch.equal(rows[torch.from_numpy(chosen)], after)


@EACH_VARIANT
def test_torch_finds_the_rows_that_kernels_find(variant):
    for batch in positions(variant):
        words = position_words(batch)
        found, cells, rows = afterstate_rows(words, variant.size, variant.players)
        now = position_rows(words, variant.size, variant.players)
        others = rows_in_torch(words[:, :4], found, cells, variant.size, variant.players)
        assert torch.equal(others[0].int(), rows)
        assert torch.equal(others[1].int(), now)


@pytest.mark.parametrize("count", [1, 3])
def test_sums_and_gradients_are_those_of_an_embedding(count, threads):
    threads(count)
    tuples, rng = patterns(6), torch.Generator().manual_seed(0)
    table = nn.Embedding(table_rows(6), 16)
    batch = GameBatch(200, size=6, seed=0)
    batch.step_random(np.random.default_rng(0), 12)
    rows = afterstate_rows(position_words(batch), 6, 2)[2]
    wanted = table(rows.long()).sum(dim=1)
    sums = RowSums.apply(table.weight, rows, tuples)
    torch.testing.assert_close(sums, wanted)
    given = torch.randn(sums.shape, generator=rng)
    gradients = [torch.autograd.grad(output, table.weight, given)[0] for output in (sums, wanted)]
    assert gradients[0].count_nonzero() > 1000
    torch.testing.assert_close(*gradients)


def test_the_number_of_threads_changes_nothing(threads):
    tuples, batch = patterns(8), GameBatch(300, players=4, seed=0)
    batch.step_random(np.random.default_rng(0), 30)
    table = nn.Embedding(table_rows(8), 8)
    found = []
    for count in (1, 2, 5):
        threads(count)
        rows = afterstate_rows(position_words(batch), 8, 4)[2]
        sums = RowSums.apply(table.weight, rows, tuples)
        found.append((rows, sums, *torch.autograd.grad(sums.square().sum(), table.weight)))
    for other in found[1:]:
        for mine, first in zip(other, found[0], strict=True):
            assert torch.equal(mine, first)


@EACH_VARIANT
def test_a_turned_board_gets_the_turned_answer(variant):
    network, spread = Afterstates(variant.size, variant.players), 0.0
    with torch.no_grad():
        network.turn_head[3].weight.mul_(50)
    for batch in positions(variant):
        if batch.ply % 5:
            continue
        words = position_words(batch)
        with torch.no_grad():
            logits, values = network(words)
        spread = max(spread, logits[logits > -1e8].std(correction=0).item())
        for permutation in cell_permutations(variant.size):
            repeated = np.repeat(permutation[None], len(words), axis=0)
            turned = transform_words(words.numpy().view(np.uint64), repeated).view(np.int64)
            with torch.no_grad():
                turned_logits, turned_values = network(torch.from_numpy(turned))
            torch.testing.assert_close(turned_logits[:, permutation.copy()], logits, atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(turned_values, values, atol=1e-5, rtol=1e-5)
    assert spread > 0.1


@EACH_VARIANT
def test_answers_are_legal_and_values_sum_to_zero(variant):
    network = Afterstates(variant.size, variant.players)
    for batch in positions(variant, games=5):
        logits, values = network(position_words(batch))
        assert ((logits > -1e8).numpy() == batch.legal_mask().astype(bool)).all()
        assert values.shape == (5, variant.players)
        torch.testing.assert_close(values.sum(dim=1), torch.zeros(5), atol=1e-6, rtol=0)


def test_lazy_adam_is_adam_for_rows_that_every_step_meets():
    rng = torch.Generator().manual_seed(0)
    tables = [nn.Parameter(torch.ones(7, 8)) for _ in range(2)]
    lazy = LazyAdam([{"params": [tables[0]], "lazy": True}], lr=0.01, eps=1e-5)
    plain = torch.optim.Adam([tables[1]], lr=0.01, eps=1e-5)
    for _ in range(50):
        gradient = torch.randn(7, 8, generator=rng)
        for table, optimizer in zip(tables, (lazy, plain), strict=True):
            table.grad = gradient.clone()
            optimizer.step()
    torch.testing.assert_close(*tables)


def test_lazy_adam_leaves_rows_without_gradient_alone():
    table, other = nn.Parameter(torch.ones(3, 8)), nn.Parameter(torch.ones(2))
    optimizer = LazyAdam([{"params": [other]}, {"params": [table], "lazy": True}], lr=0.1)
    for step in range(4):
        table.grad, other.grad = torch.zeros(3, 8), torch.ones(2)
        table.grad[0] = 1
        table.grad[1, 3] = step % 2
        before = table.detach().clone()
        moments = optimizer.state[table]["exp_avg"].clone() if step else torch.zeros(3, 8)
        optimizer.step()
        moved = (table != before).any(dim=1).tolist()
        assert moved == [True, step % 2 == 1, False]
        assert ((optimizer.state[table]["exp_avg"] != moments).any(dim=1)).tolist() == moved
        assert (other < 1).all()
    assert optimizer.state[table]["step"].tolist() == [4, 2, 0]


def test_the_two_forms_of_lazy_adam_agree():
    rng = torch.Generator().manual_seed(0)
    gradients = torch.randn(20, 9, 8, generator=rng) * (torch.rand(20, 9, 1, generator=rng) < 0.4)
    gradients[:, 3] = 1e-12 * torch.randn(20, 8, generator=rng)  # what rounding leaves where gradients cancel out
    ends = []
    for anywhere in (False, True):
        table = nn.Parameter(torch.zeros(9, 8))
        optimizer = LazyAdam([{"params": [table], "lazy": True}], lr=0.01, eps=1e-5)
        for gradient in gradients:
            table.grad = gradient.clone()
            if anywhere and (state := optimizer.state[table]):
                with torch.no_grad():
                    move_rows_in_torch(
                        table, gradient, state["step"], state["exp_avg"], state["exp_avg_sq"], 0.01, 0.9, 0.999, 1e-5
                    )
            else:
                optimizer.step()
        ends.append((table.detach(), *optimizer.state[table].values()))
    for mine, theirs in zip(*ends, strict=True):
        torch.testing.assert_close(mine, theirs)
        assert mine[2].any()
        assert not mine[3].any()


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path):
    whole = Learner.fresh(TINY)
    train_module.train(whole, tmp_path)
    halted = Learner.fresh(TINY)
    train_module.train(halted, tmp_path, lambda: halted.iteration == 3)
    resumed = load_checkpoint(tmp_path)
    assert resumed.iteration == 3
    train_module.train(resumed, tmp_path)
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, resumed.network.state_dict()[name]), name
    for mine, theirs in zip(whole.optimizer.state.values(), resumed.optimizer.state.values(), strict=True):
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_a_checkpoint_with_too_few_counts_of_steps_is_refused(tmp_path):
    learner = Learner.fresh(TINY)
    train_module.train(learner, tmp_path, lambda: learner.iteration == 1)
    state = learner.optimizer.state[learner.network.turn_table.weight]
    assert state["step"].shape == (len(state["exp_avg"]),)
    state["step"] = state["step"][:3].clone()
    save_checkpoint(learner, tmp_path)
    with pytest.raises(CheckpointError, match=r"step has shape \(3,\)"):
        load_checkpoint(tmp_path)


def test_lazy_adam_takes_a_closure():
    table = nn.Parameter(torch.ones(3, 8))
    optimizer = LazyAdam([{"params": [table], "lazy": True}], lr=0.1)

    def closure():
        loss = table[1].sum()
        loss.backward()
        return loss.item()

    assert optimizer.step(closure) == 8
    assert (table != 1).any(dim=1).tolist() == [False, True, False]


def test_a_forked_process_has_threads_of_its_own(threads):
    threads(3)
    words = position_words(GameBatch(500, size=6, seed=0))
    afterstate_rows(words, 6, 2)
    child = os.fork()
    if not child:
        signal.alarm(20)
        afterstate_rows(words, 6, 2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("players", [2, 4])
def test_it_learns_from_little(tmp_path, players):
    config = replace(TINY, players=players, games=256, minibatch=1024, turns=150_000)
    learner = Learner.fresh(config)
    train_module.train(learner, tmp_path)
    after = play_rounds([NetworkAgent(learner), make_agent("random")], 1000, size=6, players=players)
    assert after.win_share[0] - after.interval[0] > after.par[0] + 0.25, after
