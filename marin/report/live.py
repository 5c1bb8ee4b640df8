"""Live progress of a run. On a terminal: long steps with their progress, and a count of the short ones.

Elsewhere: one line a minute, one for each failure, and one for the beginning and end of each long step.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from marin.executor.run_results import Event, Status, StepResult
from marin.plan.plan import Action, Plan
from marin.report.running import RunningStep, whole_seconds
from marin.report.words import MARKS, describe_facts, grouped, styled
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, listed, write_duration

LONG = 10.0  # seconds; a shorter step is only counted
SHOWN_AFTER = 3.0  # seconds after which a running step has a line of its own
LOOK, REMOTE_LOOK = 1.0, 5.0  # seconds between looks; each reads a claim, and the new metrics of a training
MINUTE = 60.0
FEW = 3  # waiting steps that are named
BAR_WIDTH = 24  # characters of a training's loss
BESIDE = 8  # lines of a terminal that are not for running steps
SETBACKS = {Event.PREEMPTED: "preempted", Event.RETRIED: "tried again", Event.HELD: "waiting"}


@dataclass
class _Operator:
    total: int
    ended: int = 0
    seconds: float = 0.0
    last_time: float | None = None  # of its step that ended last


class Progress:
    """Progress of one run. Call it with each event. Use as a context manager.

    A thread of its own reads the store, so that a slow store never delays the run. minute: seconds between two lines
    without a terminal.
    """

    def __init__(self, console: Console, plan: Plan, *, minute: float = MINUTE) -> None:
        self._console, self._plan = console, plan
        steps = [decision.step for decision in plan.having(Action.RUN, Action.RECHECK, Action.ALIAS)]
        self._total, self._ended, self._failed = len(steps), 0, 0
        self._operators = {op: _Operator(count) for op, count in Counter(step.op for step in steps).items()}
        self._running: dict[str, RunningStep] = {}  # by identity
        self._waiting: dict[str, tuple[Event, StepResult]] = {}  # by identity; HELD: by another run
        self._said_to_wait: set[str] = set()  # identities whose waiting was printed, so that their end is printed too
        self._began = time.monotonic()
        self._is_live = console.is_terminal and not console.is_dumb_terminal
        self._every = (REMOTE_LOOK if plan.store.objects.is_remote else LOOK) if self._is_live else minute
        self._live = Live(get_renderable=self._render, console=console, auto_refresh=False, transient=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="marin-live", daemon=True)

    def __enter__(self) -> Progress:
        if self._is_live:
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._live.stop()

    def __call__(self, event: Event, result: StepResult) -> None:
        step, identity = result.step, result.step.identity
        before = self._running.pop(identity, None)
        self._waiting.pop(identity, None)
        if event is Event.ENDED:
            self._end(result, before)
        elif event is Event.STARTED:
            self._running[identity] = began = RunningStep(step, self._plan.store, self.last_time(step))
            if not self._is_live and self._is_long(began):
                self._say(Text(f"▸ {step.name} began"))
        elif event is not Event.STOPPED:
            self._waiting[identity] = event, result
        if event is Event.HELD:
            self._said_to_wait.add(identity)
        if event in SETBACKS:
            why = result.reason if event is Event.HELD else result.error
            self._say(Text.assemble((SETBACKS[event], "yellow"), f" {step.name}: {why}"))

    def last_time(self, step: ExecutorStep[Any]) -> float | None:
        """Return the seconds that the step took before, or that a step of its operator took in this run."""
        record = self._plan.of(step).record or self._plan.snapshot.last_outputs.get(step)
        return record.provenance.seconds if record is not None else self._operators[step.op].last_time

    def _is_long(self, running: RunningStep) -> bool:
        return running.trains or max(running.elapsed, running.last_time or 0.0) >= LONG

    def _end(self, result: StepResult, running: RunningStep | None) -> None:
        operator = self._operators[result.step.op]
        self._ended += 1
        operator.ended += 1
        operator.seconds += result.seconds
        if result.status is Status.RAN:
            operator.last_time = result.seconds
        if result.status is Status.FAILED:
            self._failed += 1
            self._say(self._line(result, result.error, "red"))
        elif result.status is Status.RAN and (
            result.seconds >= LONG or (running is not None and self._is_long(running))
        ):
            facts = f"  {describe_facts(result.record.facts)}" if result.record is not None else ""
            self._say(self._line(result, f"{write_duration(result.seconds)}{facts}", "dim"))
        elif result.step.identity in self._said_to_wait or (self._is_live and operator.total == 1):
            after = write_duration(result.seconds) if result.status is Status.RAN else result.reason
            self._say(self._line(result, after, "dim"))
        elif self._is_live and operator.ended == operator.total:
            took = f"  {write_duration(operator.seconds)}" if operator.seconds else ""
            self._say(Text.assemble(("· ", "green"), f"{result.step.op}: {operator.total}", (took, "dim")))

    def _line(self, result: StepResult, after: str, style: str) -> Text:
        about = f" [{self._ended}/{self._total}] {result.step.name}  "
        return Text.assemble(styled(result.status, MARKS[result.status]), about, (after, style))

    def _say(self, line: Text) -> None:
        """Print a line that stays."""
        if self._is_live:
            self._console.print(line, highlight=False, soft_wrap=True)
        else:  # the same as rich prints, in a tenth of the time
            self._console.file.write(f"{line.plain}\n")
            self._console.file.flush()

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            for running in self._shown():
                running.look()
                for finding in running.ills():
                    self._say(Text.assemble(("ill", "yellow"), f" {running.step.name}: {finding.sentence()}"))
            if self._is_live:
                self._live.refresh()
            else:
                shown = [(each.step.name, each.how_far(), each.measured()) for each in self._shown()]
                long = [" ".join(filter(None, parts)) for parts in shown]
                with suppress(ValueError, OSError):  # the reader of this output has gone
                    self._say(
                        Text(" · ".join([f"{time.strftime('%H:%M:%S')} {self._tally()}", *long, *self._counts()]))
                    )

    def _shown(self) -> list[RunningStep]:
        """Return the running steps with a line of their own, trainings first."""
        found = [each for each in list(self._running.values()) if each.trains or each.elapsed >= SHOWN_AFTER]
        return sorted(found, key=lambda each: not each.trains)

    def _counts(self) -> list[str]:
        """Return "filter 12 of 25" for each operator of several steps that has begun and not ended."""
        active = Counter(each.step.op for each in list(self._running.values()))
        return [
            f"{op} {each.ended} of {each.total}"
            for op, each in self._operators.items()
            if each.total > 1 and (each.ended or active[op]) and each.ended < each.total
        ]

    def _tally(self) -> str:
        failed = f", {self._failed} failed" if self._failed else ""
        return f"{self._ended}/{self._total} steps, {whole_seconds(time.monotonic() - self._began)}{failed}"

    def _render(self) -> Group:
        shown, lines = self._shown(), list[Text]()
        room = max(self._console.height - BESIDE, 4)
        for index, each in enumerate(shown):
            if len(lines) + 1 + each.trains > room:
                lines.append(Text(f"▸ and {counted(len(shown) - index, 'step')} more", style="cyan"))
                break
            lines.append(Text.assemble(("▸", "cyan"), f" {each.step.name}  ", (each.how_far(), "dim")))
            if measured := each.measured(BAR_WIDTH):
                lines.append(Text(f"    {measured}"))
        for line in lines:  # a line wider than the terminal would displace the others
            line.no_wrap, line.overflow = True, "ellipsis"
        counts = self._counts()
        return Group(
            *lines, *([Text(" · ".join(counts))] if counts else []), *self._waits(), Text(self._tally(), "bold")
        )

    def _waits(self) -> list[Text]:
        waiting = list(self._waiting.values())
        held = [result for event, result in waiting if event is Event.HELD]
        lines = [Text(f"… {result.step.name} waits: {result.reason}", style="yellow") for result in held]
        queued = grouped((result.wants, result.step.name) for event, result in waiting if event is not Event.HELD)
        for wants, names in queued.items():
            who = listed(names, FEW) if len(names) <= FEW else f"{len(names)} steps"
            lines.append(Text(f"… {who}: waiting for {wants}{' each' if len(names) > 1 else ''}", style="dim"))
        return lines
