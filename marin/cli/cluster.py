"""``marin cluster``: start, end and watch a Ray cluster that you keep, with its steps and submitted drivers."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import click
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from marin.cli.completions import complete_path
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json
from marin.cli.parameters import argument, command_line, flag, option
from marin.errors import MissingDependency, NoCluster
from marin.executor.backends.cluster import NamedCluster, named_cluster
from marin.executor.backends.private_ray import ray_program
from marin.executor.clusters.dashboard import ClusterJob, ClusterNode, Dashboard, RunningTask
from marin.executor.clusters.kept import DASHBOARD_PORT, alone, end_cluster, keep_cluster, kept_cluster, noted_cluster
from marin.report.table import columns_of, open_console, print_table, say
from marin.report.typed import marin, short
from marin.report.words import styled
from marin.store.numbers import counted, write_bytes, write_duration, write_time
from marin.store.redaction import redacted

NOBODY = "no cluster is named: give --address, set RAY_ADDRESS, or start one on this machine with `marin cluster up`"
ADDRESS = option(
    "--address",
    "The cluster or its dashboard; else RAY_ADDRESS, else the cluster that `marin cluster up` started here.",
    default="",
)
DEFINITION = argument(
    required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False), complete=complete_path
)
KILLED = 128 + 9
RUNNING = "RUNNING"
BYTES = {"memory", "object_store_memory"}
OF_RAY = ("node:", "object_store_memory")  # resources of Ray itself, which no step asks for


@command_line()
def up(
    definition: Path | None = DEFINITION,
    cpus: int | None = option(
        "--cpus", "CPUs that steps may use together; all by default.", type=click.IntRange(min=1)
    ),
    dashboard_port: int | None = option(
        "--dashboard-port",
        f"Port of the dashboard.  [default: {DASHBOARD_PORT}, or any free port]",
        type=click.IntRange(1, 65535),
    ),
) -> int:
    """Start a Ray cluster on this machine and keep it: loopback only, with a token.

    With DEFINITION, start that cluster with `ray up`. DEFINITION is a file for Ray's cluster launcher, such as
    `python -m infra` prints.
    """
    if definition is not None:
        return _ray("up", "--yes", str(definition))
    console = open_console()
    with alone():
        kept = kept_cluster()
        if kept is None:
            say(console, "starting Ray on this machine: seconds, or a minute if the machine is busy", "dim")
            kept = keep_cluster(cpus, dashboard_port)
        else:
            say(console, "the cluster of an earlier `marin cluster up` still runs", "dim")
    say(console, f"Ray cluster at {kept.address}", "bold")
    way_in = f"it asks for a token; {marin('cluster', 'dashboard')} tells how to print the token"
    say(console, f"Ray dashboard: {kept.dashboard} · {way_in}")
    say(console, f"submit to it: {marin('submit', 'EXPERIMENT')}", "dim")
    say(console, f"end it:       {marin('cluster', 'down')}", "dim")
    return Exit.OK


@command_line()
def down(
    definition: Path | None = DEFINITION,
    yes: bool = flag("-y", "--yes", "Do not ask before the machines of DEFINITION are taken down."),
) -> int:
    """End the cluster that `marin cluster up` started on this machine, and no other Ray.

    With DEFINITION, take its machines down with `ray down`. Committed outputs stay; the next run repeats the steps that
    were running.
    """
    if definition is not None:
        return _ray("down", *(["--yes"] if yes else []), str(definition))
    console = open_console()
    with alone():
        kept = noted_cluster()
        if kept is None:
            say(console, "no cluster of `marin cluster up` runs on this machine")
            return Exit.OK
        died = kept.process.is_gone()
        if not died:
            say(console, "ending the Ray cluster: running steps have some seconds to stop", "dim")
        end_cluster(kept)
    say(console, f"the Ray cluster at {kept.address} had died" if died else f"ended the Ray cluster at {kept.address}")
    return Exit.OK


@command_line()
def dashboard(definition: Path | None = DEFINITION, address: str = ADDRESS) -> int:
    """Print the address of the cluster's dashboard. With DEFINITION, forward it to this machine until Ctrl-C."""
    if definition is not None:
        return _ray("dashboard", str(definition))
    console = open_console()
    say(console, cluster_called(address).url, "bold")
    say(console, "the dashboard asks for the cluster's token; this command prints the one that Ray has here:", "dim")
    say(console, f"{short(ray_program(), 'ray')} get-auth-token", "dim")
    return Exit.OK


@command_line()
def status(address: str = ADDRESS, as_json: bool = JSON) -> int:
    """List the nodes of a cluster with their resources and use, and the steps that run or wait there."""
    cluster = cluster_called(address)
    nodes, tasks = cluster.nodes(), cluster.tasks()
    drivers = [job.name for job in cluster.jobs() if not job.is_over]
    if as_json:
        about = {"address": cluster.named.address, "dashboard": cluster.url}
        echo_json({**about, "nodes": nodes, "tasks": tasks, "jobs": drivers})
        return Exit.OK
    console = open_console()
    say(console, str(cluster.named), "bold")
    say(console, f"Ray dashboard: {cluster.url}")
    print_table(console, columns_of("node |  | taken, of what it has"), [_node_row(node, tasks) for node in nodes])
    running = [task for task in tasks if task.state == RUNNING]
    if running:
        console.print()
        rows = [
            [task.name, task.node, _moment(task.began), _amounts(task.resources)]
            for task in sorted(running, key=lambda task: task.began or 0)
        ]
        print_table(console, columns_of("runs | node | since | asks for"), rows)
    waiting = Counter((task.name, _amounts(task.resources)) for task in tasks if task.state != RUNNING)
    for (name, wanted), count in waiting.most_common():
        say(console, f"waits: {name}{f' × {count}' if count > 1 else ''} for {wanted}", "yellow")
    say(console, f"{counted(len(drivers), 'driver')} submitted and not ended: {', '.join(drivers)}".rstrip(": "))
    return Exit.OK


