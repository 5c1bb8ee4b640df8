"""Comparison of any models: the known numbers of each, with intervals if both were scored on the same texts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isclose
from statistics import fmean

from marin.evaluation.answer import SHARE, written
from marin.evaluation.comparison import compare
from marin.evaluation.difference import Difference, Row
from marin.evaluation.groups import Grouping
from marin.evaluation.metric_names import BITS, is_better_lower, task_of
from marin.evaluation.results import DocumentResult, ItemResult, Results
from marin.evaluation.samples import item_of
from marin.evaluation.statistics import over_seeds, paired_rate_difference, seed_spread

BITS_PER_BYTE, PERPLEXITY = "bits/byte", "perplexity"
FEWEST = 3  # with fewer tasks in common, an average means little
# The harness's measures that published tables print. A task's number is the first measure that the task has.
PUBLISHED = ("exact_match", "acc_norm", "acc", "pass@1", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Side:
    """A model, or an arm of several runs that differ in their seed.

    metrics, results and items have one entry for each run that was evaluated here. metrics: by name. results: text by
    text. items: by metric, the value of each item, for metrics that are the mean of their items. groups: by task, the
    items that belong together. published: by task, the share that somebody else measured. read: by task, the test items
    that the model was trained on.
    """

    name: str
    metrics: Sequence[Mapping[str, float]] = ()
    results: Sequence[Results] = ()
    items: Sequence[Mapping[str, Mapping[str, float]]] = ()
    groups: Mapping[str, Grouping] = field(default_factory=dict[str, Grouping])
    published: Mapping[str, float] = field(default_factory=dict[str, float])
    read: Mapping[str, str] = field(default_factory=dict[str, str])

    def values(self, metric: str) -> list[float]:
        """Return the metric of each run; an empty list if a run lacks the metric."""
        found = [run[metric] for run in self.metrics if metric in run]
        return found if len(found) == len(self.metrics) else []


def side_by_side(sides: Sequence[Side]) -> list[Row]:
    """Return a row for each metric that a side has. Differences are to the first side.

    A published number stands in the row of the task's own measure if that was measured here, else in a row of its own.
    Metrics that more models have come first, and bits per byte last.
    """
    measured = dict.fromkeys(metric for side in sides for run in side.metrics for metric in run)
    values = {metric: {side.name: runs for side in sides if (runs := side.values(metric))} for metric in measured}
    for side in sides:
        for task, share in side.published.items():
            values.setdefault(_row_of(task, measured), {})[side.name] = [share]
    differences = _differences(sides)
    rows = [_row(metric, found, sides, differences.get(metric, {})) for metric, found in values.items()]
    return sorted(rows, key=lambda row: (row.unit == BITS_PER_BYTE, -len(row.values)))


def standing(rows: Sequence[Row], first: str, other: str) -> str | None:
    """Return "A is ahead of B at 14 of 19 tasks; on average 65.2 % against 63.2 %."; None below FEWEST tasks."""
    tasks = [row for row in rows if _is_score(row) and {first, other} <= row.values.keys()]
    if len(tasks) < FEWEST:
        return None
    ahead = sum(row.values[first] > row.values[other] for row in tasks)
    means = (written(fmean(row.values[name] for row in tasks), SHARE) for name in (first, other))
    return f"{first} is ahead of {other} at {ahead} of {len(tasks)} tasks; on average {' against '.join(means)}."


def _is_score(row: Row) -> bool:
    """Return whether the row is a task's own number, as in tables of models."""
    return row.unit == SHARE and ("/" not in row.metric or row.metric.split("/")[-1].split(",")[0] in PUBLISHED)


def common_texts(runs: Sequence[Results]) -> list[Results]:
    """Return the results on the texts that all runs share: the same documents, and the same items in the same form."""
    domains = [name for name in runs[0].documents if _alike([run.documents.get(name, ()) for run in runs])]
    tasks = [key for key in runs[0].items if _alike([run.items.get(key, ()) for run in runs])]
    return [
        Results(
            {key: run.items[key] for key in tasks},
            {name: run.documents[name] for name in domains},
            groups=run.groups,
        )
        for run in runs
    ]


