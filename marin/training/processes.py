"""Several processes that train one run, or do other work, together: one on each host."""

# pyright: basic
from __future__ import annotations

import pickle
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marin.steps.reaches import reaches
from marin.training.spec import Process

MEET_SECONDS = 600  # for all of them to have come, of which one may have to be installed first
DEAD_SECONDS = 100  # without a word, after which the others end, too: whoever started them does so earlier


def join(process: Process | None) -> None:
    """Before anything else is done with JAX. Nothing listens but on the address that the others were told."""
    if process is None:
        return
    import jax

    jax.distributed.initialize(
        coordinator_address=process.meeting,
        coordinator_bind_address=process.meeting,
        num_processes=process.count,
        process_id=process.number,
        initialization_timeout=MEET_SECONDS,
        heartbeat_timeout_seconds=DEAD_SECONDS,
    )


def leave(process: Process | None) -> None:
    """Returns once every process has come here; to those that have not, one that has gone would be dead.

    The first one serves what the others wait by: gone, it takes the word with it that a checkpoint is complete.
    """
    if process is None:
        return
    import jax

    jax.distributed.shutdown()


def together(what: str) -> None:
    """Returns once every process of the run has come here."""
    import jax
    from jax.experimental import multihost_utils

    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


@reaches()  # who wrote it names what is in it
def unpickled(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


@dataclass(frozen=True, kw_only=True)
class SharedWork:
    """What one of the processes does: ``work``, given what tells an event. answer: file for what that returns."""

    work: Callable[[Callable[..., None]], Any]
    process: Process | None
    answer: str | None

    def __call__(self, tell: Callable[..., None]) -> None:
        join(self.process)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # JAX has set one that goes on
        result = self.work(tell)
        if self.answer is not None:
            Path(self.answer).write_bytes(pickle.dumps(result))
        leave(self.process)
