"""What the commands of ``marin cluster`` and ``marin submit`` share: which cluster, and Ray's own launcher."""

from __future__ import annotations

import os
import re
import subprocess
import sysconfig
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from marin.cli.completions import complete_path
from marin.errors import MissingDependency, NoCluster
from marin.executor.backends.cluster import NamedCluster, named_cluster
from marin.executor.clusters.kept import kept_cluster

NOBODY = "no cluster is named: give --address, set RAY_ADDRESS, or start one on this machine with `marin cluster up`"
ADDRESS: Callable[[Any], Any] = click.option(
    "--address",
    default="",
    help="Of a running cluster or its dashboard; without it RAY_ADDRESS, or what `marin cluster up` started here.",
)
DEFINITION: Callable[[Any], Any] = click.argument(
    "definition",
    required=False,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    shell_complete=complete_path,
)


def cluster_called(address: str) -> NamedCluster:
    """Raises NoCluster."""
    named = named_cluster(address)
    if named is None and (kept := kept_cluster()) is not None:
        named = NamedCluster(address=kept.dashboard, origin="marin cluster up")
    if named is None:
        raise NoCluster(NOBODY)
    return named


def ray(*arguments: str) -> int:
    """Ray's own command, which asks and prints for itself; its exit code. Raises MissingDependency."""
    file = Path(arguments[-1])
    if find_spec("googleapiclient") is None and re.search(r"^\s+type: gcp\b", file.read_text(), re.MULTILINE):
        raise MissingDependency(
            f"Ray's launcher needs google-api-python-client for {file}, which is not installed: pip install "
            "google-api-python-client"
        )
    return subprocess.run([os.path.join(sysconfig.get_path("scripts"), "ray"), *arguments], check=False).returncode