def _alike(of_runs: Sequence[Sequence[DocumentResult] | Sequence[ItemResult]]) -> bool:
    """Return whether all runs have the same texts in the same order."""
    return len({tuple(each.id for each in held) for held in of_runs}) == 1


def _row_of(task: str, measured: Mapping[str, None]) -> str:
    of_task = [metric for metric in measured if task_of(metric) == task]
    for measure in PUBLISHED:
        for metric in of_task:
            if metric.split("/")[-1].split(",")[0] == measure:
                return metric
    return task


def _differences(sides: Sequence[Side]) -> dict[str, dict[str, Difference]]:
    """Return differences by metric and side, over the texts that the side shares with the first side."""
    first, found = sides[0], dict[str, dict[str, Difference]]()
    for side in sides[1:]:
        for row in _compared(first, side):
            found.setdefault(row.metric, {})[side.name] = row.differences[side.name]
        for metric in _logged(first) & _logged(side):
            if (one := _item_by_item(metric, first, side)) is not None:
                found.setdefault(metric, {})[side.name] = one
    return found


def _item_by_item(metric: str, first: Side, side: Side) -> Difference | None:
    """Return the difference over items; None if the items differ, or if the metric is not the mean of its items."""
    mine, theirs = ([run[metric] for run in each.items] for each in (first, side))
    items = list(mine[0])
    if any(run.keys() != mine[0].keys() for run in (*mine, *theirs)) or len(items) < 2:
        return None
    means = [[fmean(run.values()) for run in runs] for runs in (mine, theirs)]
    for each, of_runs in zip((first, side), means, strict=True):
        said = each.values(metric)
        if said and not all(isclose(a, b, abs_tol=1e-6) for a, b in zip(of_runs, said, strict=True)):
            return None
    readers = tuple(each.name for each in (first, side) if task_of(metric) in each.read)
    a, b = ([fmean(run[item] for run in runs) for item in items] for runs in (theirs, mine))
    grouping, spread = first.groups.get(task_of(metric)), seed_spread(means[1], means[0], means)
    groups = grouping.groups(map(item_of, items)) if grouping is not None else ()
    estimate = paired_rate_difference(a, b, [1] * len(items), groups)
    if spread is not None:
        estimate = over_seeds(estimate, spread)
    return Difference(estimate, not is_better_lower(metric), readers, seeds=spread is not None)


def _logged(side: Side) -> set[str]:
    """Return the metrics that have items in every run."""
    return set[str].intersection(*(set(run) for run in side.items)) if side.items else set()


def _compared(first: Side, side: Side) -> Iterator[Row]:
    if not first.results or not side.results:
        return
    common = common_texts([*first.results, *side.results])
    if common[0].items or common[0].documents:
        read = {each.name: each.read for each in (first, side)}
        runs = len(first.results)
        yield from compare({first.name: common[:runs], side.name: common[runs:]}, first.name, read)


def _row(
    metric: str, values: Mapping[str, Sequence[float]], sides: Sequence[Side], differences: Mapping[str, Difference]
) -> Row:
    parts = metric.split("/")
    measure = parts[-1].split(",")[0]
    in_bits = parts[0] in BITS or measure in ("bpb", "bits_per_byte") or measure.endswith("_bpb")
    is_perplexity = measure.endswith(PERPLEXITY)
    starred = [side.name for side in sides if task_of(metric) in side.read and side.name in values]
    return Row(
        metric,
        BITS_PER_BYTE if in_bits else PERPLEXITY if is_perplexity else SHARE,
        not is_better_lower(metric),
        {side.name: fmean(values[side.name]) for side in sides if side.name in values},
        differences,
        {name: runs for name, runs in values.items() if len(runs) > 1},
        contaminated=starred,
    )
