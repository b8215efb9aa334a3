"""Policy networks in kernels: positions come in, logits of their legal turns and values of their seats go out.

The networks are those of `training.afterstate`: the patterns of a position pick rows of a table, the rows are added up, and a
small head makes a number of the sum. Rows for the score of a turn lie beside those for the value of a position, because both
are picked at once after a turn; heads run over all turns of a position in vector instructions.

Legend: T rows, W width of a row for one of the two, H hidden units, B positions, P players, A = n·n actions. A position has 64
columns for the positions after its turns, as in `children`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import float32, int64, types
from numba.core import cgutils as untyped
from numba.extending import intrinsic, register_jitable

from rolit_env.kernel import lean_kernel
from rolit_env.search.children import seat_children
from rolit_env.search.ntuple import Numbers, Scratch, TupleSet, child_numbers, find_position, make_numbers, prepare
from rolit_env.search.patterns import shared_rows

cgutils: Any = untyped
Floats = npt.NDArray[np.float32]

EIGHT = 8
"""W is a multiple of it, so that loops know how far they run."""

BLOCK = 2 * EIGHT
"""Numbers of a row that are added up at once."""

LINE = 64
"""Bytes of a cache line, where rows begin."""

COLUMNS = 64
"""Positions side by side."""

ILLEGAL = -1e9
"""Logit of an illegal cell: its probability is exactly 0, and as it is finite, no entropy or exported graph meets a NaN."""


class Head(NamedTuple):
    """Makes a number of a sum of rows: ReLU, a layer of hidden units, ReLU, and their weighted sum.

    Attributes:
        hidden: The weights of each hidden unit, and its bias at the end, float32 [H, W + 1].
        out: The weights of their sum, and its bias at the end, float32 [H + 1].
    """

    hidden: Floats
    out: Floats


class Network(NamedTuple):
    """A network, ready for kernels, and what they write to; make it with `make_network`.

    Attributes:
        tuples: How the patterns lie on the board.
        rows: Rows for the score of a turn, then for the value of a position, float32 [T, 2 W].
        turn: The head that scores turns.
        value: The head that values positions for the seat whose rows they are.
        seats: What is added to the value of each seat, the mover's first, float32 [4].
        numbers: Of a position.
        sum: A sum of rows, float32 [2 W].
        sums: Those of many positions, float32 [2 W, 64].
        logits: What the head for turns made, float32 [64].
        values: What that for values made, likewise.
    """

    tuples: TupleSet
    rows: Floats
    turn: Head
    value: Head
    seats: Floats
    numbers: Numbers
    sum: Floats
    sums: Floats
    logits: Floats
    values: Floats

    def fresh(self) -> Network:
        """Return the same for another search: in different threads each needs one."""
        return make_network(self.tuples, self.rows, self.turn, self.value, self.seats)


def make_network(tuples: TupleSet, rows: Floats, turn: Head, value: Head, seats: Floats) -> Network:
    """Return a network of these, which are as its attributes, with room of its own to write to."""
    width = rows.shape[1]
    one, many, logits, values = (np.zeros(shape, np.float32) for shape in (width, (width, COLUMNS), COLUMNS, COLUMNS))
    return Network(tuples, rows, turn, value, seats, make_numbers(), one, many, logits, values)


def join_tables(turns: npt.NDArray[Any], values: npt.NDArray[Any], size: int) -> Floats:
    """Return a row for each content of the patterns, float32 [·, 2 W], from a network's two tables, [T, W] each."""
    shared = shared_rows(size)
    shape = len(shared), 2 * turns.shape[1]
    room = np.zeros(4 * shape[0] * shape[1] + LINE, np.uint8)
    rows: Floats = room[-room.ctypes.data % LINE :][: 4 * shape[0] * shape[1]].view(np.float32).reshape(shape)
    rows[:, : shape[1] // 2], rows[:, shape[1] // 2 :] = turns[shared], values[shared]
    rows[0] = 0  # picked by lanes that are not in use
    return rows


def _add_block(
    _typing_context: Any, rows: Any, width: Any, first: Any, offsets: Any, numbers: Any, lanes: Any, sums: Any
) -> Any:
    # In LLVM's own vectors, because numba's loops load and store the sum for each row.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(at: int) -> Any:
            return context.make_array(signature.args[at])(context, builder, arguments[at]).data

        _, width, first, _, _, lanes, _ = arguments
        vector, word = ir.VectorType(ir.FloatType(), BLOCK), ir.IntType(64)
        begin, offsets, numbers = builder.gep(data(0), [first]), data(3), data(4)
        # Two sums, because each addition waits for the one before.
        sums = [cgutils.alloca_once_value(builder, ir.Constant(vector, [0.0] * BLOCK)) for _ in range(2)]
        with cgutils.for_range_slice(builder, word(0), lanes, word(2)) as (lane, _):
            for step, total in enumerate(sums):
                at = [builder.add(lane, word(step))]
                number = builder.zext(builder.load(builder.gep(numbers, at)), word)
                row = builder.mul(builder.add(builder.load(builder.gep(offsets, at)), number), width)
                found = builder.load(builder.bitcast(builder.gep(begin, [row]), vector.as_pointer()), align=4)
                builder.store(builder.fadd(builder.load(total), found), total)
        place = builder.bitcast(builder.gep(data(6), [first]), vector.as_pointer())
        builder.store(builder.fadd(*map(builder.load, sums)), place, align=4)
        return context.get_dummy_value()

    return types.void(rows, types.int64, types.int64, offsets, numbers, types.int64, sums), generate


add_block: Any = intrinsic(_add_block)
"""Add up `BLOCK` columns from `first` on of the rows that `numbers` pick, to the same places of `sums`.

`add_block(rows, width, first, offsets, numbers, lanes, sums)`, all arrays contiguous, `width` being the numbers of a row.
"""


@register_jitable
def _add_rows(network: Network, first: Any, last: Any, column: Any) -> None:
    """Write columns `first` to `last` of the sum of the rows that `network.numbers` picks to one column of `network.sums`."""
    width = network.rows.shape[1]
    for block in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
        add_block(
            network.rows,
            int64(width),
            int64(block * BLOCK),
            network.tuples.offsets,
            network.numbers.found,
            int64(network.tuples.lanes),
            network.sum,
        )
    for place in range(first, last):
        network.sums[place, column] = max(network.sum[place], float32(0))


def _run_head(_typing_context: Any, hidden: Any, out: Any, sums: Any, first: Any, count: Any, answers: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        hidden, out, sums, answers = (
            context.make_array(signature.args[at])(context, builder, arguments[at]) for at in (0, 1, 2, 5)
        )
        _, _, _, first, count, _ = arguments
        word, vector = ir.IntType(64), ir.VectorType(ir.FloatType(), EIGHT)
        none = ir.Constant(vector, [0.0] * EIGHT)
        units, inputs = cgutils.unpack_tuple(builder, hidden.shape)
        width = builder.sub(inputs, word(1))

        def spread(array: Any, at: Any) -> Any:
            """Return a number of an array in all places of a vector."""
            single = builder.insert_element(none, builder.load(builder.gep(array.data, [at])), ir.IntType(32)(0))
            return builder.shuffle_vector(single, none, ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), [0] * EIGHT))

        def place(array: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(array.data, [at]), vector.as_pointer())

        def add_product(total: Any, factor: Any, other: Any) -> Any:
            return builder.fadd(total, builder.fmul(factor, other, flags=["contract"]), flags=["contract"])

        answer, total = (cgutils.alloca_once(builder, vector) for _ in range(2))
        begin = builder.mul(first, word(COLUMNS))
        with cgutils.for_range_slice(builder, word(0), count, word(EIGHT)) as (column, _):
            builder.store(spread(out, units), answer)
            with cgutils.for_range(builder, units) as unit:
                weights = builder.mul(unit.index, inputs)
                builder.store(spread(hidden, builder.add(weights, width)), total)
                with cgutils.for_range_slice(builder, word(0), width, word(EIGHT)) as (block, _):
                    found = builder.load(total)
                    for step in range(EIGHT):
                        row = builder.add(block, word(step))
                        at = builder.add(builder.add(begin, builder.mul(row, word(COLUMNS))), column)
                        weight = spread(hidden, builder.add(weights, row))
                        found = add_product(found, builder.load(place(sums, at), align=4), weight)
                    builder.store(found, total)
                found = builder.load(total)
                above = builder.select(builder.fcmp_ordered(">", found, none), found, none)
                builder.store(add_product(builder.load(answer), above, spread(out, unit.index)), answer)
            builder.store(builder.load(answer), place(answers, column), align=4)
        return context.get_dummy_value()

    return types.void(hidden, out, sums, types.int64, types.int64, answers), generate


