"""Attempts as plain Ray tasks; shards of a step as tasks below it."""

# pyright: basic

from __future__ import annotations

import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from marin.errors import CorruptRecord, MarinError, PlanError
from marin.executor.attempt import attempt
from marin.executor.backends.backend import Watcher
from marin.executor.backends.cluster import Cluster, join, named_cluster, start_private
from marin.executor.backends.item_errors import explained, portable
from marin.executor.backends.step_pickles import Unpacked, addressed, packed
from marin.executor.job import Ending, Job, Outcome
from marin.executor.log_capture import captured
from marin.executor.verbosity import log_as_asked
from marin.fingerprint.observation.listening import current, observing
from marin.fingerprint.observation.observation import Observation, Scope
from marin.steps.resources import Resources
from marin.steps.step import ExecutorStep
from marin.store.layout import lease_name
from marin.store.lease import LOOK_SECONDS, State, parse_lease
from marin.store.store import open_store

CRASH_RETRIES = 3
MAP_RETRIES = 2  # of an item whose worker died
LOOK_AT, REMOTE_LOOK_SECONDS = 64, 2.0  # leases at a time, and between looks where each costs a request
STOP_SECONDS = 5.0  # for steps to hear that they are to stop


class RayBackend:
    """address: of a running cluster ("auto" for the one on this machine, "local" for a private one); "" for that of
    RAY_ADDRESS, or a private one. on_message: hears where the dashboard is.

    A worker that dies (out of memory, killed, node lost) is not the step's failure: the attempt is made
    again, up to CRASH_RETRIES times, and the dead attempt's lease is taken over.
    """

    def __init__(self, address: str = "", on_message: Callable[[str], None] = lambda _: None) -> None:
        self.address, self.on_message = address, on_message
        self.cluster: Cluster | None = None
        self.running: dict[Any, Job] = {}
        self.queue: deque[Job] = deque()  # of what runs, what is not known to have begun
        self.next_look = 0.0
        self.crashes: dict[str, int] = {}
        self.crashed: list[Job] = []  # to be sent again
        self.tasks: dict[bool, Any] = {}  # by isolated; exported to the cluster once

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        self.watcher = watcher
        # Ray warns about (and by default will change) how CPU tasks see accelerators; we set nothing ourselves.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # What Ray prints of dead workers and nodes, in pages: ours is said in a line, and theirs is in Ray's logs.
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
        named, told = named_cluster(self.address), signal.getsignal(signal.SIGTERM)
        try:
            self.cluster = start_private() if named is None else join(named)
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, told)  # Ray has set its own, which ends with code 15
        if said := self.cluster.describe():
            self.on_message(said)
        self._check_capacity(steps, self.cluster.nodes)
        import ray

        parcels = ray.put(packed(steps))

        def run(job: Job) -> Outcome:
            return run_attempt(job, parcels)

        self.tasks = {False: ray.remote(max_retries=0)(run), True: ray.remote(max_retries=0, max_calls=1)(run)}

    def _check_capacity(self, steps: list[ExecutorStep[Any]], nodes: list[dict[str, Any]]) -> None:
        available = [node["Resources"] for node in nodes if node["Alive"]]
        for step in steps:
            wanted = flat(step.resources)
            if not any(all(have.get(name, 0) >= amount for name, amount in wanted.items()) for have in available):
                largest = {name: max(have.get(name, 0) for have in available) for name in wanted}
                raise PlanError(
                    f"{step.name} asks one node for {amounts(wanted)}; the largest of {len(available)} node(s) has "
                    f"{amounts(largest)}. Ask for less, or give --address of a cluster that has it"
                )

    def submit(self, job: Job) -> None:
        options = {**ray_options(job.step.resources), "name": job.step.name}
        self.running[self.tasks[job.step.isolated].options(**options).remote(addressed(job))] = job
        self.queue.append(job)
        self.watcher.queued(job, amounts(flat(job.step.resources)))

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        if self.cluster is not None:
            self.cluster.must_live()
            if self.crashed and self.cluster.answers():  # else the cluster has died, and not only a worker
                for job in self.crashed:
                    self.submit(job)
                self.crashed.clear()
        if not self.running:
            time.sleep(seconds)  # every step is held by another driver
            return []
        done, _ = ray.wait(list(self.running), num_returns=1, timeout=seconds)
        if not done:
            self._look_for_attempts()
        ended: list[tuple[Job, Outcome]] = []
        for reference in done:
            job = self.running.pop(reference)
            try:
                ended.append((job, ray.get(reference)))
            except RayTaskError as error:  # attempt() raises nothing: the worker could not even unpack the step
                line = f"the worker could not take it: {error.cause}"
                ended.append((job, Outcome(ending=Ending.FAILED, error=line, details=str(error))))
            except RayError as error:
                crashes = self.crashes[job.step.identity] = self.crashes.get(job.step.identity, 0) + 1
                if crashes <= CRASH_RETRIES:
                    self.crashed.append(job)
                else:
                    line = f"its worker died {crashes} times; the last time: {str(error).splitlines()[0]}"
                    ended.append((job, Outcome(ending=Ending.FAILED, error=line, details=str(error))))
        return ended

    def _look_for_attempts(self) -> None:
        """An attempt begins with its lease. Asks for those of the jobs that were sent first, in turn."""
        if time.monotonic() < self.next_look:
            return
        waiting = set(map(id, self.running.values()))
        self.queue = deque(job for job in self.queue if id(job) in waiting)
        looked_at = [self.queue.popleft() for _ in range(min(LOOK_AT, len(self.queue)))]
        if not looked_at:
            return
        objects = open_store(looked_at[0].prefix).objects
        self.next_look = time.monotonic() + (REMOTE_LOOK_SECONDS if objects.is_remote else LOOK_SECONDS)
        leases = objects.read_many([lease_name(job.step.identity) for job in looked_at])
        for job in looked_at:
            if _has_begun(job, leases.get(lease_name(job.step.identity))):
                self.watcher.began(job)
            else:
                self.queue.append(job)

    def stop(self) -> None:
        import ray

        self.next_look = 0.0
        with suppress(MarinError):
            self._look_for_attempts()  # what has just begun was running, too
        references = list(self.running)
        self.running.clear()
        self.queue.clear()
        self.crashed.clear()
        if references and ray.is_initialized():
            # First as Ctrl-C, so that attempts give their leases back: only a host sees that its own workers are gone.
            for reference in references:
                ray.cancel(reference)
            _, deaf = ray.wait(references, num_returns=len(references), timeout=STOP_SECONDS)
            for reference in deaf:
                ray.cancel(reference, force=True)
        if self.cluster is not None:
            self.cluster.leave()
            self.cluster = None


