"""Run a training, or other work of JAX, on the hosts that a step was given: one process on each host."""

from __future__ import annotations

import functools
import itertools
import pickle
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Host

if TYPE_CHECKING:
    from marin.training.process import Listeners, Timings
    from marin.training.spec import Process, TrainingSpec

type Tell = Callable[..., None]  # arguments: the event's name, and its facts by keyword


def train_on(host: Host, *, spec: TrainingSpec, accelerator: bool, listeners: Listeners | None = None) -> Timings:
    """Run one host's process of a training. listeners: for the first host, which alone writes and reports metrics."""
    from marin.training.process import Listeners, run_training

    if host.count > 1:
        spec = replace(spec, process=_process(host), tracked=spec.tracked if host.number == 0 else None)
    name, state = f"training-{host.number}.log" if host.number else "training.log", Directory(spec.state)
    with tempfile.TemporaryDirectory(prefix="marin-training-") as scratch:
        log = (state.path if state.is_local else Path(scratch)) / name
        try:
            return run_training(
                spec,
                log,
                listeners or Listeners(),
                accelerator=accelerator,
                environment=host.environment,
                on_stop=host.on_stop,
            )
        finally:
            if (
                not state.is_local and host.number and log.exists()
            ):  # the step's own log holds the output of the first host
                state.write_bytes(name, log.read_bytes())


def with_all_chips[R](ctx: Context, work: Callable[[Tell], R], hear: Tell) -> R:
    """Return the result of ``work``, computed by all chips of the step's accelerator.

    Each host runs the same work in a process of its own; the events and the result of the first host count.
    work: must pickle.
    """
    compute = functools.partial(_compute, work=work, accelerator=ctx.accelerator is not None)
    return ctx.on_hosts(lambda host: compute(host, hear=hear, printed=ctx.log), compute)


def shards_with_all_chips(ctx: Context) -> Any:
    """Return a way for ctx.write_shards to work on one item after another, each with all chips.

    None without an accelerator: ctx.write_shards then makes a task of each item.
    """
    if ctx.accelerator is None:
        return None
    from marin.training.processes import unpickled

    def one_after_another(work: Callable[[Any], Any], items: Sequence[Any], told: Callable[[int, Any], None]) -> None:
        with tempfile.TemporaryDirectory(prefix="marin-shards-") as scratch:

            def hear(_event: str, *, at: int) -> None:
                told(at, unpickled(Path(scratch) / str(at)))

            lead = functools.partial(_each, work, items, scratch)
            follow = functools.partial(_compute, work=functools.partial(_each, work, items, None))
            if items:
                ctx.on_hosts(lambda host: _compute(host, work=lead, hear=hear, printed=ctx.log), follow)

    return one_after_another


def _each(work: Callable[[Any], Any], items: Sequence[tuple[Any, Directory]], answers: str | None, tell: Tell) -> None:
    """Work on one item after another. answers: folder for the results; None on the other hosts, which keep no files."""
    for at, (item, folder) in enumerate(items):
        if answers is None:
            with tempfile.TemporaryDirectory(prefix="marin-aside-") as aside:
                work((item, Directory(aside)))
        else:
            (Path(answers) / str(at)).write_bytes(pickle.dumps(work((item, folder))))
        tell("made", at=at)


def _ignore(*_: object, **__: object) -> None: ...


def _compute(
    host: Host,
    *,
    work: Callable[[Tell], Any],
    hear: Tell = _ignore,
    printed: Tell = _ignore,
    accelerator: bool = True,
) -> Any:
    """Run the work in a process of this host. Each event of the process marks one more part as done."""
    from marin.errors import StepFailed
    from marin.training.child import run_child
    from marin.training.hanging import START_MINUTES, HangWatch
    from marin.training.process import child_environment
    from marin.training.processes import SharedWork, unpickled

    with tempfile.TemporaryDirectory(prefix="marin-host-") as scratch:
        specification, answer = Path(scratch) / "work.pickle", Path(scratch) / "answer.pickle"
        process = _process(host) if host.count > 1 else None
        shared = SharedWork(work=work, process=process, answer=None if host.number else str(answer))
        specification.write_bytes(pickle.dumps(shared))
        hanging, parts = HangWatch(START_MINUTES, None, "part"), itertools.count(1)

        def hear_of(event: str, **facts: Any) -> None:
            hanging.step(next(parts))
            hear(event, **facts)

        run_child(
            specification,
            Path(scratch) / "work.log",
            hear_of,
            printed,
            called="the process of its chips",
            environment=child_environment(accelerator) | dict(host.environment),
            on_stop=host.on_stop,
            hanging=hanging,
            failed=StepFailed,
            keeps=not accelerator and process is None,
        )
        return None if host.number else unpickled(answer)


def _process(host: Host) -> Process:
    from marin.training.spec import Process

    return Process(number=host.number, count=host.count, meeting=host.meeting)
