"""``marin submit``: an experiment whose driver, too, runs on a cluster, so that the laptop may be closed."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from marin.cli.cluster_options import cluster_called
from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT, ends
from marin.cli.run import Options, run_experiment, run_options
from marin.errors import BadField, BadPrefix
from marin.executor.backends.backend import BackendName
from marin.executor.clusters.dashboard import ClusterJob, Dashboard
from marin.executor.clusters.source_archive import pack
from marin.executor.events import SUBMITTED_GIT, git_revision
from marin.executor.verbosity import VARIABLE
from marin.report.table import open_console, say
from marin.report.typed import marin
from marin.steps.experiment_file import built_by, load_build
from marin.steps.overrides import with_changes
from marin.store.layout import slug
from marin.store.numbers import write_bytes
from marin.store.redaction import redacted

KILLED = 128 + 9
OWN = {
    "experiment",
    "prefix",
    "address",
    "folder",
    "python",
    "detach",
    "dry_run",
}  # not for the driver, or not as given


class Forwarding(click.Command):
    """Keeps what was typed of the options that are the driver's, for its own command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        given: list[str] = []
        for option in self.get_params(ctx):
            if not isinstance(option, click.Option) or option.name in OWN or values.get(str(option.name)) is None:
                continue
            value = values[str(option.name)]
            if option.is_flag:
                given.append(option.opts[0])
            else:
                given += [f"{option.opts[0]}={each}" for each in (value if option.multiple else [value])]
        ctx.meta["marin.given"] = given
        return super().parse_args(ctx, args)


@click.command(cls=Forwarding)
@EXPERIMENT
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    show_default="this one",
    help="What the job takes along, less what .gitignore names; EXPERIMENT is in it.",
)
@click.option("--python", default="python", show_default=True, metavar="PATH", help="Python with marin, over there.")
@click.option("--detach", is_flag=True, help="Do not follow what it prints.")
@run_options
@ends
def command(experiment: str, folder: Path, python: str, detach: bool, **given: Any) -> int:
    """Run EXPERIMENT (a file) on a Ray cluster, its driver too.

    Takes every option of `marin run`. Ctrl-C leaves the job running.
    """
    arguments: list[str] = click.get_current_context().meta["marin.given"]
    options = Options(**given)
    build, source = load_build(experiment)
    if options.dry_run:
        return run_experiment(build, source, options)
    if options.backend is BackendName.INLINE:
        raise BadField("--backend inline runs an experiment on this machine: nothing to submit; use `marin run`")
    built = with_changes(built_by(build, source, options.scale), options.settings)  # what is wrong is said here
    if options.only:
        built.only(options.only)
    inside = _inside(folder.absolute(), source)
    dashboard = Dashboard(cluster_called(options.address))
    console = open_console()
    prefix = _prefix_there(options.prefix, dashboard, console)
    driver = [python, "-m", "marin", "run", inside, f"--prefix={prefix}", *arguments]
    git = str(git_revision(source.parent))
    name = f"{slug(source.stem)}-{options.scale.value}-{time.strftime('%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    with tempfile.TemporaryDirectory() as place:
        archive = pack(folder.absolute(), Path(place, "source.zip"))
        dashboard.submit(
            name,
            shlex.join(driver),
            os.path.join(place, "source.zip"),
            {SUBMITTED_GIT: git, **{key: os.environ[key] for key in (VARIABLE,) if key in os.environ}},
            {"experiment": source.stem, "scale": options.scale.value, "store": redacted(prefix), "git": git},
        )
    say(console, f"submitted {name} to the {dashboard.named}", "bold")
    say(console, f"with {archive.files:,} files of {folder.absolute()}, {write_bytes(archive.bytes)}", "dim")
    say(console, f"Ray dashboard: {dashboard.job_url(name)}")
    if detach:
        _print_next(console, name, dashboard)
        return Exit.OK
    return followed(console, name, dashboard)


def followed(console: Console, name: str, dashboard: Dashboard) -> int:
    """Print what a job prints, until it ends. Its exit code, or that of Ctrl-C, which leaves it running."""
    try:
        job = dashboard.follow(name, lambda text: click.echo(redacted(text), nl=False))
    except KeyboardInterrupt:
        say(console, f"{name} goes on", "bold")
        _print_next(console, name, dashboard)
        return Exit.INTERRUPTED
    return exit_code(console, job)


def exit_code(console: Console, job: ClusterJob) -> int:
    """Of a job that is over."""
    if job.status == "SUCCEEDED":
        return Exit.OK
    why, _, _ = redacted(job.message).partition(", last available logs")  # which were printed
    say(console, f"{job.name} {job.status.lower()}: {why}".rstrip(": "), "red bold")
    if job.code == KILLED:
        say(console, "its driver was killed (out of memory?): submit it again, what was committed stays", "dim")
    if job.status == "STOPPED":
        return Exit.TERMINATED
    return job.code if job.code is not None and 0 < job.code < 256 else Exit.FAILED


def _print_next(console: Console, name: str, dashboard: Dashboard) -> None:
    address = dashboard.named.address
    say(console, f"follow it: {marin('cluster', 'logs', '-f', name, '--address', address)}", "dim")
    say(console, f"stop it:   {marin('cluster', 'jobs', '--stop', name, '--address', address)}", "dim")


def _inside(folder: Path, source: Path) -> str:
    """The experiment's path in what is sent. Raises BadField."""
    try:
        return str(source.relative_to(folder))
    except ValueError:
        raise BadField(
            f"{source} is not in {folder}, which is what the job takes along; go to the folder of its project, or name "
            "it with --folder"
        ) from None


def _prefix_there(prefix: str, dashboard: Dashboard, console: Console) -> str:
    """The store's prefix as the cluster finds it. Raises BadPrefix."""
    if prefix.startswith("memory://"):
        raise BadPrefix(f"{prefix} ends with its process; a job needs a bucket or a disk that its cluster shares")
    if "://" in prefix:
        return prefix
    path = os.path.abspath(prefix)
    if not dashboard.is_this_machine:
        say(console, f"the store {path} must be a disk that every machine of the cluster has at that path", "yellow")
    return path
