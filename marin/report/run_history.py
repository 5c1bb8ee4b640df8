"""Past and present runs on a store, from the events that each left: who ran what, how far it came."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, cast

from marin.errors import UnknownStep
from marin.store.documents import BadDocument, parse_json
from marin.store.layout import RUNS
from marin.store.lookup import ambiguous, hint
from marin.store.process import Holder
from marin.store.redaction import redacted
from marin.store.store import Store

RECENT = 8  # runs


class Outcome(StrEnum):
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # by Ctrl-C, a signal or an error
    RUNNING = "running"
    DIED = "died"  # its process is gone without a word
    SILENT = "silent"  # it is on another machine and has not said that it ended


@dataclass(frozen=True, kw_only=True)
class PastRun:
    name: str  # of its events, without the ending
    experiment: str
    began: str
    who: str
    command: str
    git: str
    scale: str
    outcome: Outcome
    about: str  # why it stopped, or who runs it
    todo: int  # how many steps it set out to make
    steps: dict[str, int]  # how many ended how
    seconds: float | None
    dashboard: str  # of the Ray cluster that its steps went to
    events: list[dict[str, Any]]  # as they were written; a line that cannot be read is left out


def run_names(store: Store) -> list[str]:
    """Oldest first: names begin with the time."""
    return [name.removesuffix(".jsonl") for name in store.objects.list(RUNS) if name.endswith(".jsonl")]


def past_runs(store: Store, names: list[str]) -> list[PastRun]:
    contents = store.objects.read_logs([f"{RUNS}/{name}.jsonl" for name in names])
    return [_parse(name, contents.get(f"{RUNS}/{name}.jsonl", b"")) for name in names]


def run_called(store: Store, name: str) -> PastRun:
    """By its name or the beginning of it; by its experiment ("exp1529_mantis") the last; "latest".

    Raises UnknownStep with near misses, AmbiguousName with the candidates.
    """
    names = run_names(store)
    if not names:
        raise UnknownStep(f"nothing was ever run on the store {store.prefix}")
    experiments = {each: experiment_of(each) for each in names}
    found = [each for each in names if each.startswith(name)]
    if name == "latest":
        found = names[-1:]
    elif not found:
        found = [each for each in names if experiments[each] == name][-1:]
    if not found:
        raise UnknownStep(f"no run is called {name!r}; {hint(name, [*experiments.values(), 'latest'])}")
    if len(found) > 1:
        raise ambiguous(name, found[::-1], "newest first; give more of the name, or --latest")
    return past_runs(store, found)[0]


def experiment_of(name: str) -> str:
    """The experiment that a run's name tells of."""
    return name.partition("-")[2].rpartition("-")[0]


def _parse(name: str, content: bytes) -> PastRun:
    events: list[dict[str, Any]] = []
    for line in content.splitlines():
        with suppress(BadDocument):  # cut off when its writer was killed, or a full disk
            event = parse_json(line)
            if isinstance(event, dict):
                events.append(_with_numbers(cast("dict[str, Any]", event)))
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


def _with_numbers(event: dict[str, Any]) -> dict[str, Any]:
    """Without what should be a number and is none."""
    kinds = {"todo": int, "seconds": int | float}
    return {name: value for name, value in event.items() if isinstance(value, kinds.get(name, object))}


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


class QueuedStep(NamedTuple):
    step: str
    detail: str  # for what it waits, since when, whose run it is


def queued_steps(store: Store) -> dict[str, QueuedStep]:
    """By identity, what runs that are under way have sent and no worker has yet. Of the latest runs."""
    found: dict[str, QueuedStep] = {}
    for run in past_runs(store, run_names(store)[-RECENT:]):
        latest = {event["identity"]: event for event in run.events if "identity" in event}
        for identity, event in latest.items() if run.outcome is Outcome.RUNNING else ():
            if event.get("event") == "queued":
                detail = f"waiting for {event.get('wants', 'a worker')} since {event.get('when', '')}: {run.who}"
                found[identity] = QueuedStep(str(event.get("step", "")), detail)
    return found
