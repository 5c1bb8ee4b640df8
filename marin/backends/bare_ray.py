"""A local Ray cluster for one driver, without what serves larger ones.

Nothing here changes what tasks do. Ray's start and end take about half as long (benchmarks/engine/README.md), and
``ray.init`` has no switch for any of it; Ray's version is pinned.
"""

# pyright: basic

from __future__ import annotations

import functools
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


@contextmanager
def bare() -> Generator[None]:
    """While ``ray.init`` starts a cluster. Left out are

    - the server of a dashboard that there is not (jobs over HTTP, ``ray list``), which the start waits for;
    - most of each node's agent: Ray finds out by importing a module whether there can be a dashboard;
    - the autoscaler's monitor, which takes a second to end, and what forwards logs that nobody asked it to forward.
    """
    from ray._private import node, parameter

    fewer: dict[str, Any] = {"no_monitor": True, "include_log_monitor": False}
    with (
        _replaced(parameter, "RayParams", functools.partial(parameter.RayParams, **fewer)),
        _replaced(node.Node, "start_api_server", _start_no_api_server),
        _unimportable("ray.dashboard.optional_deps"),
    ):
        yield


def _start_no_api_server(node: Any, **_: Any) -> None:
    node._webui_url = None


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