def ray_options(resources: Resources) -> dict[str, Any]:
    """num_cpus, memory and custom resources of one task, as Ray wants them."""
    options: dict[str, Any] = {"num_cpus": resources.cpus, "resources": {}}
    if resources.memory_gib:
        options["memory"] = int(resources.memory_gib * 2**30)
    if resources.accelerator is not None:
        options["resources"] = {f"{resources.accelerator.name}-head": resources.accelerator.slices}
    return options


def flat(resources: Resources) -> dict[str, float]:
    """The same by name, as Ray describes its nodes."""
    options = ray_options(resources)
    memory = {"memory": options["memory"]} if "memory" in options else {}
    return {"CPU": options["num_cpus"], **options["resources"], **memory}


def _has_begun(job: Job, lease: bytes | None) -> bool:
    """Unless it is the lease of somebody who is gone."""
    if not lease:
        return False
    try:
        held = parse_lease(lease, lease_name(job.step.identity))
    except CorruptRecord:  # the attempt will say so
        return False
    return held.state is State.HELD and not job.may_take_over(held)


def amounts(resources: dict[str, float]) -> str:
    """ "4 CPU, 1 v4-8-head, 16 GiB memory" """
    parts = [f"{amount:g} {name}" for name, amount in resources.items() if name != "memory"]
    return ", ".join(
        [*parts, *(f"{resources[name] / 2**30:,.1f} GiB {name}" for name in resources if name == "memory")]
    )


_unpacked: dict[Any, Unpacked] = {}  # of one driver: a worker has but one


def run_attempt(job: Job, parcels: Any) -> Outcome:
    """parcels: reference to those of the driver's steps."""
    import ray

    log_as_asked()
    if parcels not in _unpacked:
        _unpacked[parcels] = Unpacked(ray.get(parcels))
    return attempt(_unpacked[parcels].job(job), map_on_ray, captured)


def map_on_ray(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """One plain task per item; a single item is not worth a task."""
    if len(items) <= 1:
        return [work(item) for item in items]
    import ray
    from ray.exceptions import RayError

    here = current()
    scope = here.scope if here is not None else Scope()

    def call(item: Any) -> tuple[Any, Observation]:
        try:
            with observing(scope) as seen:
                result = work(item)
        except Exception as error:
            raise portable(error) from None
        return result, seen

    task = ray.remote(max_retries=MAP_RETRIES)(call)
    references = [task.remote(item) for item in items]
    try:
        answers = ray.get(references)
    except RayError as error:
        for reference in references:  # nobody wants the others any more
            ray.cancel(reference)
        cause = explained(error)
        raise cause from cause.__cause__
    if here is not None:
        for _, seen in answers:
            here.join(seen)
    return [result for result, _ in answers]
