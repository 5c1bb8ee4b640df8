"""A local Ray cluster for one driver, without what serves larger ones.

Nothing here changes what tasks do. Ray's start and end take about half as long (benchmarks/engine/README.md), and
``ray.init`` has no switch for any of it; Ray's version is pinned.
"""

# pyright: basic

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

NO_TASK_EVENTS = {"task_events_report_interval_ms": 0}
LOOK_SECONDS = 0.02  # between questions after a node that is starting
NODE_SECONDS = 30.0  # as long as Ray waits for its node


def start_bare(**options: Any) -> None:
    """``ray.init`` of a cluster of this machine. Left out are

    - the server of a dashboard that there is not (jobs over HTTP, ``ray list``), which the start waits for;
    - most of each node's agent: Ray finds out by importing a module whether there can be a dashboard;
    - the autoscaler's monitor, which takes a second to end, and what forwards logs that nobody asked it to forward;
    - what the driver would report of its tasks to that dashboard, which its end waits for;
    - the rest of the second that Ray sleeps when it finds that its node is not there yet;
    - the driver's knowledge of how to send Arrow tables, which imports Arrow: it sends packed steps. Workers have it.
    """
    import ray
    from ray._private import node, parameter, services, worker
    from ray.util import serialization_addons

    fewer: dict[str, Any] = {"no_monitor": True, "include_log_monitor": False}
    with (
        _replaced(parameter, "RayParams", functools.partial(parameter.RayParams, **fewer)),
        _replaced(node.Node, "start_api_server", _start_no_api_server),
        _replaced(services, "get_node", functools.partial(_get_node_when_there, services.get_node)),
        _replaced(serialization_addons, "apply", _apply_nothing),
        _unimportable("ray.dashboard.optional_deps"),
    ):
        # "local": without it Ray joins whatever cluster it finds on this machine, another driver's included.
        ray.init(address="local", include_dashboard=False, _system_config=NO_TASK_EVENTS, **options)
        worker.global_worker.get_serialization_context()  # made at its first use, which must be in here


def _start_no_api_server(node: Any, **_: Any) -> None:
    node._webui_url = None


def _apply_nothing(_context: Any) -> None: ...


def _get_node_when_there(get_node: Callable[[str, str], Any], gcs_address: str, node_id: str) -> Any:
    """get_node asks once a second. That a node does not come within the time Ray gives it is left to it to report."""
    from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue]

    client = GcsClient(address=gcs_address)
    patience = time.monotonic() + NODE_SECONDS
    while time.monotonic() < patience:
        if any(there.hex() == node_id for there in client.get_all_node_info(timeout=NODE_SECONDS)):
            break
        time.sleep(LOOK_SECONDS)
    return get_node(gcs_address, node_id)


@contextmanager
def _replaced(owner: Any, name: str, instead: Any) -> Generator[None]:
    before = getattr(owner, name)
    setattr(owner, name, instead)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _unimportable(name: str) -> Generator[None]:
    there = sys.modules.get(name)
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]
        if there is not None:
            sys.modules[name] = there
