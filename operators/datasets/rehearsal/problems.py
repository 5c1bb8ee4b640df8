"""Generated word problems in the style of GSM8K: a story, worked steps with ``<<48/2=24>>`` tags, ``#### 24``.

The generator composes each problem from an opening, two to four events and a question. Each part has several wordings,
and the generator draws new names, things, places and numbers for each problem. Therefore two problems seldom share
eight words in a row, and decontamination can tell a test item from similar training problems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

import xxhash

from marin import value
from marin.errors import BadField
from marin.evaluation.items import Item
from operators.datasets.rehearsal.problem_stories import STORIES, Draw, Story

TEST_ONE_IN = 8


@value("split")
class Split(Enum):
    """The side of a question, by a hash of its text: with any seeds, the two sides never share a question."""

    _value_: str
    TRAIN = "train"
    TEST = "test"


def split_of(question: str) -> Split:
    """Return the only split in which this question may appear."""
    return Split.TEST if xxhash.xxh3_64_intdigest(question.encode()) % TEST_ONE_IN == 0 else Split.TRAIN


def generate_items(seed: int, count: int, split: Split, stories: Sequence[Story] = STORIES) -> Iterator[Item]:
    """Yield ``count`` items of one split, all with different questions. Raises BadField if the stories run out."""
    draw = Draw(seed)
    seen: set[str] = set()
    for _ in range(1000 + 4 * TEST_ONE_IN * count):
        if len(seen) == count:
            return
        problem = draw.pick(stories)(draw)
        question = " ".join(problem.sentences)
        if question in seen or split_of(question) is not split:
            continue
        answer = "\n".join([*problem.steps, f"#### {problem.final}"])
        yield Item(f"{split.value}-{seed}-{len(seen)}", question, answer, str(problem.final))
        seen.add(question)
    if len(seen) < count:
        raise BadField(f"count is {count}, but seed {seed} gives only {len(seen)} different problems; ask for fewer")
