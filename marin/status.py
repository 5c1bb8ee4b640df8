"""Where one step stands in a store, whoever worked on it."""

from __future__ import annotations

from typing import Any

from marin.errors import CorruptRecord
from marin.lease import State, read_lease
from marin.step import ExecutorStep
from marin.store import Store


def step_status(store: Store, step: ExecutorStep[Any]) -> dict[str, str]:
    """step, identity, status (committed, running, dead, failed, corrupt, absent), detail."""
    status, detail = _status(store, step)
    return {"step": step.name, "identity": step.identity, "status": status, "detail": detail}


def _status(store: Store, step: ExecutorStep[Any]) -> tuple[str, str]:
    try:
        record = store.record(step.identity)
        lease = read_lease(store.objects, step.identity)
    except CorruptRecord as error:
        return "corrupt", str(error)
    if lease is not None and lease.state is State.HELD:
        if lease.holder.is_gone():
            return "dead", f"{lease.describe()}; its process is gone, the next run takes over"
        return "running", f"{lease.describe()} {lease.progress}".rstrip()
    if record is not None:
        made = record.provenance
        return (
            "committed",
            f"{made.started} by {made.who}, {made.seconds:.1f} s, {record.bytes:,} bytes: {record.attempt}",
        )
    if lease is not None:
        failure = store.failure(lease.attempt)
        if failure is not None:
            return "failed", f"{failure.get('error', 'unknown')} (log: {lease.attempt}/.marin/log.txt)"
    return "absent", "never built"
