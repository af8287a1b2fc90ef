"""Holds the array types Rows, Floats and Bools, and Ragged; multiplies and iterates over blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.intp]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Real = TypeVar("Real", bound=np.floating[Any])

BLOCK_SIZE = 4096  # rows unfolded at a time: 168 slots of them in float64 stay within a processor's cache
PIECE = 64  # rows multiplied at a time: OpenBLAS starts threads beyond 262,144 products of numbers


@dataclass(frozen=True, slots=True)
class Ragged:
    """Ascending times of several rows in one flat array: row k has `times[offsets[k]:offsets[k + 1]]`."""

    offsets: Rows
    times: Floats

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Ragged:
        """Build from one list of times per row, in any order.

        >>> Ragged.of([[2.0, 1.0], [], [5.0]]).times.tolist()
        [1.0, 2.0, 5.0]
        """
        counts = np.array([len(times) for times in rows], np.intp)
        times: Floats = np.fromiter(chain.from_iterable(map(sorted, rows)), np.float64)
        return cls(np.concatenate([[0], np.cumsum(counts)]).astype(np.intp), times)

    @property
    def counts(self) -> Rows:
        return np.diff(self.offsets)

    def owner(self) -> Rows:
        """Return the row that each time belongs to."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def take(self, positions: Rows) -> Ragged:
        """Return the times of some rows only, in the order given."""
        counts = self.counts[positions]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
        return Ragged(offsets, self.times[np.repeat(self.offsets[:-1][positions], counts) + within])


def iterate_blocks(length: int, size: int = BLOCK_SIZE) -> Iterator[slice]:
    """Yield slices that cover `length` positions, `size` at a time.

    >>> list(iterate_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    for at in range(0, length, size):
        yield slice(at, min(at + size, length))


def multiply(samples: NDArray[Real], weights: NDArray[Real]) -> NDArray[Real]:
    """Return samples @ weights, in pieces so small that BLAS starts no threads for them.

    Its threads wait for each other by spinning, which on a busy machine takes fifty times the work itself.

    >>> multiply(np.ones((100, 3), np.float32), np.ones((3, 2), np.float32)).sum()
    np.float32(600.0)
    """
    whole = len(samples) // PIECE * PIECE
    pieces = samples[:whole].reshape(-1, PIECE, samples.shape[1]) @ weights
    return np.concatenate([pieces.reshape(whole, weights.shape[1]), samples[whole:] @ weights])
