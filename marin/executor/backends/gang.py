"""One attempt on several hosts: its own process on the first, a task on every other one. All share one fate."""

# pyright: basic

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from marin.errors import MarinError, Preempted, ProcessAborted, ProcessLost, StepFailed, TrainingFailed
from marin.executor.backends.private_ray import free_ports
from marin.executor.failures import explained, first_line, portable
from marin.executor.signals import SIGNALS
from marin.executor.verbosity import log_as_asked
from marin.fingerprint.observation.listening import current, observing
from marin.fingerprint.observation.observation import Observation, Scope
from marin.fingerprint.of_step import executed
from marin.steps.resources import Accelerator, Host

LOOK_SECONDS, NODES_SECONDS = 1.0, 5.0  # between two looks at the other tasks, and at their nodes
GRACE_SECONDS = 5.0  # for all hosts to report errors: among those that fail together, one knows the cause
END_SECONDS = 30.0  # for killed tasks to end


def is_there(group: Any) -> bool:
    """Return whether every host of a placement group is reserved and alive."""
    from ray.util.placement_group import placement_group_table

    return placement_group_table(group).get("state") == "CREATED"


class Gang(Struct, frozen=True, kw_only=True):
    """The hosts of one attempt.

    address: of the first one. places: by host, a PlacementGroupSchedulingStrategy of Ray with one bundle of a placement
    group. options: of a task that takes a host's whole reservation.
    """

    name: str
    accelerator: Accelerator
    address: str
    places: tuple[Any, ...]
    options: Mapping[str, Any]

    def run[R](self, lead: Callable[[Host], R], follow: Callable[[Host], object]) -> R:
        """Run as Context.on_hosts does."""
        import ray

        hosts = self._hosts()
        task = ray.remote(max_retries=0, max_calls=1)(observed(functools.partial(_follow, follow)))
        others = {
            task.options(
                **self.options, name=f"{self.name} {host}", scheduling_strategy=self.places[host.number]
            ).remote(host): host
            for host in hosts[1:]
        }
        watch = _Watch(others, [place.placement_group for place in self.places])
        try:
            result = lead(dataclasses.replace(hosts[0], on_stop=watch.stops))
            watch.wait()
        except Exception as error:
            watch.wait(GRACE_SECONDS)
            raise watch.cause(error, hosts[0]) from error
        finally:
            watch.end()
        if watch.failures:
            raise watch.cause(None, hosts[0])
        if (here := current()) is not None:
            for seen in watch.seen:
                here.join(seen)
        return result

    def _hosts(self) -> list[Host]:
        count = len(self.places)
        if count == 1:
            return [Host(number=0, count=1, meeting="")]
        [port] = free_ports(1, self.address)  # nothing listens there until the training has its imports
        meeting = f"{self.address}:{port}"
        return [
            Host(number=number, count=count, meeting=meeting, environment=self._environment(number))
            for number in range(count)
        ]

    def _environment(self, number: int) -> dict[str, str]:
        """Return the variables by which TPU slices find each other."""
        if not self.accelerator.is_tpu or self.accelerator.slices == 1:
            return {}
        from ray.util.tpu import get_tpu_coordinator_env_vars

        at = number // self.accelerator.slice_hosts
        return get_tpu_coordinator_env_vars(self.address, self.accelerator.slices, at)


def observed[T, R](work: Callable[[T], R]) -> Callable[[T], tuple[R, Observation]]:
    """Return work as a task for a worker: it returns its reads too, and raises errors that the step can understand."""
    here = current()
    scope = here.scope if here is not None else Scope()

    def call(given: T) -> tuple[R, Observation]:
        try:
            with observing(scope, keeps=executed().keeps) as seen:
                return work(given), seen
        except Exception as error:
            raise portable(error) from None

    return call


def _follow(follow: Callable[[Host], object], host: Host) -> None:
    """Run the follower's part, in the task on another host."""
    log_as_asked()
    try:
        with SIGNALS.heard_by_worker():
            follow(host)
    except KeyboardInterrupt:
        if not SIGNALS.terminated:
            raise
        raise Preempted("preempted: it was told to end (SIGTERM)") from None


