"""The interface of a model for evaluations. marin.training.scoring implements it for a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from marin.evaluation.prefix_tree import Ids, Wanted


@dataclass(frozen=True)
class Scored:
    """For each wanted token its natural-log probability, and whether no other token is likelier. Both (n,)."""

    logprobs: npt.NDArray[np.float64]
    greedy: npt.NDArray[np.bool_]


class LanguageModel(Protocol):
    """A model that scores and generates tokens. length: the longest sequence that the model takes, in tokens."""

    @property
    def length(self) -> int: ...

    def continuations(self, wanted: Sequence[Wanted]) -> list[Scored]: ...

    def generate(
        self, prompts: Sequence[Ids], most: int, end: int, finished: Callable[[Sequence[int]], bool]
    ) -> list[list[int]]:
        """Return the greedy continuation of each prompt: at most ``most`` tokens, cut before the token ``end``.

        finished: called now and then with the tokens so far; returns whether they suffice. So a few more may come.
        """
        ...
