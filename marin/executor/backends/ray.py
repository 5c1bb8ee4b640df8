"""The Ray backend: attempts as plain Ray tasks, and shards of a step as tasks below."""

# pyright: basic

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from marin.errors import MarinError
from marin.executor.attempt import attempt
from marin.executor.backends.backend import Watcher
from marin.executor.backends.cluster import Cluster, join, named_cluster, start_private
from marin.executor.backends.gang import Gang, observed
from marin.executor.backends.inline import map_here
from marin.executor.backends.requests import must_be_had, on_each_host, task_options, wants
from marin.executor.backends.reservation import Reservation
from marin.executor.backends.step_pickles import Unpacked, addressed, packed
from marin.executor.context import Told
from marin.executor.failures import explained, first_line
from marin.executor.job import Ending, Job, Outcome
from marin.executor.signals import SIGNALS
from marin.executor.verbosity import log_as_asked
from marin.fingerprint.observation.listening import current
from marin.fingerprint.observation.start import remember_start
from marin.steps.step import ExecutorStep
from marin.store.ends import Claim, look_seconds, read_claims
from marin.store.store import open_store

MAP_RETRIES = 2  # of an item whose worker died
WAITING = 4096  # items of one map that Ray knows at a time
LOOK_AT = 64  # claims at a time
STOP_SECONDS = 5.0  # for steps to react to the signal to stop
SAVE_SECONDS = 20.0  # for trainings to save; a cluster commonly gives a process 30 after SIGTERM


class RayBackend:
    """Runs attempts on a Ray cluster.

    address: of a running cluster ("auto" for the one on this machine, "local" for a private one); "" for the cluster
    in RAY_ADDRESS, or a private one. on_message: told where the dashboard is.

    If a worker dies (out of memory, killed), the attempt was lost. If the worker's machine is gone, it was preempted.
    """

    def __init__(self, address: str = "", on_message: Callable[[str], None] = lambda _: None) -> None:
        self.address, self.on_message = address, on_message
        self.cluster: Cluster | None = None
        self.running: dict[Any, Job] = {}
        self.queue: deque[Job] = deque()  # running jobs that are not known to have begun
        self.next_look = 0.0
        self.interrupted: list[tuple[Job, Outcome]] = []  # by the death of a worker or a machine; not reported yet
        self.reservations: list[Reservation] = []  # that wait for their hosts
        self.reserved: dict[Any, Reservation] = {}  # of running jobs
        self.tasks: dict[bool, Any] = {}  # by isolated; exported to the cluster once

    def start(self, steps: list[ExecutorStep[Any]], watcher: Watcher) -> None:
        self.watch = watcher
        # Ray warns about (and by default will change) how CPU tasks see accelerators; marin sets nothing itself.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray prints pages about dead workers and nodes. marin prints one line instead; Ray's logs keep its texts.
        os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "^")
        named, told = named_cluster(self.address), signal.getsignal(signal.SIGTERM)
        if named is None:
            self.on_message("starting Ray on this machine: takes seconds, or a minute on a busy machine")
        try:
            self.cluster = start_private() if named is None else join(named)
        finally:
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, told)  # Ray has set its own handler, which ends with code 15
        if said := self.cluster.describe():
            self.on_message(said)
        must_be_had(steps, self.cluster.nodes)
        import ray

        parcels = ray.put(packed(steps))

        def run(job: bytes, gang: Gang | None) -> Outcome:
            return run_attempt(job, parcels, gang)

        self.tasks = {False: ray.remote(max_retries=0)(run), True: ray.remote(max_retries=0, max_calls=1)(run)}

    def submit(self, job: Job) -> None:
        self.watch(job, wants(job.step.resources))
        if job.step.resources.accelerators:
            self.reservations.append(Reservation(job))
        else:
            self._send(job, task_options(on_each_host(job.step.resources, None)))

    def _send(self, job: Job, options: Mapping[str, Any], gang: Gang | None = None) -> Any:
        task = self.tasks[job.step.isolated].options(**options, name=job.step.name)
        reference = task.remote(addressed(job), gang)
        self.running[reference] = job
        self.queue.append(job)
        return reference

    def _send_reserved(self) -> None:
        for reservation in list(self.reservations):
            if (gang := reservation.gang()) is not None:
                options = {**gang.options, "scheduling_strategy": gang.places[0]}
                self.reserved[self._send(reservation.job, options, gang)] = reservation
                self.reservations.remove(reservation)

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        import ray
        from ray.exceptions import NodeDiedError, RayError, RayTaskError

        if self.cluster is not None:
            self.cluster.must_live()
            # Without an answer the cluster has died, and not only a worker.
            if self.interrupted and self.cluster.answers():
                interrupted, self.interrupted = self.interrupted, []
                return interrupted
        self._send_reserved()
        if not self.running:
            time.sleep(seconds)  # every step is held by another driver
            return []
        done, _ = ray.wait(list(self.running), num_returns=1, timeout=seconds)
        if not done:
            self._look_for_attempts()
        ended: list[tuple[Job, Outcome]] = []
        for reference in done:
            job = self.running.pop(reference)
            if (reservation := self.reserved.pop(reference, None)) is not None:
                reservation.release()
            try:
                ended.append((job, ray.get(reference)))
            except RayTaskError as error:  # attempt() raises nothing: the worker could not even unpack the step
                line = f"the worker could not load this step: {error.cause}"
                ended.append((job, Outcome(ending=Ending.FAILED, error=line)))
            except NodeDiedError as error:
                line = f"preempted: its machine is gone: {first_line(error)}"
                self.interrupted.append((job, Outcome(ending=Ending.PREEMPTED, error=line)))
            except RayError as error:
                line = f"its worker died: {first_line(error)}"
                self.interrupted.append((job, Outcome(ending=Ending.LOST, error=line)))
        return ended

    def _look_for_attempts(self) -> None:
        """Report attempts that have begun, which is when they have their claim. Looks at some jobs in turn."""
        if time.monotonic() < self.next_look:
            return
        waiting = set(map(id, self.running.values()))
        self.queue = deque(job for job in self.queue if id(job) in waiting)
        looked_at = [self.queue.popleft() for _ in range(min(LOOK_AT, len(self.queue)))]
        if not looked_at:
            return
        objects = open_store(looked_at[0].prefix).objects
        self.next_look = time.monotonic() + look_seconds(objects)
        claims = _claims(looked_at)
        for job in looked_at:
            claim = claims.get(job.step.identity)
            if claim is not None and not job.is_dead(claim):
                self.watch(job, "")
            else:
                self.queue.append(job)

    def stop(self) -> None:
        import ray

        self.next_look = 0.0
        with suppress(MarinError):
            self._look_for_attempts()  # attempts that have just begun count as running
        references = list(self.running)
        if references and SIGNALS.terminated:
            references = self._let_save(references)
        self.running.clear()
        self.queue.clear()
        self.interrupted.clear()
        if references and ray.is_initialized():
            # First like Ctrl-C, so that attempts end their claims: other hosts cannot see that workers are gone.
            for reference in references:
                ray.cancel(reference)
            _, deaf = ray.wait(references, num_returns=len(references), timeout=STOP_SECONDS)
            for reference in deaf:
                ray.cancel(reference, force=True)
        self.reservations.clear()  # their hosts become free with the end of this driver's job
        self.reserved.clear()
        if self.cluster is not None:
            self.cluster.leave()
            self.cluster = None

    def _let_save(self, references: list[Any]) -> list[Any]:
        """Return the tasks that have not ended after workers on this machine had time to save.

        This driver was told to end and has some time, so it passes SIGTERM on to its workers here. (Ray 2.60 dies if a
        task is cancelled at the moment when it ends.)
        """
        import ray

        jobs = list(self.running.values())
        for claim in _claims(jobs).values():
            with suppress(ProcessLookupError):
                if claim.holder.is_here():
                    os.kill(claim.holder.pid, signal.SIGTERM)
        return ray.wait(references, num_returns=len(references), timeout=SAVE_SECONDS)[1]