class _Watch:
    """Watches the tasks on the other hosts, in a thread."""

    def __init__(self, others: dict[Any, Host], groups: list[Any]) -> None:
        self.seen: list[Observation] = []
        self.failures: dict[Host, BaseException] = {}
        self._running, self._groups = others, {group.id: group for group in groups}.values()
        self._stops: list[Callable[[], object]] = []
        self._until: float | None = None  # when it stops waiting for the others
        self._stopped = False  # whether it has ended this host's work, which then does not know why
        self._changed = threading.Lock()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def stops(self, call: Callable[[], object]) -> None:
        """Register a call that ends the work of this host."""
        with self._changed:
            self._stops.append(call)
            late = self._stopped
        if late:
            call()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until all tasks have ended, at most this long."""
        if seconds is not None:
            self._until = time.monotonic() + seconds
        self._thread.join()

    def cause(self, own: Exception | None, here: Host) -> BaseException:
        """Return the failure that caused all other failures."""
        failures: dict[Host, BaseException] = dict(self.failures)
        if own is not None and not (self._stopped and failures):
            failures = {here: own, **failures}
        return reason(failures)

    def end(self) -> None:
        """Kill the tasks that still run."""
        import ray

        self._until = 0.0
        self._thread.join()
        for reference in self._running:
            ray.cancel(reference, force=True)
        if self._running:
            ray.wait(list(self._running), num_returns=len(self._running), timeout=END_SECONDS)

    def _look(self) -> None:
        import ray

        look_at_nodes = time.monotonic() + NODES_SECONDS
        while self._running and (self._until is None or time.monotonic() < self._until):
            for reference in ray.wait(list(self._running), timeout=LOOK_SECONDS)[0]:
                self._ended(reference)
            if time.monotonic() >= look_at_nodes:
                self._look_at_nodes()
                look_at_nodes = time.monotonic() + NODES_SECONDS
            if self.failures and self._until is None:
                self._until = time.monotonic() + GRACE_SECONDS
        if self.failures:
            with self._changed:
                self._stopped, calls = True, list(self._stops)
            for call in calls:
                call()

    def _ended(self, reference: Any) -> None:
        import ray
        from ray.exceptions import NodeDiedError, RayError, RayTaskError

        host = self._running.pop(reference)
        try:
            self.seen.append(ray.get(reference)[1])
        except RayTaskError as error:
            self.failures[host] = explained(error)
        except NodeDiedError as error:
            self.failures[host] = Preempted(f"preempted: its machine is gone: {first_line(error)}")
        except RayError as error:
            self.failures[host] = ProcessLost(f"its worker died: {first_line(error)}")

    def _look_at_nodes(self) -> None:
        """Report a lost machine. A task whose machine was lost before the task began would wait forever."""
        if not all(map(is_there, self._groups)):
            for host in self._running.values():
                self.failures.setdefault(host, Preempted("preempted: a machine that was reserved is gone"))


def reason(failures: Mapping[Host, BaseException]) -> BaseException:
    """Return the causing failure with its host, followed by the errors of the other hosts.

    Other hosts fail with a broken connection (TrainingFailed, or StepFailed outside training), and JAX aborts a process
    that has lost the first host. A failure that explains itself therefore comes before both.
    """
    host, error = min(failures.items(), key=lambda each: _precedence(each[1]))
    if host.count == 1 or not isinstance(error, MarinError):
        return error
    others = [
        f"\n{other}: {type(said).__name__}: {first_line(said)}" for other, said in failures.items() if other != host
    ]
    return type(error)(f"{host}: {error}{''.join(others)}")


def _precedence(error: BaseException) -> int:
    if isinstance(error, Preempted):
        return 0
    if isinstance(error, ProcessAborted):
        return 3
    if isinstance(error, ProcessLost):
        return 1
    return 2 if isinstance(error, MarinError) and not isinstance(error, TrainingFailed | StepFailed) else 4
