"""Past runs of a store: who ran what, and how far it came. Also the state of steps, in any run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, cast

from rich.console import Console
from rich.text import Text

from marin.errors import CorruptRecord, UnknownStep, did_you_mean
from marin.report.table import columns_of, print_table, say
from marin.report.words import folded, grouped, styled
from marin.steps.step import ExecutorStep
from marin.store.attempts import AttemptStatus, parse_attempt
from marin.store.documents import BadDocument, parse_json
from marin.store.ends import How
from marin.store.in_use import SHORT, Run, read_runs
from marin.store.inventory import Inventory
from marin.store.layout import FAILURE, LOG, RUNS
from marin.store.lookup import ambiguous
from marin.store.numbers import write_bytes, write_duration
from marin.store.process import Holder
from marin.store.record import parse_failure
from marin.store.redaction import redacted
from marin.store.store import Store

RECENT = 8  # runs
NUMBERS = {"todo": int, "seconds": int | float}  # fields of an event; a value that is no number is left out
UNREMARKABLE = (
    AttemptStatus.QUEUED,
    AttemptStatus.COMMITTED,
    AttemptStatus.ABSENT,
)  # many such steps fold into one line


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # by Ctrl-C, a signal or an error
    RUNNING = "running"
    DIED = "died"  # its process is gone and left no last event
    SILENT = "silent"  # it is on another machine and has not said that it ended


@dataclass(frozen=True, kw_only=True)
class PastRun:
    name: str  # of the file of events, without the ending
    experiment: str
    began: str
    who: str
    command: str
    git: str
    scale: str
    outcome: Outcome
    about: str  # why it stopped, or who runs it
    todo: int  # steps that it set out to run
    steps: dict[str, int]  # number of ended steps by status
    seconds: float | None
    dashboard: str  # of the Ray cluster that its steps went to
    events: list[dict[str, Any]]  # as written; unreadable lines are left out


@dataclass(frozen=True, kw_only=True)
class StepStatus:
    step: str
    identity: str
    status: AttemptStatus
    detail: str  # who runs it since when, the error, the committed output, or the reason for waiting
    log: str = ""  # of the attempt in question; "" if none


def run_names(store: Store) -> list[str]:
    """Return the names of all runs, oldest first: a name begins with the time."""
    return [name.removesuffix(".jsonl") for name in store.objects.list(RUNS) if name.endswith(".jsonl")]


def experiment_of(name: str) -> str:
    """Return the experiment in a run's name."""
    return name.partition("-")[2].rpartition("-")[0]


def past_runs(store: Store, names: list[str]) -> list[PastRun]:
    contents = store.objects.read_logs([f"{RUNS}/{name}.jsonl" for name in names])
    return [_parse(name, contents.get(f"{RUNS}/{name}.jsonl", b"")) for name in names]


def last_runs(store: Store, count: int = RECENT) -> list[PastRun]:
    return past_runs(store, run_names(store)[-count:])


def run_called(store: Store, name: str) -> PastRun:
    """Return the run with this name or beginning of a name, the last run of this experiment, or the "latest" run.

    Raises UnknownStep with near misses, AmbiguousName with the candidates.
    """
    names = run_names(store)
    if not names:
        raise UnknownStep(f"nothing was ever run on the store {store.prefix}")
    found = names[-1:] if name == "latest" else [each for each in names if each.startswith(name)]
    found = found or [each for each in names if experiment_of(each) == name][-1:]
    if not found:
        raise UnknownStep(f"no run is called {name!r}; {did_you_mean(name, [*map(experiment_of, names), 'latest'])}")
    if len(found) > 1:
        raise ambiguous(name, found[::-1], "newest first; give more of the name, or --latest")
    return past_runs(store, found)[0]


def _parse(name: str, content: bytes) -> PastRun:
    events: list[dict[str, Any]] = []
    for line in content.splitlines():
        with suppress(BadDocument):  # a line that a killed writer or a full disk cut off
            if isinstance(event := parse_json(line), dict):
                said = cast("dict[str, Any]", event).items()
                events.append({key: value for key, value in said if isinstance(value, NUMBERS.get(key, object))})
    of_run = {event.get("event"): event for event in reversed(events) if "step" not in event}
    began, over = of_run.get("began", {}), of_run.get("ended") or of_run.get("stopped")
    ended = (event for event in events if "step" in event and event.get("event") == "ended")
    steps = Counter(str(event.get("status", "")) for event in ended)
    outcome, about = _outcome(began, over, steps)
    return PastRun(
        name=name,
        experiment=experiment_of(name),
        began=str(began.get("when", "")),
        who=str(began.get("who", "")),
        command=redacted(str(began.get("command", ""))),
        git=str(began.get("git", "")),
        scale=str(began.get("scale", "")),
        outcome=outcome,
        about=about,
        todo=began.get("todo", steps.total()),
        steps=dict(steps),
        seconds=None if over is None else over.get("seconds"),
        dashboard=str(of_run.get("watched", {}).get("dashboard", "")),
        events=events,
    )


