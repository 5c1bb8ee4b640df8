"""Test early cutoff: marin reuses an output of the same action under another identity, and nothing runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from marin.plan.acceptance import accept_planned
from marin.plan.decision import Action, OnDrift
from marin.steps.step import Context
from marin.store.files.verify import Check
from marin.store.inventory import Inventory
from marin.store.store import Store
from tests.support.aging import rewrite_record
from tests.support.toy import Blob, Count, Fail, Join, Write, execute, planned, ran, run, runs_otherwise, statuses


@contextmanager
def version(operator: type[Write], number: int) -> Iterator[None]:
    before = operator.version
    operator.version = number
    try:
        yield
    finally:
        operator.version = before


def chain(text: str = "hello", encoding: str = "utf-8") -> Join:
    a = Write(text=text, encoding=encoding, label="a")
    b = Join(parts=(a, Write(text="world", label="w")), label="b")
    return Join(parts=(b,), label="c")


def test_a_version_bump_upstream_that_gives_the_same_bytes_costs_one_step(prefix: str) -> None:
    run(prefix, end=chain(), other=Write(text="!", label="x"))
    with version(Write, 2):
        plan = planned(prefix, end=chain())
        actions = {decision.step.name: str(decision.action) for decision in plan.decisions}
        assert actions == {"toy-write/a": "run", "toy-write/w": "run", "toy-join/b": "recheck", "toy-join/c": "recheck"}
        assert plan.of(chain()).reason == "runs only if other bytes come from toy-join/b"
        again = execute(plan)
        assert statuses(again) == {
            "toy-write/a": "ran",
            "toy-write/w": "ran",
            "toy-join/b": "alias",
            "toy-join/c": "alias",
        }
        assert ran(run(prefix, end=chain())) == set()
        record = again.results[chain()].record
        assert record is not None
        assert record.alias_of
        assert record.identity == chain().identity
        assert Store(prefix).verify(record, Check.CHECKSUMS) == []
        assert "as an alias: the bytes are those of toy-join/c-" in planned(prefix, end=chain()).of(chain()).reason
    assert record.alias_of == chain().identity


def test_a_field_that_selects_the_same_bytes_costs_one_step(prefix: str) -> None:
    run(prefix, end=chain())
    assert ran(run(prefix, end=chain(encoding="ascii"))) == {"toy-write/a"}


def test_other_bytes_are_not_cut_off(prefix: str) -> None:
    run(prefix, end=chain())
    assert ran(run(prefix, end=chain(text="hullo"))) == {"toy-write/a", "toy-join/b", "toy-join/c"}


def test_what_is_known_before_anything_runs_is_planned_as_an_alias(prefix: str) -> None:
    run(prefix, end=chain(), early=Write(text="hello", encoding="ascii", label="a2"))
    plan = planned(prefix, end=chain(encoding="ascii"))
    assert {str(decision.action) for decision in plan.decisions} == {"cached", "alias"}
    assert "nothing to run" in plan.of(chain(encoding="ascii")).reason
    assert ran(execute(plan)) == set()


def test_an_alias_of_an_alias_names_the_original(prefix: str) -> None:
    original = run(prefix, end=chain()).results[chain()].record
    run(prefix, end=chain(encoding="ascii"))
    last = chain(encoding="latin-1")
    record = run(prefix, end=last).results[last].record
    assert original is not None
    assert record is not None
    assert record.alias_of == original.identity
    assert record.attempt == original.attempt


def test_an_output_that_other_code_made_is_no_alias(prefix: str) -> None:
    run(prefix, end=chain())
    _age_code(prefix, chain().identity)
    assert ran(run(prefix, end=chain(encoding="ascii"))) == {"toy-write/a", "toy-join/c"}


def test_accepted_drift_is_accepted_for_the_alias_too(prefix: str) -> None:
    run(prefix, end=chain())
    _age_code(prefix, chain().identity)
    accept_planned(planned(prefix, on_drift=OnDrift.ACCEPT, end=chain()))
    assert ran(run(prefix, end=chain(encoding="ascii"))) == {"toy-write/a"}
    decision = planned(prefix, end=chain(encoding="ascii")).of(chain(encoding="ascii"))
    assert decision.action is Action.CACHED
    assert any("accepted for toy-join/c" in note for note in decision.notes)


def test_a_damaged_output_is_no_alias(prefix: str) -> None:
    record = run(prefix, end=chain()).results[chain()].record
    assert record is not None
    (Path(prefix) / record.attempt / "text.txt").write_text("gone bad")
    assert ran(run(prefix, end=chain(encoding="ascii"))) == {"toy-write/a", "toy-join/c"}


def test_rebuild_makes_an_alias_anew(prefix: str) -> None:
    run(prefix, end=chain())
    new = chain(encoding="ascii")
    run(prefix, end=new)
    assert ran(run(prefix, rebuild=("c",), end=new)) == {"toy-join/c"}
    record = Store(prefix).record(new.identity)
    assert record is not None
    assert not record.alias_of
    assert record.identity[:12] in record.attempt


def test_an_output_that_was_remade_from_other_bytes_no_longer_serves_the_old_action(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(prefix, end=chain())
    before = Write.run

    def shout(self: Write, ctx: Context) -> Blob:
        made = before(self, ctx)
        ctx.out.write_text("text.txt", ctx.out.read_text("text.txt").upper())
        return made

    runs_otherwise(monkeypatch, Write, shout)
    plan = planned(prefix, rebuild=("a",), end=chain())
    execute(plan)  # b and c hold the shouted text now, under their old identities
    monkeypatch.undo()
    quiet = chain(encoding="ascii")
    assert {"toy-join/b", "toy-join/c"} <= ran(run(prefix, end=quiet))
    record = Store(prefix).record(quiet.identity)
    assert record is not None
    assert Store(prefix).output(record).read_text("text.txt") == "hello world"


def test_milestones_follow_their_run(prefix: str) -> None:
    class Train(Count, op="toy-train"):
        data: Write

    def forked(encoding: str) -> dict[str, Fail]:
        training = Train(end=4, data=Write(text="data", encoding=encoding), label="t")
        return {"late": training, "fork": training.at(2)}  # type: ignore[dict-item]

    run(prefix, **forked("utf-8"))
    again = run(prefix, **forked("ascii"))
    assert set(statuses(again).values()) == {"ran", "alias"}
    assert ran(again) == {forked("ascii")["late"].data.name}  # type: ignore[attr-defined]


def test_a_rebuild_keeps_the_record_that_it_replaces(prefix: str) -> None:
    first = run(prefix, end=chain()).results[chain()].record
    run(prefix, rebuild=("c",), end=chain())
    assert Inventory(Store(prefix)).past() == ([first], [])


def _age_code(prefix: str, identity: str) -> None:
    """Change the record: it now says that other code made this output."""
    rewrite_record(Store(prefix), identity, code="0" * 64)
