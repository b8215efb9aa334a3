"""Word helpers: a set of cells is one 64-bit word, bit `row * size + column`, least significant bit first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic, overload, register_jitable

Words = npt.NDArray[np.uint64]

GOLDEN = 0x9E3779B97F4A7C15
"""The step of the counter behind random numbers: 2**64 by the golden ratio, made odd."""


def cells_of(word: int) -> Iterator[int]:
    """Yield the cells in `word`, ascending."""
    while word:
        low = word & -word
        yield low.bit_length() - 1
        word ^= low


def highest_bit(word: Any) -> Any:
    """Return the highest set bit of a word that is not 0 (and not negative, where it is a torch int64)."""
    if isinstance(word, int):
        return 1 << word.bit_length() - 1
    for shift in (1, 2, 4, 8, 16, 32):
        word = word | (word >> shift)
    return word ^ (word >> 1)


@overload(highest_bit, jit_options={"forceinline": True})
def _highest_bit_in_kernels(word: Any) -> Any:
    def highest(word: Any) -> Any:
        return uint64(1 << 63) >> _leading_zeros(word)

    return highest


def _count_leading_zeros(_typing_context: Any, _word: Any) -> Any:
    # LLVM's own function: one instruction for eight games, where spreading the highest bit would take a dozen.
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


_leading_zeros: Any = intrinsic(_count_leading_zeros)


@register_jitable
def popcount(word: Any) -> Any:
    """Count the set bits of a uint64 by summing in parallel (LLVM turns this into one instruction)."""
    word = word - ((word >> uint64(1)) & uint64(0x5555555555555555))
    word = (word & uint64(0x3333333333333333)) + ((word >> uint64(2)) & uint64(0x3333333333333333))
    word = (word + (word >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (word * uint64(0x0101010101010101)) >> uint64(56)


@register_jitable(forceinline=True)
def scramble(counter: Any) -> Any:
    """Return the random number, uint64, that belongs to a counter which grows by `GOLDEN`: SplitMix64's output function.

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
    """
    number = (counter ^ (counter >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> uint64(27))) * uint64(0x94D049BB133111EB)
    return number ^ (number >> uint64(31))


@register_jitable
def draw(state: Any) -> Any:
    """Return the next random number, uint64, of a generator whose state is `state`, uint64 [1]."""
    state[0] += uint64(GOLDEN)
    return scramble(state[0])


@register_jitable
def select(word: Any, rank: Any) -> Any:
    """Return the cell of the set bit number `rank` (0 for the lowest) of a uint64.

    Halves the search six times, without branches, so that a loop over games vectorises.
    """
    cell = uint64(0)
    for width in (32, 16, 8, 4, 2, 1):
        low = popcount((word >> cell) & ((uint64(1) << uint64(width)) - uint64(1)))
        above = uint64(rank >= low)
        rank = rank - low * above
        cell = cell + uint64(width) * above
    return cell
