"""The per-text numbers of several runs as arrays, for statistics over seeds and texts."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from marin.errors import CorruptOutput
from marin.evaluation.gains import Measured
from marin.evaluation.groups import Grouping
from marin.evaluation.metric_names import is_better_lower, task_of
from marin.evaluation.results import Results
from marin.evaluation.samples import item_of

type Runs = Mapping[str, Sequence[Results]]  # by arm, one for each seed, in the same order
type LoggedRuns = Mapping[str, Sequence[Mapping[str, Mapping[str, float]]]]  # likewise: by metric and item

NO_GROUPS: Mapping[str, Grouping] = MappingProxyType({})
# A rate divides the sum of the first field by the sum of the second. A share is one field, averaged over items.
RATES: dict[str, tuple[str, str]] = {"bpb": ("bits", "bytes"), "final_bpb": ("final_bits", "final_bytes")}
SHARES = {"accuracy": "correct", "choice_probability": "choice_probability"}


def losses(runs: Runs) -> list[Measured]:
    """Return the metric ``bpb/<domain>`` of every domain."""
    first = next(iter(runs.values()))[0]
    return [
        _measured(
            f"bpb/{domain}",
            first.groups.get(f"bpb/{domain}"),
            runs,
            lambda run, domain=domain: run.documents.get(domain, []),
            *RATES["bpb"],
        )
        for domain in sorted(first.documents)
    ]


def tasks(runs: Runs, chances: Mapping[str, float]) -> list[Measured]:
    """Return every measured metric ``<task>/<format>/<metric>``. chances: by task, the score of a guess."""
    found: list[Measured] = []
    first = next(iter(runs.values()))[0]
    for task, form in sorted(first.items):
        held = first.items[task, form]

        def of(run: Results, key: Any = (task, form)) -> Sequence[Any]:
            return run.items.get(key, [])

        name, groups = f"{task}/{form}", first.groups.get(task)
        found += [
            _measured(f"{name}/{metric}", groups, runs, of, *fields)
            for metric, fields in RATES.items()
            if all(getattr(one, fields[1]) for one in held)
        ]
        found += [
            _measured(f"{name}/{metric}", groups, runs, of, field, "", chances.get(task))
            for metric, field in SHARES.items()
            if all(getattr(one, field) is not None for one in held)
        ]
    return found


def logged_tasks(
    runs: LoggedRuns, chances: Mapping[str, float], groups: Mapping[str, Grouping] = NO_GROUPS
) -> list[Measured]:
    """Return every metric ``<task>/<metric>`` that lm-evaluation-harness logged item by item.

    chances: by metric, the score of a guess. groups: by task. Raises CorruptOutput if runs were scored on other items.
    """
    found: list[Measured] = []
    for metric in sorted(next(iter(runs.values()))[0]):
        held = {arm: [run.get(metric, {}) for run in each] for arm, each in runs.items()}
        items = list(next(iter(held.values()))[0])
        for arm, each in held.items():
            for number, values in enumerate(each):
                if values.keys() != set(items):
                    raise CorruptOutput(_of_others(metric, number, arm, len(values), len(items)))
        if len(items) > 1:
            amounts = {arm: np.array([[run[item] for item in items] for run in each]) for arm, each in held.items()}
            of = groups.get(task_of(metric))
            found.append(
                Measured(
                    metric=metric,
                    unit=metric.rpartition("/")[2],
                    higher_is_better=not is_better_lower(metric),
                    amounts=amounts,
                    sizes=np.ones(len(items)),
                    chance=chances.get(metric),
                    groups=of.groups(map(item_of, items)) if of is not None else (),
                    by=of.by if of is not None else "",
                )
            )
    return found


def _of_others(metric: str, number: int, arm: str, texts: int, first: int) -> str:
    return (
        f"{metric}: run {number} of {arm} was scored on other texts than the first run ({texts} and {first} texts); "
        "evaluate all runs with the same fields"
    )


def _measured(
    metric: str,
    grouping: Grouping | None,
    runs: Runs,
    of: Callable[[Results], Sequence[Any]],
    amount: str,
    size: str,
    chance: float | None = None,
) -> Measured:
    """Return one metric of all runs.

    amount, size: the fields of a rate; size is "" for a share. Raises CorruptOutput if runs have other texts."""
    wanted: list[str] = []
    sizes = np.ones(0)
    amounts: dict[str, Any] = {}
    for arm, each in runs.items():
        rows: list[list[float]] = []
        for number, run in enumerate(each):
            held = of(run)
            ids = [one.id for one in held]
            if not wanted:
                wanted = ids
                sizes = np.array([float(getattr(one, size)) if size else 1.0 for one in held])
            if ids != wanted or not ids:
                raise CorruptOutput(_of_others(metric, number, arm, len(ids), len(wanted)))
            rows.append([float(getattr(one, amount)) for one in held])
        amounts[arm] = np.array(rows)
    return Measured(
        metric=metric,
        unit="share" if not size else "bits/byte",
        higher_is_better=not size,
        amounts=amounts,
        sizes=sizes,
        chance=chance,
        groups=grouping.groups(wanted) if grouping is not None else (),
        by=grouping.by if grouping is not None else "",
    )
