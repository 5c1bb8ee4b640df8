"""Predict the metrics of evaluations from their fields, to check the names of metrics before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from marin import ExecutorStep, Scores
from marin.errors import BadField
from marin.evaluation.formats import Format
from marin.evaluation.metric_names import fitting
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks

RATES = ("bpb", "final_bpb")
SHARES = ("accuracy", "choice_probability")  # only with several choices


@dataclass(frozen=True)
class Measured:
    """The metrics that evaluations will measure.

    tasks: metrics of tasks. below: prefixes of metrics of tasks that lm-evaluation-harness names. loss: metrics of
    domains. items: the names of tasks and references.
    """

    tasks: tuple[str, ...]
    below: tuple[str, ...]
    loss: tuple[str, ...]
    items: frozenset[str]

    def of_tasks(self, name: str) -> bool:
        """Return whether a task's metric has this name or, if the name ends in "/", this prefix."""
        if name.endswith("/"):
            return bool(fitting(name, [*self.tasks, *self.below]))
        return name in self.tasks or f"{name.rpartition('/')[0]}/" in self.below

    def must_hold(self, what: str, name: str) -> None:
        """Check that a task's metric or a loss has this name. what: the field that names the metric.

        Raises BadField with the nearest name.
        """
        if not self.of_tasks(name) and not fitting(name, self.loss):
            raise BadField(_not_there(what, name, self, self.loss))


def measured_by(evaluations: Iterable[ExecutorStep[Scores]]) -> Measured | None:
    """Return the metrics that the evaluations of one run will measure.

    None if one evaluation is of another operator, whose metrics are unknown before it runs.
    """
    tasks, below, loss, items = list[str](), list[str](), list[str](), set[str]()
    for each in evaluations:
        if isinstance(each, Evaluate):
            choice = SHARES if each.choices > 1 else ()
            for of, measures in (each.tasks, RATES + choice), (each.references, RATES):
                tasks += [f"{task}/{form.value}/{one}" for task in of for form in each.formats for one in measures]
            loss += [f"bpb/{domain}" for domain in each.domains]
            items |= each.tasks.keys() | each.references.keys()
        elif isinstance(each, EvaluateTasks):
            for name in each.tasks:
                task, _, form = name.partition("/")
                below.append(f"{name}/")
                tasks += [f"{task}/{form or Format.LM_EVAL.value}/{one}" for one in ("bpb", "choice_probability")]
                items.add(task)
        else:
            return None
    return Measured(tuple(tasks), tuple(below), tuple(loss), frozenset(items))


def must_be_measured(
    what: str,
    evaluations: Iterable[ExecutorStep[Scores]],
    primary: Sequence[str],
    guard: Iterable[str],
    references: Mapping[str, str],
) -> None:
    """Check that the evaluations of a run measure every metric that a verdict needs. what: the owner of the fields.

    Raises BadField with the nearest name.
    """
    there = measured_by(evaluations)
    if there is None:
        return
    for name in primary:
        if not there.of_tasks(name):
            if fitting(name, there.loss):
                raise BadField(
                    f"{what}.primary names {name!r}, which is loss, but a verdict goes by tasks: "
                    f"{_listed(there) or 'none is evaluated, so give an evaluation with tasks={…}'}"
                )
            raise BadField(_not_there(f"{what}.primary", name, there, ()))
    for name in guard:
        if name in primary:
            raise BadField(
                f"{what}: {name!r} is both primary and guard; leave it out of guard, because a candidate that loses on "
                "a primary metric is not adopted"
            )
        there.must_hold(f"{what}.guard", name)
    for name in (name for pair in references.items() for name in pair):
        if name not in there.items:
            raise BadField(
                f"{what}.references names {name!r}, whose items no evaluation has{_near(name, there.items)}; there are "
                f"{', '.join(sorted(there.items)) or 'none'}"
            )


def _not_there(what: str, name: str, there: Measured, loss: tuple[str, ...]) -> str:
    likely = [*there.tasks, *loss, *(f"{prefix}{name.rpartition('/')[2]}" for prefix in there.below)]
    return (
        f"{what} names {name!r}, which no evaluation measures{_near(name, likely)}; there are "
        f"{_listed(there, loss) or 'none'}, and any prefix of them that ends in '/'"
    )


def _near(name: str, there: Iterable[str]) -> str:
    near = get_close_matches(name, sorted(there), 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _listed(there: Measured, loss: tuple[str, ...] = ()) -> str:
    return ", ".join([*there.tasks, *(f"{prefix}…" for prefix in there.below), *loss])
