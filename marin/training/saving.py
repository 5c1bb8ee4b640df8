"""Save a run while it goes on, and find the checkpoint to resume from.

The devices copy a checkpoint's arrays to the host, and the host writes them while the next steps train. The checkpoint
counts once all processes have written their part: then the first process writes its marker and removes superfluous
checkpoints.
"""

# pyright: basic
from __future__ import annotations

import queue
import re
import shutil
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
from jax.experimental.array_serialization.serialization import GlobalAsyncCheckpointManager
from levanter.checkpoint import save_checkpoint

from marin.errors import StoreFull, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.initial_state import InitialState
from marin.training.processes import together

# If the last checkpoint turns out to be unreadable, the run resumes from the one before.
RECENT = 2
COMMIT_SECONDS = 1800  # for the slowest process to write its part
NO_SPACE = re.compile("ENOSPC|EDQUOT|No space left|Disk quota exceeded")  # also matches tensorstore's messages

Emit = Callable[..., None]


class Saving:
    """The checkpoints of one run, side by side below ``directory``; at most one is being written.

    keep: steps whose checkpoints stay, besides the last RECENT. emit receives "note", and "checkpoint" for each
    complete checkpoint, also for checkpoints in ``keep`` that an earlier process left. Only the first of several
    processes emits "checkpoint" for new checkpoints and writes the files that are not arrays.
    """

    def __init__(self, directory: Directory, keep: Sequence[int], emit: Emit) -> None:
        self._directory, self._keep, self._emit = directory, frozenset(keep), emit
        self._leads = jax.process_index() == 0
        self._manager = GlobalAsyncCheckpointManager(timeout_secs=COMMIT_SECONDS)
        self._writing: int | None = None
        self._complete: queue.SimpleQueue[int] = queue.SimpleQueue()  # complete but not announced yet

    def complete_steps(self) -> list[int]:
        return checkpoint.complete_steps(self._directory)

    def resume(self, initial: InitialState) -> tuple[Any, Directory] | None:
        """Return the state and the directory of the newest good checkpoint; None if there is no checkpoint at all.

        A good checkpoint has all its files, every array that this run needs, and only finite numbers. Raises
        UnreadableCheckpoint if there are checkpoints and none is good.
        """
        steps = self.complete_steps()
        self.remove_half_written()
        bad: dict[int, str] = {}
        for step in reversed(steps):
            source = checkpoint.step_directory(self._directory, step)
            try:
                state = initial.resume(source)
            except UnreadableCheckpoint as error:
                bad[step] = str(error)
                self._emit("note", text=f"CANNOT RESUME from step {step}: {error}")
                continue
            if bad:
                self._emit("note", text=f"going on from step {step} instead; the later steps are trained again")
            self._remove(bad)
            self._announce_kept(initial, [held for held in steps if held <= step])
            return state, source
        if bad:
            raise UnreadableCheckpoint(
                f"none of the checkpoints in {self._directory.url} is good, and the run will not start over by "
                "itself: rebuild the step (--rebuild) to train it from the beginning\n"
                + "\n".join(f"  step {step}: {why}" for step, why in sorted(bad.items()))
            )
        return None

    def remove_half_written(self) -> None:
        half_written = checkpoint.half_written_steps(self._directory)
        together("every process has seen which checkpoints there are")
        for step in half_written:
            self._emit("note", text=f"the checkpoint of step {step} was never completed; it is removed, not resumed")
            self._remove([step])

    def must_have_room(self, state: Any, more: int = 0) -> None:
        """Raise StoreFull if a local disk cannot hold one checkpoint: now, not after hours of training.

        more: bytes that the run writes besides the checkpoint.
        """
        if not self._directory.is_local:
            return
        arrays = jax.tree.leaves(state.saveable_state)
        needed = more + sum(array.nbytes for array in arrays if isinstance(array, jax.Array))
        self._directory.path.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._directory.path).free
        if free < needed:
            raise StoreFull(
                f"{self._directory.url}: a checkpoint of this run takes {needed / 2**20:,.1f} MiB, and the disk "
                f"has {free / 2**20:,.1f} MiB left; free some (marin gc) or move the store. Nothing is lost: run again"
            )

    def begin(self, state: Any, facts: checkpoint.Facts, logs: Mapping[str, str]) -> None:
        """Start to write a checkpoint, once the previous one is complete. Returns when ``state`` may change.

        logs: texts to write into the checkpoint, by file name.
        """
        self.finish()
        target = checkpoint.step_directory(self._directory, facts.step)

        def complete() -> None:
            """Complete the checkpoint, in a thread of the first process, after all processes have written."""
            for name, text in logs.items():
                target.write_text(name, text)
            checkpoint.complete(target, facts)
            self._complete.put(facts.step)
            self._remove(set(self.complete_steps()[:-RECENT]) - self._keep)

        self._writing = facts.step
        with self._errors():
            save_checkpoint(
                state.saveable_state,
                facts.step,
                target.url,
                self._manager,
                commit_callback=complete,
                is_temporary=False,
            )

    def announce(self) -> None:
        """Emit "checkpoint" for each newly complete checkpoint. Raises the errors of writing."""
        with self._errors():
            self._manager.check_for_errors()
        while not self._complete.empty():
            self._emit("checkpoint", step=self._complete.get())

    def finish(self) -> None:
        """Wait for the checkpoint that is being written, and announce it."""
        with self._errors():
            self._manager.wait_until_finished()
        self._writing = None
        self.announce()

    @contextmanager
    def _errors(self) -> Generator[None]:
        """On an error in writing, remove the half-written checkpoint, so that the next run has room."""
        try:
            yield
        except Exception as error:
            step, self._writing = self._writing, None
            if self._leads and self._directory.is_local:
                shutil.rmtree(checkpoint.step_directory(self._directory, step or 0).path, ignore_errors=True)
            if not NO_SPACE.search(str(error)):
                raise
            good = self.complete_steps()
            there = f"of step {good[-1]} is good, and the next run goes on from it" if good else "was there before it"
            raise StoreFull(
                f"{self._directory.url}: no space left for the checkpoint of step {step}; free some (marin gc) or move "
                f"the store, and run again. {'The one' if good else 'None'} {there}"
            ) from error

    def _announce_kept(self, initial: InitialState, steps: Sequence[int]) -> None:
        """Emit "checkpoint" for existing milestones: the process that should publish them may have died before."""
        for step in sorted(self._keep & set(steps)):
            source = checkpoint.step_directory(self._directory, step)
            try:
                checkpoint.verify(source)
                if not checkpoint.read_facts(source).finite:
                    initial.resume(source)  # reads every number
            except UnreadableCheckpoint as error:
                self._emit("note", text=f"THE MILESTONE of step {step} is lost: its checkpoint is removed: {error}")
                self._remove([step])
                continue
            self._emit("checkpoint", step=step)

    def _remove(self, steps: Iterable[int]) -> None:
        for step in steps if self._leads else ():
            checkpoint.remove(checkpoint.step_directory(self._directory, step))
