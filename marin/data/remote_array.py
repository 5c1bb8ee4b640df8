"""RemoteArray: a file of numbers in an object store, read only in the requested ranges."""

# pyright: basic
from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.errors import TruncatedShard
from marin.store.files.directory import Directory

BLOCK_BYTES, BLOCKS = 1 << 16, 128  # size of a read for a few numbers, and the number of blocks to cache
GAP_BYTES = 1 << 12  # ranges at most this far apart are read as one, which costs less than another call


class RemoteArray:
    """An array of (length,) numbers of one type, from byte ``begin`` of a file on. Slices are arrays.

    Raises TruncatedShard if the file ends early.
    """

    def __init__(self, directory: Directory, name: str, dtype: Any, length: int, begin: int = 0) -> None:
        self._directory, self._name, self.url = directory, name, f"{directory.url}/{name}"
        self.dtype, self._length, self._begin = np.dtype(dtype), length, begin
        self._each = BLOCK_BYTES // self.dtype.itemsize
        self._blocks: OrderedDict[int, NDArray[Any]] = OrderedDict()

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, wanted: int | slice) -> Any:
        if isinstance(wanted, slice):
            start, stop, step = wanted.indices(self._length)
            if step != 1:
                raise IndexError(f"{self.url}: the slice has step {step}; wanted 1")
            stop = max(start, stop)
            if start == stop or stop - start > self._each:
                return self._read([(start, stop)])[0]
            first, last = start // self._each, (stop - 1) // self._each
            there = np.concatenate([self._block(number) for number in range(first, last + 1)])
            return there[start - first * self._each : stop - first * self._each]
        at = int(wanted) + (self._length if wanted < 0 else 0)
        if not 0 <= at < self._length:
            raise IndexError(f"{self.url}: index {wanted} is outside; there are {self._length} numbers")
        return self._block(at // self._each)[at % self._each]

    def windows(self, indices: NDArray[np.int64], width: int) -> NDArray[Any]:
        """Return rows of ``width`` numbers: (n,) → (n, width). Neighbours share a read; reads run concurrently."""
        out = np.empty((len(indices), width), self.dtype)
        rows = np.unique(indices)
        gaps = np.diff(rows) * width * self.dtype.itemsize > GAP_BYTES + width * self.dtype.itemsize
        runs = np.split(rows, np.flatnonzero(gaps) + 1) if len(rows) else []
        spans = [(int(run[0]) * width, (int(run[-1]) + 1) * width) for run in runs]
        for run, held in zip(runs, self._read(spans), strict=True):
            mine = np.flatnonzero((indices >= run[0]) & (indices <= run[-1]))
            out[mine] = held.reshape(-1, width)[indices[mine] - run[0]]
        return out

    def _block(self, number: int) -> NDArray[Any]:
        held = self._blocks.pop(number, None)
        if held is None:
            held = self._read([(number * self._each, min((number + 1) * self._each, self._length))])[0]
            while len(self._blocks) >= BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks[number] = held
        return held

    def _read(self, spans: list[tuple[int, int]]) -> list[NDArray[Any]]:
        """Return the numbers start … stop - 1 of each span."""
        size, found = self.dtype.itemsize, list[NDArray[Any]]()
        ranges = [(self._begin + start * size, self._begin + stop * size) for start, stop in spans if stop > start]
        contents = iter(self._directory.read_ranges(self._name, ranges))
        for start, stop in spans:
            content = next(contents) if stop > start else b""
            if len(content) != (stop - start) * size:
                raise TruncatedShard(
                    f"{self.url}: {len(content)} bytes from byte {self._begin + start * size} on, wanted "
                    f"{(stop - start) * size}; the file was cut short or replaced. `marin audit --bytes` checks it"
                )
            found.append(np.frombuffer(content, self.dtype))
        return found
