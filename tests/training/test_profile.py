"""A trace of some steps, as Perfetto reads it: gzipped JSON events in Chrome's format."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from marin.cli.run_options import parse_steps
from marin.errors import BadField
from marin.store.files.directory import Directory
from marin.training.spec import PROFILE
from tests.training.runs import small_spec, train_here


def test_steps_are_read_as_people_write_them() -> None:
    assert parse_steps("10-12") == (10, 12)
    assert parse_steps("7") == (7, 7)
    for wrong in ("12-10", "ten", "1-2-3", "-3", ""):
        with pytest.raises(BadField, match="wanted the first and the last, such as 10-12"):
            parse_steps(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [(2, 3), (4, 99)], ids=["within", "to the end"])
def test_a_trace_holds_the_steps_that_were_asked_for(steps: tuple[int, int], tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "run", end_step=6, checkpoint_every=6, profile=steps)
    timings = train_here(spec)
    last = min(steps[1], 5)
    assert any(f"profile of steps {steps[0]} to {last}" in note for note in timings.notes)
    trace = json.loads(gzip.decompress(Directory(spec.state).read_bytes(PROFILE)))
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    named = [event for event in events if event.get("name", "").startswith("train")]
    seen = {int(event["args"]["step_num"]) for event in named if "step_num" in event.get("args", {})}
    assert seen == set(range(steps[0], last + 1))
    assert any("dur" in event for event in events)


@pytest.mark.slow
def test_steps_that_the_run_does_not_make_are_said(tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "run", end_step=2, profile=(9, 10))
    notes = train_here(spec).notes
    assert "no profile of steps 9 to 10: the run makes 0 to 1" in notes
    assert not Directory(spec.state).exists(PROFILE)
