"""``python -m infra``: print cluster definitions, generated from the hardware table."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any

import click

from infra.kuberay import ray_cluster, ray_job
from infra.launcher import gcp_cluster
from infra.slices import Slice, slice_called
from marin.cli.exits import guarded
from marin.errors import BadField

NAME = re.compile(r"[a-z]([a-z0-9-]{0,48}[a-z0-9])?")
ZONE = re.compile(r"[a-z]+-[a-z]+[0-9]+-[a-z]")
SLICES: Callable[[Any], Any] = click.option(
    "--slice",
    "slices",
    multiple=True,
    required=True,
    metavar="NAME[*N]",
    help="TPU slices, such as v4-2048 or v5p-512*4 (repeatable).",
)
CLUSTER: Callable[[Any], Any] = click.option("--name", default="marin", show_default=True, help="Name of the cluster.")
IMAGE: Callable[[Any], Any] = click.option("--image", required=True, help="Container image with marin.")
CPU_HOSTS: Callable[[Any], Any] = click.option(
    "--cpu-hosts", type=click.IntRange(min=0), default=8, show_default=True, help="Machines without accelerators."
)
SECRET: Callable[[Any], Any] = click.option(
    "--secret",
    default="marin-credentials",  # KubeRay gives the token's Secret the name of the cluster
    show_default=True,
    help="Kubernetes Secret whose entries become environment variables, if it exists.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Print the file that starts a cluster: `… gcp` for `marin cluster up FILE`, `… kuberay` and `… job` for `kubectl
    apply -f FILE`, `… container` for `docker build`."""


@main.command()
@SLICES
@click.option("--project", required=True, help="Project of Google Cloud.")
@click.option(
    "--zone", required=True, help="Zone of the slices, such as us-central2-b; put the store's bucket there, too."
)
@click.option("--spot", is_flag=True, help="Use cheaper machines that may be taken away.")
@CLUSTER
@IMAGE
def gcp(slices: Sequence[str], project: str, zone: str, spot: bool, name: str, image: str) -> None:
    """Print a cluster of TPU VMs, for Ray's cluster launcher."""

    def made() -> dict[str, Any]:
        if not ZONE.fullmatch(zone):
            raise BadField(f"--zone {zone} is no zone of Google Cloud; wanted one such as us-central2-b")
        return gcp_cluster(_name(name), image, _slices(slices), project=project, zone=zone, spot=spot)

    _print(made)


@main.command()
@SLICES
@CLUSTER
@IMAGE
@CPU_HOSTS
@SECRET
def kuberay(slices: Sequence[str], name: str, image: str, cpu_hosts: int, secret: str) -> None:
    """Print a RayCluster, for `marin submit`."""
    _print(lambda: ray_cluster(_name(name), image, _slices(slices), cpu_hosts=cpu_hosts, secret=secret), slices)


@main.command()
@SLICES
@CLUSTER
@IMAGE
@CPU_HOSTS
@SECRET
@click.argument("command", nargs=-1, required=True)
def job(slices: Sequence[str], name: str, image: str, cpu_hosts: int, secret: str, command: tuple[str, ...]) -> None:
    """Print a RayJob: COMMAND (after --) on a cluster of its own."""
    _print(lambda: ray_job(_name(name), image, _slices(slices), command, cpu_hosts=cpu_hosts, secret=secret), slices)


@main.command()
def container() -> None:
    """Print the Containerfile of a cluster's image."""
    click.echo(resources.files("infra").joinpath("Containerfile").read_text(), nl=False)


def _slices(names: Sequence[str]) -> list[tuple[Slice, int]]:
    """Return each slice with its count. Raises BadField."""
    found: dict[str, tuple[Slice, int]] = {}
    for text in names:
        name, _, count = text.partition("*")
        if count and (not count.isdigit() or int(count) < 1):
            raise BadField(f"--slice {text}: wanted a number after the *, as in v5p-512*4")
        one = slice_called(name)
        if one.name in found:
            raise BadField(f"--slice {text}: {one.name} is given twice; write {one.name}*2")
        found[one.name] = one, int(count or 1)
    return list(found.values())


def _name(name: str) -> str:
    if not NAME.fullmatch(name):
        raise BadField(f"--name {name!r} cannot name a cluster; wanted up to 50 of a-z, 0-9 and -, beginning with a-z")
    return name


def _print(made: Callable[[], dict[str, Any]], pools: Sequence[str] = ()) -> None:
    """Print a definition as YAML. pools: slices whose node pools GKE must already have; a comment names each."""

    def work() -> int:
        import yaml

        for one, count in _slices(pools):
            click.echo(f"# {count} node pool(s) of GKE: {one.hosts} × {one.machine}, topology {one.topology}")
        click.echo(yaml.safe_dump(made(), sort_keys=False), nl=False)
        return 0

    sys.exit(guarded(work))


if __name__ == "__main__":
    main(prog_name="python -m infra")
