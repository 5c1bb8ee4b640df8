"""What an evaluation asks of a model. A checkpoint answers through marin.training.scoring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin.evaluation.prefix_tree import Ids, Wanted


@dataclass(frozen=True)
class Scored:
    """Of each wanted token its natural-log probability, and whether none is likelier. Both (n,)."""

    logprobs: npt.NDArray[np.float64]
    greedy: npt.NDArray[np.bool_]


class LanguageModel(Protocol):
    """length: the longest sequence that it takes, in tokens."""

    @property
    def length(self) -> int: ...

    def continuations(self, wanted: Sequence[Wanted]) -> list[Scored]: ...

    def generate(
        self, prompts: Sequence[Ids], most: int, end: int, finished: Callable[[Sequence[int]], bool]
    ) -> list[list[int]]:
        """The likeliest continuation of each prompt: at most so many tokens, without ``end`` and what follows it.

        finished: told what was generated so far, whether that is enough; it is asked now and then, so more may come.
        """
        ...