def _outcome(began: dict[str, Any], over: dict[str, Any] | None, steps: Mapping[str, int]) -> tuple[Outcome, str]:
    if over is not None and over["event"] == "stopped":
        return Outcome.STOPPED, str(over.get("error", ""))
    if over is not None:
        return (Outcome.FAILED if steps.get("failed") else Outcome.DONE), ""
    try:
        holder = Holder.from_plain(began.get("holder"))
    except BadDocument:
        return Outcome.SILENT, ""
    if holder.is_gone():
        return Outcome.DIED, "its process is gone"
    return (Outcome.RUNNING if holder.is_here() else Outcome.SILENT), str(holder)


def statuses(store: Store, steps: Iterable[ExecutorStep[Any]]) -> list[StepStatus]:
    """Return the statuses of an experiment's steps, in their order. The reads run side by side."""
    every = list(steps)
    found = _Found(store, [step.identity for step in every])
    return [found.status(step.identity, step.name) for step in every]


def status_of(store: Store, identity: str) -> StepStatus:
    """Return the status of one step. The store may know nothing about the step."""
    return _Found(store, [identity]).status(identity)


def store_statuses(store: Store, inventory: Inventory | None = None) -> list[StepStatus]:
    """Return the status of every step that runs, died or failed. ``ls`` lists the committed ones.

    inventory: of the whole store, if it was just read.
    """
    found = _Found(store, inventory=inventory)
    rows = [found.status(identity) for identity in found.identities]
    failed = [row.identity for row in rows if row.status is AttemptStatus.FAILED]
    over = found.made_since(failed)
    with suppress(CorruptRecord):  # then nobody knows which failures are over
        over |= _left_out_since(store, failed) if failed else set[str]()
    return [
        row
        for row in rows
        if row.status not in (AttemptStatus.COMMITTED, AttemptStatus.ABSENT) and row.identity not in over
    ]


def _left_out_since(store: Store, failed: list[str]) -> set[str]:
    """Return the failed steps that the last whole run of their experiment did not need any more."""
    runs = sorted((run for run in read_runs(store) if run.needs.experiment), key=_moment)
    last = {run.needs.experiment: _moment(run) for run in runs if run.needs.whole}  # last whole run, by experiment
    needed = {identity: [run for run in runs if identity[:SHORT] in run.needs.identities] for identity in failed}
    return {
        identity
        for identity, by in needed.items()
        if by and all(last.get(run.needs.experiment, "") > _moment(by[-1]) for run in by)
    }


def _moment(run: Run) -> str:
    """Return the time when the run began, from its name."""
    return run.name.partition("-")[0]


def _queued(store: Store) -> dict[str, StepStatus]:
    """Return, by identity, the steps that the latest runs have queued and no worker has begun."""
    found: dict[str, StepStatus] = {}
    for run in last_runs(store):
        latest = {event["identity"]: event for event in run.events if "identity" in event}
        for identity, event in latest.items() if run.outcome is Outcome.RUNNING else ():
            if event.get("event") == "queued":
                detail = f"waiting for {event.get('wants', 'a worker')} since {event.get('when', '')}: {run.who}"
                step = str(event.get("step", ""))
                found[identity] = StepStatus(step=step, identity=identity, status=AttemptStatus.QUEUED, detail=detail)
    return found


