"""A running Ray cluster, through its dashboard: submitted drivers (Ray jobs), nodes and tasks.

It uses only public interfaces of Ray. It talks to the dashboard over HTTP, so the port may be forwarded from another
machine.
"""

# pyright: basic

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from marin.errors import AmbiguousName, ClusterLost, NoCluster, UnknownStep
from marin.executor.backends.cluster import (
    CONNECT_SECONDS,
    NamedCluster,
    asked,
    connection_refusal,
    must_answer,
    token_refused,
)
from marin.executor.backends.private_ray import MODE, token_is_configured

LOOK_SECONDS = 1.0  # between two looks at a job whose log has ended
LOST_ATTEMPTS = 30  # looks without an answer, before a cluster counts as lost
STOP_SECONDS = 30  # for trainings to save after a driver is told to end; Ray's own limit is three
OVERRIDING = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS")  # Ray's client prefers them to any address that it is given
ASK = """
import sys
from ray.job_submission import JobSubmissionClient
print("imported", flush=True)
print("dashboard", JobSubmissionClient(sys.argv[1]).get_address())
"""
REMEDY = "Give the --address of a running cluster, or start one with `marin cluster up`"


class ClusterJob(Struct, frozen=True, kw_only=True):
    """A driver that was submitted to a cluster."""

    name: str  # of the submission; unique on its cluster
    status: str  # PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED
    is_over: bool
    code: int | None  # its exit code, once it has one
    command: str
    began: float | None  # seconds since 1970
    ended: float | None
    message: str  # Ray's message about it
    metadata: Mapping[str, str]


class ClusterNode(Struct, frozen=True, kw_only=True):
    name: str
    address: str
    is_head: bool
    is_alive: bool
    why: str  # the reason if it is not alive
    resources: Mapping[str, float]


class RunningTask(Struct, frozen=True, kw_only=True):
    """A task that a cluster runs or will run: a step, a piece of a step, or another program's task."""

    name: str
    state: str
    node: str
    resources: Mapping[str, float]
    began: float | None


