# pyright: basic
"""Numbers that tasks leave for other tasks in the work in progress, in parts that are read by range.

A task writes one file of each kind, regardless of its number of parts. A thousand shards in a thousand buckets are
therefore a thousand files, not a million.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from marin.store.files.directory import Directory

ENDS, DONE = "ends", "done"  # the ends of a task's parts, and its answer, which is written last


def write(out: Directory, name: str, numbers: NDArray[Any]) -> None:
    out.write_bytes(name, numbers.tobytes())


def read(directory: Directory, name: str, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.frombuffer(directory.read_bytes(name), kind)


def finish(out: Directory, counts: NDArray[Any], number: int = 0) -> None:
    """Mark the task as done. counts: rows of each part, in order. number: the task's answer."""
    write(out, ENDS, np.concatenate(([0], np.cumsum(counts))).astype(np.int64))
    out.write_text(DONE, str(number))


def read_part(directory: Directory, name: str, kind: np.dtype[Any], part: int) -> NDArray[Any]:
    [ends] = directory.read_ranges(ENDS, [(8 * part, 8 * part + 16)])
    low, high = np.frombuffer(ends, np.int64).tolist()
    if low == high:
        return np.empty(0, kind)
    [rows] = directory.read_ranges(name, [(kind.itemsize * low, kind.itemsize * high)])
    return np.frombuffer(rows, kind)
