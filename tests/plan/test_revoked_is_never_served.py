"""marin never reuses a revoked output or an output made from one, by any route."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from marin import Pinned
from marin.errors import Revoked
from marin.plan.decision import Action, OnDrift
from marin.steps.step import ExecutorStep
from marin.store.revocation import revoke
from marin.store.store import Store
from marin.upkeep.adopt import adopt
from tests.plan.test_deleted_outputs import Lottery
from tests.support.toy import Blob, Join, Outside, Write, execute, planned, ran, record_of, run

A = Write(text="a", label="a")
Z = Write(text="z", label="z")  # without this, the join of one text would hold the same bytes as the text
B = Join(parts=(A, Z), separator="+", label="b")
C = Join(parts=(B, Z), separator="-", label="c")


def must_be_refused(prefix: str, named: str, **asked: Any) -> None:
    with pytest.raises(Revoked, match=named):
        planned(prefix, **asked).must_not_stop()


def test_an_input_that_is_made_again_with_the_same_bytes_does_not_redeem_what_is_revoked(prefix: str) -> None:
    run(prefix, end=C)
    revoke(Store(prefix), record_of(prefix, B), "joined wrongly")
    assert planned(prefix, rebuild=("a",), end=C).of(B).action is Action.STOP
    must_be_refused(prefix, "toy-join/b", rebuild=("a",), end=C)


def test_what_was_made_from_revoked_bytes_is_not_cached_when_the_same_bytes_come_again(prefix: str) -> None:
    run(prefix, end=C)
    revoke(Store(prefix), record_of(prefix, A), "bad")
    plan = planned(prefix, rebuild=("a",), end=C)
    assert [plan.of(step).action for step in (A, B, C)] == [Action.RUN, Action.RECHECK, Action.RECHECK]
    ended = execute(plan)
    assert [ended.results[step].status for step in (A, B, C)] == ["failed", "skipped", "skipped"]
    assert "RevokedBytes" in ended.results[A].error


def adopted(prefix: str, tmp_path: Path, step: ExecutorStep[Any]) -> Pinned[Blob]:
    """Adopt a copy of a step's bytes as if they came from elsewhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "text.txt").write_bytes(Store(prefix).output(record_of(prefix, step)).read_bytes("text.txt"))
    done = adopt(
        Store(prefix),
        str(outside),
        kind="toy-blob",
        label="copy",
        because="a test",
        facts={"bytes": 7},
        on_message=print,
    )
    assert done.new
    return Pinned(at=done.record.attempt, digest=done.record.root, label="copy")


def test_an_adopted_copy_of_what_was_made_from_bytes_that_are_revoked_later_is_refused(
    prefix: str, tmp_path: Path
) -> None:
    run(prefix, end=C)
    end = Join(parts=(adopted(prefix, tmp_path, C), Z), separator="/", label="end")
    assert ran(run(prefix, end=end)) == {"toy-join/end"}
    revoke(Store(prefix), record_of(prefix, A), "holds test items")
    must_be_refused(prefix, r"pinned/copy: made from toy-write/a .*holds test items", end=end)
    must_be_refused(prefix, "toy-join/end", end=end)
    more = Join(parts=(*end.parts, Write(text="more", label="more")), label="more")
    must_be_refused(prefix, "pinned/copy", end=more)


def test_rebuilding_drift_does_not_make_again_what_is_revoked_itself(prefix: str, tmp_path: Path) -> None:
    source = tmp_path / "source.txt"
    source.write_text("one")
    read = Outside(path=str(source), label="read")
    end = Join(parts=(read, Z), label="end")
    run(prefix, end=end)
    revoke(Store(prefix), record_of(prefix, read), "the wrong file")
    source.write_text("two")
    assert planned(prefix, on_drift=OnDrift.REBUILD, end=end).of(read).action is Action.STOP
    must_be_refused(prefix, "toy-outside/read: revoked .*the wrong file", on_drift=OnDrift.REBUILD, end=end)
    assert ran(run(prefix, rebuild=("read",), end=end)) == {"toy-outside/read", "toy-join/end"}


def test_what_was_made_from_an_output_that_a_rebuild_replaced_is_judged_by_its_old_inputs(
    prefix: str, tmp_path: Path
) -> None:
    """A newer record has replaced the record of the intermediate output."""
    drawn = tmp_path / "drawn.txt"
    drawn.write_text("test items")
    draw = Lottery(path=str(drawn), label="draw")
    middle = Join(parts=(draw, Z), separator="+", label="middle")
    end = Join(parts=(middle, Z), separator="-", label="end")
    run(prefix, end=end)
    bad = record_of(prefix, draw)
    drawn.write_text("clean")
    assert ran(run(prefix, rebuild=("draw",), middle=middle)) == {"toy-lottery/draw", "toy-join/middle"}
    revoke(Store(prefix), bad, "holds test items")
    must_be_refused(prefix, r"toy-join/end: made from toy-lottery/draw", on_drift=OnDrift.ACCEPT, end=end)


def test_a_revoked_output_is_planned_as_nobodys_alias(prefix: str) -> None:
    run(prefix, end=B)
    twin = Join(parts=(Write(text="a", encoding="ascii", label="twin"), Z), separator="+", label="twins")
    run(prefix, twin=twin.parts[0])
    assert planned(prefix, end=twin).of(twin).action is Action.ALIAS
    revoke(Store(prefix), record_of(prefix, B), "joined wrongly")
    assert planned(prefix, end=twin).of(twin).action is Action.RUN
