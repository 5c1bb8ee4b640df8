"""A tiny operator family for engine tests, and a way to run them that says which steps ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from marin import Artifact, Checkpoint, Context, Directory, ExecutorStep, execution, since, value
from marin.executor.backends.inline import InlineBackend
from marin.executor.job import RunSettings
from marin.executor.run_results import Run
from marin.executor.scheduler import Scheduler
from marin.plan.plan import OnDrift, Plan, make_plan
from marin.steps.artifact import artifact_from
from marin.steps.experiment import Experiment
from marin.store.files.verify import EVERY_BYTE
from marin.store.layout import CLAIMS, ENDS, attempt_directory
from marin.store.record import Record
from marin.store.store import Store


class Blob(Artifact, kind="toy-blob"):
    bytes: int


class Write(ExecutorStep[Blob], op="toy-write"):
    text: str
    encoding: str = since(2, default="utf-8")
    comment: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_bytes("text.txt", self.text.encode(self.encoding))
        return Blob(bytes=len(self.text))


class Join(ExecutorStep[Blob], op="toy-join"):
    parts: tuple[ExecutorStep[Blob], ...]
    separator: str = " "

    def run(self, ctx: Context) -> Blob:
        texts = [ctx[part].directory.read_text("text.txt") for part in self.parts]
        ctx.out.write_text("text.txt", self.separator.join(texts))
        return Blob(bytes=sum(map(len, texts)))


class Fail(ExecutorStep[Blob], op="toy-fail"):
    source: ExecutorStep[Blob]
    switch: str = execution(default="")  # path of a file: while it exists, run() works

    def run(self, ctx: Context) -> Blob:
        if self.switch and Path(self.switch).exists():
            ctx.out.write_text("text.txt", "fixed")
            return Blob(bytes=5)
        ctx.out.write_text("half.txt", "half")
        raise ValueError("the disk of dreams is empty")


class Outside(ExecutorStep[Blob], op="toy-outside"):
    """Copies a file that lies outside of the store."""

    path: str

    def outside(self) -> dict[str, str]:
        return {self.path: Path(self.path).read_text()}

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", Path(self.path).read_text())
        return Blob(bytes=1)


class Count(ExecutorStep[Checkpoint], op="toy-count"):
    """Counts to ``end`` and publishes a milestone on the way."""

    end: int

    def at(self, step: int) -> Milestone:
        return Milestone(of=self, step=step, label=f"{self.label}@{step}")

    def run(self, ctx: Context) -> Checkpoint:
        for step in range(1, self.end + 1):
            ctx.progress(step, self.end, "steps")
            if step in ctx.milestones:
                kept: Directory = ctx.state / f"step-{step}"
                kept.write_text("count.txt", str(step))
                ctx.publish(self.at(step), checkpoint(step), kept)
        ctx.out.write_text("count.txt", str(self.end))
        return checkpoint(self.end)


class Milestone(ExecutorStep[Checkpoint], op="toy-milestone"):
    of: Count
    step: int

    @property
    def producer(self) -> Count:
        return self.of

    def run(self, ctx: Context) -> Checkpoint:
        ctx.out.write_text("count.txt", str(self.step))
        return checkpoint(self.step)


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step=step, tokens=step, parameters=1, architecture="counter")


@value("toy-color")
class Color:
    red: int
    names: Mapping[str, float]


def experiment(**results: ExecutorStep[Any]) -> Experiment:
    return Experiment(issue=1, question="Does it run?", results=results)


def planned(store: str, rebuild: tuple[str, ...] = (), on_drift: OnDrift = OnDrift.STOP, **results: Any) -> Plan:
    return make_plan(experiment(**results), Store(store), rebuild=rebuild, on_drift=on_drift, because="a test")


def run(store: str, rebuild: tuple[str, ...] = (), on_drift: OnDrift = OnDrift.STOP, **results: Any) -> Run:
    plan = planned(store, rebuild, on_drift, **results)
    plan.must_not_stop()
    return execute(plan)


def artifact_of(store: Store, record: Record) -> Artifact:
    return artifact_from(record.kind, record.facts, store.output(record))


def attempt_of(step: ExecutorStep[Any]) -> Callable[[int], str]:
    """Return a function that gives the folder of the step's attempt with a number."""
    return lambda number: attempt_directory(step.op, step.label, step.identity, number)


def runs_otherwise(monkeypatch: Any, cls: type[ExecutorStep[Any]], run: Callable[..., Blob]) -> None:
    """Let the same code make other bytes from now on, as if a run in this process had changed its behaviour."""
    monkeypatch.setattr(cls, "run", run)


def execute(plan: Plan, check_inputs: int = EVERY_BYTE, *, keep_going: bool = False) -> Run:
    listener, backend = (lambda *_: None), InlineBackend()
    settings = RunSettings(check_inputs=check_inputs)
    return Scheduler(plan, backend, listener, settings, keep_going=keep_going).execute()


def record_of(prefix: str, step: ExecutorStep[Any]) -> Record:
    """Return the record of a step, which must be committed."""
    record = Store(prefix).record(step.identity)
    assert record is not None
    return record


def forget(prefix: str | Path, step: ExecutorStep[Any]) -> None:
    """Make the store look as if nobody had begun the step; the files of its attempts stay."""
    for folder in (CLAIMS, ENDS):
        for path in (Path(prefix) / folder).glob(f"{step.identity}.*"):
            path.unlink()


def ran(run: Run) -> set[str]:
    """Names of the steps whose run() ended well in this run."""
    return {result.step.name for result in run.results.values() if result.status == "ran"}


def statuses(run: Run) -> dict[str, str]:
    return {result.step.name: str(result.status) for result in run.results.values()}


class Slowly(ExecutorStep[Blob], op="toy-slowly"):
    """Does three pieces of work, each kept in ``state``; breaks after the first while a file is absent."""

    text: str
    switch: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        for piece in range(3):
            name = f"piece-{piece}.txt"
            if not ctx.state.exists(name):
                ctx.state.write_text(name, self.text)
                ctx.out.write_text(f"made-{piece}.txt", "here")
            if not Path(self.switch).exists():
                raise RuntimeError("the power went out")
        pieces = "".join(ctx.state.read_text(f"piece-{piece}.txt") for piece in range(3))
        ctx.out.write_text("text.txt", pieces)
        return Blob(bytes=len(pieces))
