"""Reads lm-evaluation-harness's logs: the texts that models wrote, and the score of each item.

The files are ``samples_<task>….jsonl``, in a folder for each name under which tasks were evaluated."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, cast

from marin.errors import CorruptOutput
from marin.evaluation.groups import TASK, Grouping, grouping
from marin.evaluation.metric_names import task_of
from marin.store.files.directory import Directory

NAME = re.compile(r"(?:(?P<folder>.*)/)?samples_(?P<task>.+?)(?:_\d{4}-\d\d-\d\dT[\d.:-]+)?\.jsonl")
CHOSEN = ("acc", "acc_norm")  # metrics of the likeliest choice


@dataclass(frozen=True)
class Sample:
    """A text that a model wrote. prompt: the text before. text: the model's answer. target: the right answer."""

    prompt: str
    text: str
    target: str


@dataclass(frozen=True)
class Logged:
    """The logs of the harness.

    samples: by task and prompt, for tasks in which the model writes. scores: by metric and item; a metric is as
    ``gsm8k/acc``. chances: by metric, the mean score of a guess among each item's choices. groups: by task, the items
    that belong together.
    """

    samples: dict[tuple[str, str], Sample] = field(default_factory=dict[tuple[str, str], Sample])
    scores: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    chances: dict[str, float] = field(default_factory=dict[str, float])
    groups: dict[str, Grouping] = field(default_factory=dict[str, Grouping])


def read_logged(directory: Directory) -> Logged:
    """Return every item of every task. Raises CorruptOutput naming the line that is no sample."""
    found, guesses, documents = Logged(), dict[str, list[float]](), dict[str, dict[str, Mapping[str, Any]]]()
    for name in directory.names():
        if (match := NAME.fullmatch(name)) is None:
            continue
        task, folder = match["task"], match["folder"] or match["task"]
        for number, line in enumerate(directory.read_text(name).split("\n"), start=1):
            if not line:
                continue
            try:
                row = json.loads(line)
                sample = _sample(row)
                document: dict[str, Any] = row["doc"] if isinstance(row.get("doc"), dict) else {}
                for metric, value in _scores(row):
                    item = f"{task}/{row['doc_id']}/{row.get('doc_hash', '')}"
                    found.scores.setdefault(f"{folder}/{metric}", {})[item] = value
                    documents.setdefault(task_of(folder), {})[item_of(item)] = {**document, TASK: task}
                    if metric in CHOSEN and sample is None and len(row["resps"]) > 1:
                        guesses.setdefault(f"{folder}/{metric}", []).append(1 / len(row["resps"]))
            except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
                raise CorruptOutput(
                    f"{directory.url}/{name} line {number} is no sample of lm-evaluation-harness ({error}); rebuild "
                    "the evaluation"
                ) from error
            if sample is not None:
                found.samples[task, sample.prompt] = sample
    found.groups.update((task, of) for task, held in documents.items() if (of := grouping(held)) is not None)
    found.chances.update({metric: fmean(each) for metric, each in guesses.items()})
    return found


def item_of(logged: str) -> str:
    """Return the id of an item from its logged id, which also holds a hash of the item's text."""
    return logged.rpartition("/")[0]


def common_samples(sides: Mapping[str, Mapping[tuple[str, str], Sample]]) -> dict[tuple[str, str], dict[str, Sample]]:
    """Return by task and prompt the sample of each side, for prompts of at least two sides; differing texts first."""
    keys = dict.fromkeys(key for held in sides.values() for key in held)
    shared = {key: {name: held[key] for name, held in sides.items() if key in held} for key in keys}
    several = {key: held for key, held in shared.items() if len(held) > 1}
    return dict(sorted(several.items(), key=lambda pair: len({sample.text for sample in pair[1].values()}) == 1))


def _scores(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the numeric metrics of one item; a name has the answer's filter if there is one."""
    way = row.get("filter", "none")
    for metric in row.get("metrics", ()):
        if isinstance(row.get(metric), bool | int | float):
            yield metric if way == "none" else f"{metric},{way}", float(row[metric])


def _sample(row: dict[str, Any]) -> Sample | None:
    """Return the sample of a row; None if the task scores choices and the model writes nothing."""
    arguments, response = row["arguments"], row["resps"][0]
    first = str(
        cast("dict[str, Any]", arguments)["gen_args_0"]["arg_0"] if isinstance(arguments, dict) else arguments[0][0]
    )
    text = cast("list[Any]", response)[0] if isinstance(response, list) else response
    return Sample(first, text, str(row["target"])) if isinstance(text, str) else None
