"""``marin submit``: run an experiment and its driver on a cluster, so that you may close the laptop."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console

from marin.cli.cluster import cluster_called, followed, print_follow_and_stop
from marin.cli.exits import Exit
from marin.cli.options import EXPERIMENT
from marin.cli.parameters import all_of, command_line, flag, option
from marin.cli.run import run_experiment
from marin.cli.run_options import BackendName, RunOptions
from marin.errors import BadField, BadPrefix
from marin.executor.clusters.dashboard import Dashboard
from marin.executor.clusters.source_archive import pack
from marin.executor.events import SUBMITTED_GIT, git_revision
from marin.executor.verbosity import VARIABLE
from marin.report.table import open_console, say
from marin.steps.experiment_file import load_build
from marin.store.layout import slug
from marin.store.numbers import write_bytes
from marin.store.redaction import redacted

# Options that the driver does not get, or gets in another form.
OWN = {"experiment", "prefix", "address", "folder", "python", "detach", "dry_run"}
FOLDER = click.Path(path_type=Path, exists=True, file_okay=False)


class Forwarding(click.Command):
    """A command that keeps the driver's options as typed, for the driver's own command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        given: list[str] = []
        for parameter in self.get_params(ctx):
            value = values.get(str(parameter.name))
            if not isinstance(parameter, click.Option) or parameter.name in OWN or value is None:
                continue
            if parameter.is_flag:
                given.append(parameter.opts[0])
            else:
                given += [f"{parameter.opts[0]}={each}" for each in (value if parameter.multiple else [value])]
        ctx.meta["marin.given"] = given
        return super().parse_args(ctx, args)


@command_line(Forwarding)
def command(
    experiment: str = EXPERIMENT,
    folder: Path = option(
        "--folder",
        "Copy this folder to the job, without files that .gitignore names; it must hold EXPERIMENT.",
        type=FOLDER,
        default=".",
        show_default="this one",
    ),
    python: str = option("--python", "The Python with marin on the cluster.", default="python", metavar="PATH"),
    detach: bool = flag("--detach", "Do not print the driver's output."),
    options: RunOptions = all_of(RunOptions),
) -> int:
    """Run EXPERIMENT (a file) on a Ray cluster, with its driver, and print the driver's output.

    Takes every option of `marin run`. Ctrl-C leaves the job running.
    """
    arguments: list[str] = click.get_current_context().meta["marin.given"]
    build, source = load_build(experiment)
    if options.dry_run:
        return run_experiment(build, source, options)
    if options.backend is BackendName.INLINE:
        raise BadField(
            "--backend inline runs an experiment on this machine, so there is nothing to submit; use `marin run`"
        )
    replace(options, resources=None).built(build, source)  # errors show here; the driver counts its GPUs
    inside = _inside(folder.absolute(), source)
    dashboard = cluster_called(options.address)
    console = open_console()
    prefix = _prefix_there(options.prefix, dashboard, console)
    driver = [python, "-m", "marin", "run", inside, f"--prefix={prefix}", *arguments]
    git = git_revision(source.parent)
    name = f"{slug(source.stem)}-{options.scale.value}-{time.strftime('%m%d-%H%M%S')}-{os.urandom(2).hex()}"
    with tempfile.TemporaryDirectory() as place:
        packed = pack(folder.absolute(), Path(place, "source.zip"))
        dashboard.submit(
            name,
            shlex.join(driver),
            os.path.join(place, "source.zip"),
            {SUBMITTED_GIT: git, **{key: os.environ[key] for key in (VARIABLE,) if key in os.environ}},
            {"experiment": source.stem, "scale": options.scale.value, "store": redacted(prefix), "git": git},
        )
    say(console, f"submitted {name} to the {dashboard.named}", "bold")
    say(console, f"with {len(packed):,} files of {folder.absolute()}, {write_bytes(sum(packed.values()))}", "dim")
    say(console, f"Ray dashboard: {dashboard.job_url(name)}")
    if detach:
        print_follow_and_stop(console, name, dashboard)
        return Exit.OK
    return followed(console, name, dashboard)


def _inside(folder: Path, source: Path) -> str:
    """Return the experiment's path in the copied folder. Raises BadField."""
    try:
        return str(source.relative_to(folder))
    except ValueError:
        raise BadField(
            f"{source} is not in {folder}, the folder that the job copies; go to the folder of its project, or name "
            "that folder with --folder"
        ) from None


def _prefix_there(prefix: str, dashboard: Dashboard, console: Console) -> str:
    """Return the prefix under which the cluster finds the store. Raises BadPrefix."""
    if prefix.startswith("memory://"):
        raise BadPrefix(f"{prefix} ends with its process; a job needs a bucket or a disk that its cluster shares")
    if "://" in prefix:
        return prefix
    path = os.path.abspath(prefix)
    if not dashboard.is_this_machine:
        say(console, f"the store {path} must be on a disk that every machine of the cluster has at that path", "yellow")
    return path