class Dashboard:
    """The dashboard of a named cluster. Opening it sends a request. Raises NoCluster within seconds."""

    def __init__(self, named: NamedCluster) -> None:
        self.named = named = replace(named, remedy=REMEDY)
        os.environ.setdefault(MODE, "token" if token_is_configured() else "disabled")  # read when Ray is imported
        self.url = _url_of(named)
        with self._asking():
            from ray.job_submission import JobSubmissionClient

            logging.getLogger("ray").setLevel(logging.ERROR)  # hide notes on uploads and on the end of a log
            self._client = JobSubmissionClient(self.url)

    @property
    def is_this_machine(self) -> bool:
        return NamedCluster(address=self.url, origin=self.named.origin).is_this_machine

    def job_url(self, name: str) -> str:
        return f"{self.url}/#/jobs/{name}"

    def submit(self, name: str, command: str, archive: str, environment: Mapping[str, str], about: Mapping[str, str]):
        """Submit a job. archive: path of the working directory for driver and workers. Raises NoCluster."""
        variables = {"RAY_JOB_STOP_WAIT_TIME_S": str(STOP_SECONDS), **environment}
        try:
            with self._asking():
                self._client.submit_job(
                    entrypoint=command,
                    submission_id=name,
                    runtime_env={"working_dir": archive, "env_vars": variables},
                    metadata={"job_name": name, **about},
                )
        except RuntimeError as error:
            raise NoCluster(f"the {self.named} refused the job: {error}") from error

    def jobs(self) -> list[ClusterJob]:
        """Return the submitted jobs, oldest first."""
        with self._asking():
            every = [_job(details) for details in self._client.list_jobs() if details.submission_id]
        return sorted(every, key=lambda job: job.began or 0)

    def job(self, name: str) -> ClusterJob:
        """Return one job by its name or the beginning of the name. Raises UnknownStep or AmbiguousName."""
        jobs = {job.name: job for job in self.jobs()}
        if name in jobs:
            return jobs[name]
        near = [known for known in jobs if known.startswith(name)]
        if len(near) == 1:
            return jobs[near[0]]
        if near:
            raise AmbiguousName(f"{len(near)} jobs on the {self.named} begin with {name!r}: {', '.join(near)}")
        there = f"there are {', '.join(list(jobs)[-5:])}" if jobs else "nothing was submitted to it"
        raise UnknownStep(f"no job {name!r} on the {self.named}; {there}")

    def stop(self, job: ClusterJob) -> None:
        with self._asking():
            self._client.stop_job(job.name)

    def log(self, job: ClusterJob) -> str:
        with self._asking():
            return self._client.get_job_logs(job.name)

    def follow(self, name: str, tell: Callable[[str], None]) -> ClusterJob:
        """Pass on the driver's output until the driver ends. Raises ClusterLost."""
        printed, silent = 0, 0
        while True:
            try:
                printed = asyncio.run(self._tail(name, printed, tell))
                job = self.job(name)
                silent = 0
                if job.is_over:
                    rest = self.log(job)  # the last output may have missed the end of the connection
                    tell(rest[printed:])
                    return job
            except (NoCluster, RuntimeError, OSError) as error:
                silent += 1
                if silent > LOST_ATTEMPTS:
                    raise ClusterLost(
                        f"the {self.named} does not answer any more ({error}). If it comes back, use `marin cluster "
                        f"logs -f {name}`; if not, submit again elsewhere. Committed outputs stay"
                    ) from error
            time.sleep(LOOK_SECONDS)

    async def _tail(self, name: str, printed: int, tell: Callable[[str], None]) -> int:
        """Return how many characters of the log were passed on in total. Each call reads the log from its start."""
        seen = 0
        async for text in self._client.tail_job_logs(name):
            seen += len(text)
            if seen > printed:
                tell(text[-(seen - printed) :])
                printed = seen
        return printed

    def nodes(self) -> list[ClusterNode]:
        from ray.util.state import list_nodes

        with self._asking():
            found: list[Any] = list_nodes(address=self.url, detail=True)
        return [
            ClusterNode(
                name=node.node_name,
                address=node.node_ip,
                is_head=bool(node.is_head_node),
                is_alive=node.state == "ALIVE",
                why=node.state_message or "",
                resources=dict(node.resources_total or {}),
            )
            for node in found
        ]

    def tasks(self) -> list[RunningTask]:
        """Return the tasks that have not ended."""
        from ray.util.state import list_nodes, list_tasks

        with self._asking():
            nodes: list[Any] = list_nodes(address=self.url)
            found: list[Any] = list_tasks(
                address=self.url,
                filters=[("state", "!=", "FINISHED"), ("state", "!=", "FAILED"), ("type", "=", "NORMAL_TASK")],
                detail=True,
                limit=1000,
                raise_on_missing_output=False,
            )
        at = {node.node_id: node.node_ip for node in nodes}
        return [
            RunningTask(
                name=task.name,
                state=task.state,
                node=at.get(task.node_id, ""),
                resources=dict(task.required_resources or {}),
                began=task.start_time_ms / 1000 if task.start_time_ms else None,
            )
            for task in found
        ]

    @contextmanager
    def _asking(self) -> Generator[None]:
        """Turn Ray's errors into NoCluster, and hide other addresses from Ray meanwhile."""
        from ray.exceptions import AuthenticationError

        before = {name: os.environ.pop(name, None) for name in OVERRIDING}
        try:
            yield
        except AuthenticationError as error:
            raise token_refused(self.named) from error
        except (ConnectionError, OSError) as error:
            raise NoCluster(f"the {self.named} does not answer at {self.url}. {REMEDY}") from error
        finally:
            os.environ.update({name: value for name, value in before.items() if value is not None})


def _job(details: Any) -> ClusterJob:
    return ClusterJob(
        name=details.submission_id,
        status=str(details.status.value),
        is_over=details.status.is_terminal(),
        code=details.driver_exit_code,
        command=details.entrypoint,
        began=details.start_time / 1000 if details.start_time else None,
        ended=details.end_time / 1000 if details.end_time else None,
        message=details.message or "",
        metadata=details.metadata or {},
    )


def _url_of(named: NamedCluster) -> str:
    """Return the address of the dashboard. Raises NoCluster."""
    address = named.address.rstrip("/")
    if address.startswith(("http://", "https://")):
        try:
            parts = urlsplit(address)
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError as error:
            raise NoCluster(f"{address} ({named.origin}) is no address: {error}. {REMEDY}") from error
        if (refusal := connection_refusal(f"{parts.hostname}:{port}")) is not None:
            raise NoCluster(f"no {named}: nothing answers there ({refusal}). {REMEDY}")
        if not _is_dashboard(address):
            raise NoCluster(f"the server at {address} ({named.origin}) is no Ray dashboard. {REMEDY}")
        return address
    must_answer(named)
    if address != "auto" and "://" not in address and _is_dashboard(f"http://{address}"):
        return f"http://{address}"
    said = asked(named, ASK)
    url = next(line.split()[1] for line in said.splitlines() if line.startswith("dashboard "))
    if (refusal := connection_refusal(url.partition("://")[2])) is not None:
        raise NoCluster(f"the {named} has its dashboard at {url}, where nothing answers ({refusal}). {REMEDY}")
    return url


def _is_dashboard(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/version", timeout=CONNECT_SECONDS) as answer:
            return "ray_version" in json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code == 401  # a dashboard that wants a token
    except (OSError, ValueError, HTTPException):  # the server there may not speak HTTP
        return False