def _claims(jobs: Sequence[Job]) -> dict[str, Claim]:
    """Return the claims of attempts at these jobs' steps that have no end, by identity."""
    return read_claims(open_store(jobs[0].prefix).objects, {job.step.identity: job.after for job in jobs})


@functools.lru_cache(maxsize=1)  # a worker belongs to one driver
def _unpacked(parcels: Any) -> Unpacked:
    import ray

    return Unpacked(ray.get(parcels))


def run_attempt(job: bytes, parcels: Any, gang: Gang | None = None) -> Outcome:
    """Run an attempt in a worker. parcels: reference to the driver's steps. gang: the hosts reserved for it."""
    remember_start()
    log_as_asked()
    try:
        with SIGNALS.heard_by_worker():
            return attempt(_unpacked(parcels).job(job), map_on_ray, output_to_log=True, hosts=gang)
    except KeyboardInterrupt:
        if not SIGNALS.terminated:
            raise
        SIGNALS.first = None  # in case Ray uses this worker again
        return Outcome(ending=Ending.PREEMPTED, error="preempted: its worker was told to end (SIGTERM)")


def map_on_ray(work: Callable[[Any], Any], items: Sequence[Any], told: Told) -> list[Any]:
    """Map with one plain task for each item, at most WAITING at a time. A single item is not worth a task."""
    if len(items) <= 1:
        return map_here(work, items, told)
    import ray
    from ray.exceptions import RayError

    here = current()
    task = ray.remote(max_retries=MAP_RETRIES)(observed(work))
    places: dict[Any, int] = {}
    found: dict[int, Any] = {}
    try:
        while len(found) < len(items):
            for at in range(len(found) + len(places), min(len(found) + WAITING, len(items))):
                places[task.remote(items[at])] = at
            ray.wait(list(places))
            for reference in ray.wait(list(places), num_returns=len(places), timeout=0)[0]:
                result, seen = ray.get(reference)
                at = places.pop(reference)
                found[at] = result
                if here is not None:
                    here.join(seen)
                told(at, result)
    except RayError as error:
        cause = explained(error)
        raise cause from cause.__cause__
    finally:
        for reference in places:  # the other results are not needed any more
            ray.cancel(reference)
    return [found[at] for at in range(len(items))]
