"""Generated word problems in the style of GSM8K: a story, worked steps with ``<<48/2=24>>`` tags, ``#### 24``.

A problem is composed, not filled in: an opening, two to four events and a question, each in several
wordings and with names, things, places and numbers drawn anew, so that two problems seldom share
eight words in a row and decontamination can tell a test item from its training cousins.
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
    """Which side a question falls on is decided by a hash of its text: the two never share one, whatever the seeds."""

    _value_: str
    TRAIN = "train"
    TEST = "test"


def split_of(question: str) -> Split:
    """The only split that this question may appear in."""
    return Split.TEST if xxhash.xxh3_64_intdigest(question.encode()) % TEST_ONE_IN == 0 else Split.TRAIN


def generate_items(seed: int, count: int, split: Split, stories: Sequence[Story] = STORIES) -> Iterator[Item]:
    """``count`` items of one split, all questions different. Raises BadField if the stories run dry."""
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
