"""Trace the devices and this host during a few optimizer steps, for Perfetto."""

# pyright: basic
from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import jax

from marin.store.files.directory import Directory
from marin.training.spec import PROFILE, TrainingSpec

WRITTEN = "perfetto_trace.json.gz"  # by JAX, somewhere below its folder


class Profile:
    """The trace of the steps that ``spec.profile`` names, on the leading process, into the work in progress."""

    def __init__(self, spec: TrainingSpec, note: Callable[[str], None], *, leads: bool) -> None:
        self._spec, self._note = spec, note
        asked = spec.profile or (0, -1)
        self._first, self._last = max(asked[0], spec.first_step), min(asked[1], spec.end_step - 1)
        self._wanted = leads and self._first <= self._last
        self._folder: str | None = None  # of the trace, while it is recorded
        if spec.profile is not None and self._first > self._last:
            note(f"no profile of steps {asked[0]:,} to {asked[1]:,}: the run makes {spec.first_step:,} to "
                 f"{spec.end_step - 1:,}")  # fmt: skip

    def before(self, step: int) -> None:
        """Start the trace if ``step`` is its first step. Call this before every step."""
        if not self._wanted or self._folder is not None or step != self._first:
            return
        options = jax.profiler.ProfileOptions()
        options.python_tracer_level = 0  # otherwise nine tenths of the events are Python's frames
        self._folder = tempfile.mkdtemp(prefix="marin-profile-")
        jax.profiler.start_trace(self._folder, create_perfetto_trace=True, profiler_options=options)

    def after(self, step: int) -> None:
        """End the trace after its last step, or after the run's. Call this after every step."""
        if self._folder is None or step < self._last:
            return
        jax.profiler.stop_trace()
        [trace] = Path(self._folder).rglob(WRITTEN)
        Directory(self._spec.state).write_bytes(PROFILE, trace.read_bytes())
        shutil.rmtree(self._folder)
        self._folder = None
        self._note(f"profile of steps {self._first:,} to {step:,}: {PROFILE}, for https://ui.perfetto.dev")
