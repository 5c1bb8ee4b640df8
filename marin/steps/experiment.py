"""Experiment: a question, the issue it belongs to, and the steps whose results answer it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from marin.errors import BadField, CyclicSteps, LabelClash, UnknownStep
from marin.steps.definitions import unprintable
from marin.steps.replacing import Adjust, replaced
from marin.steps.step import ExecutorStep, must_be_one_class
from marin.steps.value import NEEDED, check_fields, guard_init

MARIN = "https://github.com/marin-community/marin"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question, and the steps whose results answer it.

    Raises BadField, CyclicSteps or LabelClash at construction.
    """

    issue: int = field(metadata={NEEDED: "the number of the GitHub issue that it belongs to, any from 1 on: issue=1"})
    question: str | None = field(metadata={NEEDED: "the question that it asks: question=__doc__"})
    results: Mapping[str, ExecutorStep[Any]] = field(
        metadata={NEEDED: "the final steps by name: results={'scores': evaluate}"}
    )
    # Address of the issue's repository, https://…; "" if it is not on the web. None: the experiment file's repository.
    repository: str | None = None
    whole: bool = True  # False: only some of an experiment's results
    # Changes by --set ("train/mantis.seed=3") or adjusted() in a step or in its inputs, by the step's identity.
    changes: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def __post_init__(self) -> None:
        check_fields(self)
        if self.issue < 1:
            raise BadField(f"Experiment.issue is {self.issue}; every experiment belongs to a GitHub issue, by number")
        if not (self.question or "").strip():
            raise BadField("Experiment.question is empty; state the question (usually __doc__)")
        if not self.results:
            raise BadField("Experiment.results is empty; name at least one step, e.g. results={'scores': evaluate}")
        for name in self.results:
            if strange := unprintable(name):
                raise BadField(
                    f"Experiment.results has the name {name!r}, which holds {strange}; use one line of plain text"
                )
        object.__setattr__(self, "results", dict(self.results))
        self.__dict__["_steps"] = topological(self.results.values())
        check_labels(self.__dict__["_steps"])

    @property
    def issue_url(self) -> str:
        repository = MARIN if self.repository is None else self.repository
        return f"{repository}/issues/{self.issue}" if repository else ""

    def steps(self) -> list[ExecutorStep[Any]]:
        """Return every step that the results need, each once, dependencies first."""
        return list(self.__dict__["_steps"])

    def all_changes(self) -> list[str]:
        return list(dict.fromkeys(line for lines in self.changes.values() for line in lines))

    def adjusted(self, adjust: Adjust, *, why: str) -> Experiment:
        """Return the experiment with other values in its steps, which keep their connections.

        adjust: takes a step or a value in one, and its fields now, and returns the fields to change. It is called for
        nested values before the values that hold them. why: the text that records of the changed steps keep.
        """
        made: dict[ExecutorStep[Any], ExecutorStep[Any]] = {}
        for step in self.steps():
            made[step] = replaced(step, made, adjust)
        results = {name: made[step] for name, step in self.results.items()}
        lines = {new.identity: self.changes.get(old.identity, ()) + (why,) * (new != old) for old, new in made.items()}
        return dataclasses.replace(self, results=results, changes={each: told for each, told in lines.items() if told})

    def of(self, repository: str) -> Experiment:
        """Return the same experiment with the repository of its issue."""
        made = copy.copy(self)
        object.__setattr__(made, "repository", repository)
        return made

    def only(self, names: Iterable[str]) -> Experiment:
        """Return the same experiment with some of its results. Raises UnknownStep for a name it does not have."""
        wanted = list(names)
        for name in wanted:
            if name not in self.results:
                raise UnknownStep(f"--only {name}: this experiment's results are {', '.join(self.results)}")
        return dataclasses.replace(self, results={name: self.results[name] for name in wanted}, whole=False)


guard_init(Experiment, lambda _: None)


def topological(ends: Iterable[ExecutorStep[Any]]) -> list[ExecutorStep[Any]]:
    """Return each step once, dependencies first, without recursion. Raises CyclicSteps naming the cycle."""
    done: dict[str, ExecutorStep[Any]] = {}  # by identity, as is the trail
    trail: dict[str, ExecutorStep[Any]] = {}  # from an end to a step: each depends on the next
    left = [*ends][::-1]
    while left:
        step = left[-1]
        if (known := done.get(step.identity)) is not None:
            must_be_one_class(known, step)
            left.pop()
        elif step.identity in trail:  # its dependencies are done
            done[step.identity] = trail.pop(step.identity)
        else:
            trail[step.identity] = step
            for dependency in step.dependencies:
                if dependency.identity in trail:
                    names = [each.name for each in trail.values()]
                    loop = [*names[names.index(dependency.name) :], dependency.name]
                    raise CyclicSteps(f"steps depend on themselves: {' → '.join(loop)}")
            left += reversed(step.dependencies)
    return list(done.values())


def check_labels(steps: Iterable[ExecutorStep[Any]]) -> None:
    """Raise LabelClash if two different steps claim one label: people and pages tell steps apart by their labels."""
    claimed: dict[str, ExecutorStep[Any]] = {}
    for step in steps:
        if not step.label:
            continue
        other = claimed.setdefault(step.name, step)
        if other is not step and other != step:
            names = {spec.name for spec in dataclasses.fields(step)} - {"label", "resources"}
            differing = sorted(name for name in names if getattr(step, name, None) != getattr(other, name, None))
            raise LabelClash(
                f"two different steps are called {step.name}: {other.identity[:12]} and {step.identity[:12]} "
                f"(they differ in {', '.join(differing) or 'version'}); give one another label"
            )
