"""``marin cluster status``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

import click
from rich.text import Text

from marin.cli.cluster_options import ADDRESS, cluster_called
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json, ends
from marin.executor.clusters.dashboard import ClusterNode, Dashboard, RunningTask
from marin.report.table import columns_of, open_console, print_table, say
from marin.store.numbers import counted, write_bytes

RUNNING = "RUNNING"
BYTES = {"memory", "object_store_memory"}
OF_RAY = ("node:", "object_store_memory")  # resources that nobody asks for


@click.command()
@ADDRESS
@JSON
@ends
def command(address: str, as_json: bool) -> int:
    """Nodes of a cluster, what they have and what of it is taken, and which steps run or wait there."""
    dashboard = Dashboard(cluster_called(address))
    nodes, tasks = dashboard.nodes(), dashboard.tasks()
    jobs = [job for job in dashboard.jobs() if not job.is_over]
    if as_json:
        echo_json(
            {
                "address": dashboard.named.address,
                "dashboard": dashboard.url,
                "nodes": nodes,
                "tasks": tasks,
                "jobs": [job.name for job in jobs],
            }
        )
        return Exit.OK
    console = open_console()
    say(console, str(dashboard.named), "bold")
    say(console, f"Ray dashboard: {dashboard.url}")
    columns = columns_of("node |  | taken, of what it has")
    print_table(console, columns, [_node_row(node, tasks) for node in nodes])
    running = [task for task in tasks if task.state == RUNNING]
    if running:
        columns = columns_of("runs | node | since | asks for")
        console.print()
        print_table(console, columns, [_task_row(task) for task in sorted(running, key=lambda task: task.began or 0)])
    waiting = Counter((task.name, amounts(task.resources)) for task in tasks if task.state != RUNNING)
    for (name, wanted), count in waiting.most_common():
        say(console, f"waits: {name}{f' × {count}' if count > 1 else ''} for {wanted}", "yellow")
    say(
        console,
        f"{counted(len(jobs), 'driver')} submitted and not ended: {', '.join(job.name for job in jobs)}".rstrip(": "),
    )
    return Exit.OK


def _node_row(node: ClusterNode, tasks: list[RunningTask]) -> list[Text | str]:
    name = f"{node.address}{' (head)' if node.is_head else ''}"
    if not node.is_alive:
        return [name, Text("dead", style="red"), node.why]
    taken: Counter[str] = Counter()
    for task in tasks:
        if task.state == RUNNING and task.node == node.address:
            taken.update(task.resources)
    shown = {key: value for key, value in node.resources.items() if not key.startswith(OF_RAY)}
    return [
        name,
        Text("alive", style="green"),
        ", ".join(f"{_amount(key, taken[key])}/{_amount(key, value)} {key}" for key, value in sorted(shown.items())),
    ]


def _task_row(task: RunningTask) -> list[Text | str]:
    since = "" if task.began is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(task.began))
    return [task.name, task.node, since, amounts(task.resources)]


def amounts(resources: Mapping[str, float]) -> str:
    return ", ".join(f"{_amount(key, value)} {key}" for key, value in sorted(resources.items())) or "nothing"


def _amount(name: str, value: float) -> str:
    return write_bytes(value) if name in BYTES else f"{value:g}"