class _Found:
    def __init__(self, store: Store, identities: list[str] | None = None, inventory: Inventory | None = None) -> None:
        """identities: None for every step that was ever begun or waits for a worker. inventory: None to read one."""
        self.prefix, self.queued = store.prefix, _queued(store)
        inventory = inventory if inventory is not None else Inventory(store, identities, claims=True)
        self.identities = sorted({*inventory.known, *self.queued}) if identities is None else identities
        self.records, self.claims, self.corrupt = inventory.records, inventory.claims, inventory.damage
        self.ends = inventory.ends
        self.failures = store.objects.read_many([f"{end.attempt}/{FAILURE}" for end in self.ends.values()])

    def name_of(self, identity: str) -> str:
        """Return the step's name for people. If only a claim is left, the label is in its form for paths."""
        if identity in self.records:
            return self.records[identity].name
        if identity in self.queued:
            return self.queued[identity].step
        begun = self.claims.get(identity) or self.ends.get(identity)
        attempt = parse_attempt(begun.attempt) if begun is not None else None
        return attempt.name if attempt is not None else identity[:12]

    def made_since(self, failed: Iterable[str]) -> set[str]:
        """Return the failed steps whose name (op/label) was tried later under another identity: the step was changed.

        Tries count in seconds. If two fall into one second, the successful one counts as the later one.
        """
        tries = {each: (end.when, False) for each, end in self.ends.items()}
        tries |= {each: (record.provenance.ended[:19], True) for each, record in self.records.items()}
        tries |= {each: (claim.since[:19], False) for each, claim in self.claims.items()}
        latest: dict[str, tuple[str, bool]] = {}
        for identity, tried in tries.items():
            name = self.name_of(identity)
            latest[name] = max(latest.get(name, tried), tried)
        return {identity for identity in failed if tries[identity] < latest[self.name_of(identity)]}

    def status(self, identity: str, name: str = "") -> StepStatus:
        name = name or self.name_of(identity)
        standing, detail, log = self._standing(identity)
        if identity in self.queued and standing not in (AttemptStatus.RUNNING, AttemptStatus.CORRUPT):
            return replace(self.queued[identity], step=name)
        return StepStatus(step=name, identity=identity, status=standing, detail=detail, log=log)

    def _standing(self, identity: str) -> tuple[AttemptStatus, str, str]:
        claim, record, end = self.claims.get(identity), self.records.get(identity), self.ends.get(identity)
        log = "" if (begun := claim or end) is None else f"{begun.attempt}/{LOG}"
        if identity in self.corrupt:
            return AttemptStatus.CORRUPT, self.corrupt[identity], log
        if claim is not None:
            who = f"{claim.holder} since {claim.since}"
            if claim.holder.is_gone():
                return AttemptStatus.DEAD, f"{who}: its process is gone, the next run takes over", log
            return AttemptStatus.RUNNING, f"{who} {claim.progress}".rstrip(), log
        if record is not None:
            made = record.provenance
            took, size = write_duration(made.seconds), write_bytes(record.bytes)
            detail = f"{made.ended} by {made.who}, {took}, {size}: {record.attempt}"
            return AttemptStatus.COMMITTED, detail, f"{record.attempt}/{LOG}"
        if end is not None and (failure := self.failures.get(f"{end.attempt}/{FAILURE}")) is not None:
            failed = parse_failure(failure, f"{self.prefix}/{end.attempt}/{FAILURE}")
            return (AttemptStatus.STOPPED if failed.stopped else AttemptStatus.FAILED), failed.describe(), log
        collected = end is not None and end.how is How.COLLECTED
        return AttemptStatus.ABSENT, end.why if end is not None and collected else "never built", ""


def print_steps(console: Console, steps: list[StepStatus], *, every: bool, identities: bool = False) -> None:
    """Print steps by status. Like steps that need no attention fold into one line unless ``every``.

    identities: print a column of identities.
    """

    def likeness(step: StepStatus) -> tuple[AttemptStatus, str]:
        return step.status, step.step.split("/")[0] if step.status in UNREMARKABLE and not every else step.identity

    ordered = sorted(steps, key=lambda step: list(AttemptStatus).index(step.status))
    rows: list[list[Text | str]] = []
    for first, *more in folded(grouped((likeness(step), step) for step in ordered).values()):
        name, detail = first.step, first.detail
        if more:
            name = f"{name.split('/')[0]}/… × {1 + len(more)}"
            if first.status is AttemptStatus.COMMITTED:
                detail = f"the last {max(each.detail for each in (first, *more))[:19]}"
        rows.append([styled(first.status), name, first.identity[:12] if identities else "", detail])
    print_table(console, columns_of("| step | identity ?1 | detail"), rows)


def print_runs(console: Console, runs: list[PastRun]) -> None:
    """Print runs, newest first."""
    rows: list[list[Text | str]] = []
    for run in reversed(runs):
        steps = [f"{count} {status}" for status, count in run.steps.items()]
        if (left := run.todo - sum(run.steps.values())) > 0:
            steps.append(f"{left} to go")
        about = ", ".join(filter(None, [*steps, run.about]))
        took = "" if run.seconds is None else f"{run.seconds:,.0f}"
        who = run.who.partition(" ")[0]
        rows.append([run.name, run.scale, run.began[:16], who, styled(run.outcome), took, about])
    print_table(console, columns_of("run | scale ?4 | began ?1 | by ?2 | outcome | >seconds ?3 | steps"), rows)


def print_events(console: Console, run: PastRun) -> None:
    """Print the events of one run."""
    say(console, run.name, "bold")
    say(console, f"{run.who}  git {run.git[:12] or 'none'}  {run.command}", "dim")
    say(console, f"{run.outcome} {run.about}".rstrip(), "dim")
    rows: list[list[Text | str]] = []
    for event in (event for event in run.events if "step" in event):
        status = str(event.get("status", "")) if event.get("event") == "ended" else str(event.get("event", ""))
        seconds = f"{event.get('seconds', 0.0):,.1f}" if status == "ran" else ""
        detail = str(event.get("error") or event.get("reason", ""))
        rows.append([str(event.get("when", ""))[11:], styled(status), str(event["step"]), seconds, detail])
    print_table(console, columns_of("|  | step | >seconds ?1 |"), rows)