run_head: Any = intrinsic(_run_head)
"""Write what a head makes of the first `count` columns of sums; its rows begin at number `first`.

`run_head(hidden, out, sums, first, count, answers)`, all arrays contiguous. Up to seven more answers are written.
"""


@register_jitable
def _answer(network: Network, head: Head, first: Any, count: Any, answers: Any) -> None:
    run_head(head.hidden, head.out, network.sums, int64(first), int64(count), answers)


@register_jitable
def answer_turns(words: Any, count: Any, seat: int, rival: int, size: int, network: Network) -> None:
    """Write what a network says of the turns that lead to positions: `network.logits`, and `network.values` of the seat.

    Args:
        words: The positions, uint64 [3 or 4, 64], as `children` writes them.
        count: How many there are.
        seat: The row with the balls of the seat that has just moved.
        rival: The row with those of the next one.
        size: Side of the board.
        network: To ask.
    """
    prepare(words, count, seat, rival, size, network.tuples, network.numbers)
    for child in range(count):
        child_numbers(words, child, seat, network.tuples, network.numbers, network.numbers.found)
        _add_rows(network, 0, network.rows.shape[1], child)
    _answer(network, network.turn, 0, count, network.logits)
    _answer(network, network.value, network.rows.shape[1] // 2, count, network.values)


@register_jitable
def answer_position(words: Any, players: int, size: int, network: Network) -> None:
    """Write to `network.values` what a network expects each seat to be paid, the mover's first; `words` as `find_position`."""
    width = network.rows.shape[1]
    seats = 1 if players == 2 else players
    for seat in range(seats):
        find_position(words, seat, seats, size, network.tuples, network.numbers.found)
        _add_rows(network, width // 2, width, seat)
    values = network.values
    _answer(network, network.value, width // 2, seats, values)
    if players == 2:
        values[0], values[1] = -values[0], values[0]
        return
    mean = float32(0)
    for seat in range(players):
        values[seat] += network.seats[seat]
        mean += values[seat] / float32(players)
    for seat in range(players):
        values[seat] -= mean


@lean_kernel
def answer_all(view: Any, players: int, size: int, network: Network, scratch: Scratch, logits: Any, values: Any) -> None:
    """Write the logits, float32 [B, A], and the values, float32 [B, P], of `view`, uint64 [B, 4]; no board may be full."""
    for game in range(view.shape[0]):
        answer_position(view[game], players, size, network)
        for seat in range(players):
            values[game, seat] = network.values[seat]
        count = seat_children(
            view[game, 0], view[game, 1], view[game, 2], view[game, 3], scratch.rows, size, scratch.cells, scratch.words
        )
        answer_turns(scratch.words, count, players - 1, 0, size, network)
        for cell in range(size * size):
            logits[game, cell] = float32(ILLEGAL)
        for child in range(count):
            logits[game, int64(scratch.cells[child])] = network.logits[child]
