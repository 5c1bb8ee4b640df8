"""``marin cluster jobs``."""

from __future__ import annotations

import dataclasses
import time

import click
from rich.text import Text

from marin.cli.cluster_options import ADDRESS, cluster_called
from marin.cli.exits import Exit
from marin.cli.options import JSON, echo_json, ends
from marin.executor.clusters.dashboard import ClusterJob, Dashboard
from marin.report.table import columns_of, open_console, print_table, say
from marin.report.words import styled
from marin.store.numbers import write_duration
from marin.store.redaction import redacted

COLUMNS = columns_of("job | began ?2 | >took ?1 | status | command")


@click.command()
@click.option("--stop", metavar="JOB", help="End this one, as Ctrl-C would; what it committed stays.")
@ADDRESS
@JSON
@ends
def command(stop: str | None, address: str, as_json: bool) -> int:
    """The drivers that were submitted to a cluster, the newest last."""
    dashboard = Dashboard(cluster_called(address))
    if stop is not None:
        job = dashboard.job(stop)
        if not job.is_over:
            dashboard.stop(job)
        job = dashboard.job(job.name)
        if as_json:
            echo_json(to_json(job))
        else:
            say(open_console(), f"{job.name}: {job.status.lower() if job.is_over else 'told to stop'}")
        return Exit.OK
    jobs = dashboard.jobs()
    if as_json:
        echo_json([to_json(job) for job in jobs])
    elif jobs:
        print_table(open_console(), COLUMNS, [_row(job) for job in jobs])
    else:
        say(open_console(), f"nothing was submitted to the {dashboard.named}")
    return Exit.OK


def to_json(job: ClusterJob) -> dict[str, object]:
    return {**dataclasses.asdict(job), "command": redacted(job.command), "message": redacted(job.message)}


def _row(job: ClusterJob) -> list[Text | str]:
    began = "" if job.began is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(job.began))
    took = "" if job.began is None else write_duration((job.ended or time.time()) - job.began)
    return [job.name, began, took, styled(job.status.lower()), redacted(job.command)]
