"""Attempts as plain Ray tasks; shards of a step as tasks below it."""

# pyright: basic

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from marin.attempt import attempt
from marin.backends.bare_ray import start_bare
from marin.backends.parcels import Unpacked, addressed, packed
from marin.captured import captured
from marin.errors import MissingDependency, NoCluster, PlanError
from marin.job import Ending, Job, Outcome
from marin.listening import current, observing
from marin.observation import Observation, Scope
from marin.resources import Resources
from marin.step import ExecutorStep

OBJECT_STORE_BYTES = 256 << 20  # a local cluster passes only small messages; outputs go through the store
CRASH_RETRIES = 3
STOP_SECONDS = 5.0  # for steps to hear that they are to stop


class RayBackend:
    """address: of a running cluster ("auto" for the one on this machine); "" starts a local one.

    A worker that dies (out of memory, killed, node lost) is not the step's failure: the attempt is made
    again, up to CRASH_RETRIES times, and the dead attempt's lease is taken over.
    """

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.running: dict[Any, Job] = {}
        self.crashes: dict[str, int] = {}
        self.tasks: dict[bool, Any] = {}  # by isolated; exported to the cluster once

    def start(self, steps: list[ExecutorStep[Any]]) -> None:
        try:
            import ray
        except ImportError as error:
            raise MissingDependency(
                "Ray is not installed: pip install 'marin[run]', or run with --backend inline"
            ) from error
        # Each only matters to a cluster that we start: no usage report, no token file in the home directory.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        # Ray warns about (and by default will change) how CPU tasks see accelerators; we set nothing ourselves.
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        told = signal.getsignal(signal.SIGTERM)
        try:
            self._connect(options)
        except Exception as error:  # Ray raises plain ones
            where = f"the cluster at {self.address} cannot be joined" if self.address else "Ray did not start here"
            raise NoCluster(
                f"{where}: {str(error).strip()}. Try again (a machine under load is too slow for it), give another "
                "--address, or --backend inline"
            ) from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, told)  # Ray has set its own, which ends with code 15
        self._check_capacity(steps, ray.nodes())
        parcels = ray.put(packed(steps))

        def run(job: Job) -> Outcome:
            return run_attempt(job, parcels)

        self.tasks = {False: ray.remote(max_retries=0)(run), True: ray.remote(max_retries=0, max_calls=1)(run)}

    def _connect(self, options: dict[str, Any]) -> None:
        import ray

        if self.address:
            path = os.pathsep.join([*import_path(), "${PYTHONPATH}"])
            ray.init(address=self.address, runtime_env={"env_vars": {"PYTHONPATH": path}}, **options)
        else:
            os.environ["PYTHONPATH"] = os.pathsep.join(import_path())  # its workers inherit it
            start_bare(object_store_memory=OBJECT_STORE_BYTES, **options)

    def _check_capacity(self, steps: list[ExecutorStep[Any]], nodes: list[dict[str, Any]]) -> None:
        available = [node["Resources"] for node in nodes if node["Alive"]]
        for step in steps:
            wanted = ray_options(step.resources)
            flat = {"CPU": wanted["num_cpus"], **wanted["resources"]}
            if "memory" in wanted:
                flat["memory"] = wanted["memory"]
            if not any(all(have.get(name, 0) >= amount for name, amount in flat.items()) for have in available):
                largest = {name: max(have.get(name, 0) for have in available) for name in flat}
                raise PlanError(
                    f"{step.name} asks one node for {amounts(flat)}; the largest of {len(available)} node(s) has "
                    f"{amounts(largest)}. Ask for less, or give --address of a cluster that has it"
                )

    def submit(self, job: Job) -> None:
        options = {**ray_options(job.step.resources), "name": job.step.name}
        self.running[self.tasks[job.step.isolated].options(**options).remote(addressed(job))] = job

    def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
        import ray
        from ray.exceptions import RayError, RayTaskError

        if not self.running:
            time.sleep(seconds)  # every step is held by another driver
            return []
        done, _ = ray.wait(list(self.running), num_returns=1, timeout=seconds)
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
                    self.submit(job)
                else:
                    line = f"its worker died {crashes} times; the last time: {str(error).splitlines()[0]}"
                    ended.append((job, Outcome(ending=Ending.FAILED, error=line, details=str(error))))
        return ended

    def stop(self) -> None:
        import ray

        references = list(self.running)
        self.running.clear()
        if references and ray.is_initialized():
            # First as Ctrl-C, so that attempts give their leases back: only a host sees that its own workers are gone.
            for reference in references:
                ray.cancel(reference)
            _, deaf = ray.wait(references, num_returns=len(references), timeout=STOP_SECONDS)
            for reference in deaf:
                ray.cancel(reference, force=True)
        ray.shutdown()


def ray_options(resources: Resources) -> dict[str, Any]:
    """num_cpus, memory and custom resources of one task, as Ray wants them."""
    options: dict[str, Any] = {"num_cpus": resources.cpus, "resources": {}}
    if resources.memory_gib:
        options["memory"] = int(resources.memory_gib * 2**30)
    if resources.accelerator is not None:
        options["resources"] = {f"{resources.accelerator.name}-head": 1}
    return options


def import_path() -> list[str]:
    """Where this process finds modules that not every Python of this installation finds: an experiment's folder."""
    installed = tuple(sysconfig.get_paths().values())
    entries = dict.fromkeys(os.path.abspath(entry) for entry in sys.path)
    return [entry for entry in entries if os.path.isdir(entry) and not entry.startswith(installed)]


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

    if parcels not in _unpacked:
        _unpacked[parcels] = Unpacked(ray.get(parcels))
    return attempt(_unpacked[parcels].job(job), map_on_ray, captured)


def map_on_ray(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """One plain task per item; a single item is not worth a task."""
    if len(items) <= 1:
        return [work(item) for item in items]
    import ray

    here = current()
    scope = here.scope if here is not None else Scope()

    def call(item: Any) -> tuple[Any, Observation]:
        with observing(scope) as seen:
            result = work(item)
        return result, seen

    task = ray.remote(max_retries=2)(call)
    results: list[Any] = []
    for result, seen in ray.get([task.remote(item) for item in items]):
        results.append(result)
        if here is not None:
            here.join(seen)
    return results