@command_line()
def jobs(
    stop: str | None = option("--stop", "End this job, as Ctrl-C would; its committed outputs stay.", metavar="JOB"),
    address: str = ADDRESS,
    as_json: bool = JSON,
) -> int:
    """List the submitted drivers, the newest last."""
    cluster = cluster_called(address)
    if stop is not None:
        job = cluster.job(stop)
        if not job.is_over:
            cluster.stop(job)
        job = cluster.job(job.name)
        if as_json:
            echo_json(_without_secrets(job))
        else:
            say(open_console(), f"{job.name}: {job.status.lower() if job.is_over else 'told to stop'}")
        return Exit.OK
    submitted = [_without_secrets(job) for job in cluster.jobs()]
    if as_json:
        echo_json(submitted)
    elif submitted:
        columns = columns_of("job | began ?2 | >took ?1 | status | command")
        print_table(open_console(), columns, [_job_row(job) for job in submitted])
    else:
        say(open_console(), f"nothing was submitted to the {cluster.named}")
    return Exit.OK


@command_line()
def logs(
    job: str = argument(),
    follow: bool = flag("-f", "--follow", "Go on printing until the driver ends, and end with its exit code."),
    address: str = ADDRESS,
) -> int:
    """Print the output of a job's driver. JOB is the job's name or its beginning. (Logs of steps: `marin logs`.)"""
    cluster = cluster_called(address)
    found = cluster.job(job)
    if follow:
        return followed(open_console(), found.name, cluster)
    click.echo(redacted(cluster.log(found)), nl=False)
    return Exit.OK


def cluster_called(address: str) -> Dashboard:
    """Return the dashboard of the cluster that an option, RAY_ADDRESS or `marin cluster up` names. Raises NoCluster."""
    named = named_cluster(address)
    if named is None and (kept := kept_cluster()) is not None:
        named = NamedCluster(address=kept.dashboard, origin="marin cluster up")
    if named is None:
        raise NoCluster(NOBODY)
    return Dashboard(named)


def followed(console: Console, name: str, cluster: Dashboard) -> int:
    """Print the output of a job until it ends, and return its exit code.

    Ctrl-C leaves the job running and returns Exit.INTERRUPTED.
    """
    try:
        job = cluster.follow(name, lambda text: click.echo(redacted(text), nl=False))
    except KeyboardInterrupt:
        say(console, f"{name} goes on", "bold")
        print_follow_and_stop(console, name, cluster)
        return Exit.INTERRUPTED
    if job.status == "SUCCEEDED":
        return Exit.OK
    why, _, _ = redacted(job.message).partition(", last available logs")  # those were printed already
    say(console, f"{job.name} {job.status.lower()}: {why}".rstrip(": "), "red bold")
    if job.code == KILLED:
        say(console, "its driver was killed (out of memory?). Submit it again; committed outputs stay", "dim")
    if job.status == "STOPPED":
        return Exit.TERMINATED
    return job.code if job.code is not None and 0 < job.code < 256 else Exit.FAILED


def print_follow_and_stop(console: Console, name: str, cluster: Dashboard) -> None:
    """Print the commands that follow and stop a running job."""
    address = cluster.named.address
    say(console, f"follow it: {marin('cluster', 'logs', '-f', name, '--address', address)}", "dim")
    say(console, f"stop it:   {marin('cluster', 'jobs', '--stop', name, '--address', address)}", "dim")


def _ray(*arguments: str) -> int:
    """Run Ray's own command, which asks and prints for itself. Raises MissingDependency."""
    file = Path(arguments[-1])
    if find_spec("googleapiclient") is None and re.search(r"^\s+type: gcp\b", file.read_text(), re.MULTILINE):
        raise MissingDependency(
            f"Ray's launcher needs google-api-python-client for {file}, which is not installed: pip install "
            "google-api-python-client"
        )
    done = subprocess.run([os.path.join(sysconfig.get_path("scripts"), "ray"), *arguments], check=False)
    return Exit.FAILED if done.returncode else Exit.OK


def _without_secrets(job: ClusterJob) -> ClusterJob:
    return replace(job, command=redacted(job.command), message=redacted(job.message))


def _job_row(job: ClusterJob) -> list[Text | str]:
    took = "" if job.began is None else write_duration((job.ended or time.time()) - job.began)
    return [job.name, _moment(job.began)[:16], took, styled(job.status.lower()), job.command]


def _moment(seconds: float | None) -> str:
    return "" if seconds is None else write_time(seconds)


def _node_row(node: ClusterNode, tasks: list[RunningTask]) -> list[Text | str]:
    name = f"{node.address}{' (head)' if node.is_head else ''}"
    if not node.is_alive:
        return [name, Text("dead", style="red"), node.why]
    taken: Counter[str] = Counter()
    for task in tasks:
        if task.state == RUNNING and task.node == node.address:
            taken.update(task.resources)
    shown = {key: value for key, value in node.resources.items() if not key.startswith(OF_RAY)}
    amounts = (f"{_amount(key, taken[key])}/{_amount(key, value)} {key}" for key, value in sorted(shown.items()))
    return [name, Text("alive", style="green"), ", ".join(amounts)]


def _amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{_amount(key, value)} {key}" for key, value in sorted(resources.items())) or "nothing"


def _amount(name: str, value: float) -> str:
    return write_bytes(value) if name in BYTES else f"{value:g}"
