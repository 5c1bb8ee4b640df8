"""Join several processes, one on each host, that train one run or do other work together."""

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

MEET_SECONDS = 600  # time for all processes to join; a host may first have to install the environment
DEAD_SECONDS = 100  # silence of a process after which the others end too; marin usually ends them earlier


def join(process: Process | None) -> None:
    """Join the run's other processes. Call this before any other use of JAX.

    The first process listens only on the address that the others were given.
    """
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
    """Wait until every process has come here: a process that left early would look dead to the others.

    The first process serves the barriers of the others. If it left early, the news that a checkpoint is complete would
    be lost.
    """
    if process is None:
        return
    import jax

    jax.distributed.shutdown()


def together(what: str) -> None:
    """Wait until every process of the run has come here."""
    import jax
    from jax.experimental import multihost_utils

    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(what)


@reaches()  # the writer of the file names the code in it
def unpickled(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


@dataclass(frozen=True, kw_only=True)
class SharedWork:
    """The work of one process: call ``work(tell)`` together with the others.

    answer: the file for the pickled result of ``work``, None for no file.
    """

    work: Callable[[Callable[..., None]], Any]
    process: Process | None
    answer: str | None

    def __call__(self, tell: Callable[..., None]) -> None:
        join(self.process)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # JAX has set a handler that lets the process go on
        result = self.work(tell)
        if self.answer is not None:
            Path(self.answer).write_bytes(pickle.dumps(result))
        leave(self.process)
