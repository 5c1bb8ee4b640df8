"""Work in progress survives across attempts, never mixes with other code, and is gone after the commit."""

from pathlib import Path

import pytest

from marin.errors import Drift
from marin.plan.plan import OnDrift
from marin.store.record import WorkInProgress
from marin.store.store import Store
from tests.support.toy import Slowly, planned, ran, run, statuses


@pytest.fixture
def step(tmp_path: Path) -> Slowly:
    return Slowly(text="x", switch=str(tmp_path / "switch"), label="s")


def made_here(prefix: str, step: Slowly) -> set[str]:
    """Return the pieces that the committed attempt made itself."""
    store = Store(prefix)
    record = store.record(step.identity)
    assert record is not None
    return {name for name in store.output(record).names() if name.startswith("made-")}


def test_the_next_attempt_goes_on_and_the_state_is_gone_after_the_commit(prefix: str, step: Slowly) -> None:
    assert statuses(run(prefix, end=step)) == {"toy-slowly/s": "failed"}
    Path(step.switch).touch()
    assert ran(run(prefix, end=step)) == {"toy-slowly/s"}
    assert made_here(prefix, step) == {"made-1.txt", "made-2.txt"}
    assert not Store(prefix).state(step.identity).exists()
    run(prefix, rebuild=("s",), end=step)
    assert made_here(prefix, step) == {"made-0.txt", "made-1.txt", "made-2.txt"}


def begun_by_other_code(prefix: str, step: Slowly) -> None:
    run(prefix, end=step)
    store = Store(prefix)
    marker = store.state_marker(step.identity)
    assert marker is not None
    store.mark_state(step.identity, WorkInProgress(code="0" * 64, inputs={}, outside={}))
    Path(step.switch).touch()


def test_work_of_other_code_stops_the_run(prefix: str, step: Slowly) -> None:
    begun_by_other_code(prefix, step)
    with pytest.raises(Drift, match="toy-slowly/s"):
        run(prefix, end=step)


def test_rebuilding_throws_work_of_other_code_away(prefix: str, step: Slowly) -> None:
    begun_by_other_code(prefix, step)
    assert ran(run(prefix, on_drift=OnDrift.REBUILD, end=step)) == {"toy-slowly/s"}
    assert made_here(prefix, step) == {"made-0.txt", "made-1.txt", "made-2.txt"}


def test_accepting_goes_on_with_it(prefix: str, step: Slowly) -> None:
    begun_by_other_code(prefix, step)
    assert planned(prefix, on_drift=OnDrift.ACCEPT, end=step).accepted_because == {step.identity: "a test"}
    assert ran(run(prefix, on_drift=OnDrift.ACCEPT, end=step)) == {"toy-slowly/s"}
    assert made_here(prefix, step) == {"made-1.txt", "made-2.txt"}
