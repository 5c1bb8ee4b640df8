"""Show a run live in W&B or trackio, on request. metrics.jsonl stays the record.

Both trackers have one interface and read their own environment (WANDB_*, TRACKIO_*), so your configuration of them
holds here. A failing tracker stops no training: the log says so once, and nothing is lost.
"""

# pyright: basic
from __future__ import annotations

import errno
import importlib
import json
import numbers
import os
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = "marin"
SAMPLES = "what it writes"
PROBE = 4096  # bytes: a block of a disk
SETTINGS: Mapping[str, Mapping[str, Any]] = {"wandb": {"save_code": False}, "trackio": {"embed": False}}
# The fields of the specification to show: no address of a store, because an address may hold a credential.
SHOWN = ("model", "vocabulary", "optimizer", "schedule", "precision", "stages", "interpolations", "batch", "shuffle",
         "seed", "block", "seq_len", "first_step", "end_step")  # fmt: skip


# A function of a row of metrics and the lines that the model wrote after that step.
type Track = Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], None]


@dataclass(frozen=True, kw_only=True)
class Tracked:
    """The tracker of a run, and the run's name there."""

    tracker: str  # the module: "wandb" or "trackio"
    name: str  # of the run, as people read it
    identity: str  # of the step: a resumed run goes on in the same place


@contextmanager
def tracking(run: Tracked | None, config: str, note: Callable[[str], None]) -> Generator[Track]:
    """Yield a function that tracks a row of metrics.

    config: the specification in JSON. note: receives one message if the tracker fails.
    """
    opened = _Open(note)
    if run is not None:
        opened.begin(run, {name: held for name, held in json.loads(config).items() if name in SHOWN})
    try:
        yield opened.log
    finally:
        opened.end()


class _Open:
    def __init__(self, note: Callable[[str], None]) -> None:
        self._note, self._run = note, None
        self._module: Any = None
        self._name, self._folder, self._is_full = "", "", False

    def begin(self, run: Tracked, config: dict[str, Any]) -> None:
        self._name = run.tracker
        named = {"name": run.name}
        if run.tracker == "wandb":
            named |= {"id": run.identity[:16]}
        else:
            named = {"name": f"{run.name}-{run.identity[:8]}"}
        project = os.environ.get(f"{run.tracker.upper()}_PROJECT", PROJECT)
        with self._guarded():
            self._module = module = importlib.import_module(run.tracker)
            self._run = module.init(project=project, config=config, resume="allow", **named, **SETTINGS[run.tracker])
            self._folder = str(Path(self._run.dir).parent if run.tracker == "wandb" else module.TRACKIO_DIR)

    def log(self, row: Mapping[str, Any], wrote: Sequence[Mapping[str, Any]] = ()) -> None:
        """Send a row to the tracker. wrote: lines of samples.jsonl, which both trackers show as a table."""
        if self._run is None:
            return
        values = {name: held for name, held in row.items() if isinstance(held, numbers.Real) and name != "step"}
        values |= {f"sources/{name}": count for name, count in row.get("sources", {}).items()}
        with self._guarded():
            if wrote and not self._is_full:  # a table is a file
                columns = list(wrote[0])
                rows = [[line[name] for name in columns] for line in wrote]
                values[SAMPLES] = self._module.Table(columns=columns, data=rows)
            self._run.log(values, step=row["step"])
            self._look_for_room(row["step"])

    def _look_for_room(self, step: int) -> None:
        """Emit a note, once, if the tracker's disk is full. The tracker's own process does not report this error."""
        if self._is_full:
            return
        try:
            with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
                file.write(bytes(PROBE))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                return
            self._is_full = True
            self._note(
                f"{self._name} may lack this run's steps from {step:,} on: {error.strerror} in {self._folder}; "
                "metrics.jsonl has every step"
            )

    def end(self) -> None:
        if self._run is not None:
            with self._guarded():
                self._run.finish()
            self._run = None

    @contextmanager
    def _guarded(self) -> Generator[None]:
        try:
            yield
        except Exception as error:  # whatever it is, the training matters more
            self._run = None
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            self._note(f"{self._name} does not track this run any more ({line}); metrics.jsonl has every step")
