"""marin refuses revoked bytes wherever they are, and every output made from them."""

from pathlib import Path

import pytest

from marin.errors import BadField, CorruptRecord, Revoked
from marin.plan.decision import Action, OnDrift
from marin.steps.pinned import Pinned
from marin.steps.step import ExecutorStep
from marin.store.record import Record
from marin.store.revocation import revoke, withdraw
from marin.store.store import Store
from tests.support.toy import Blob, Join, Write, execute, planned, ran, record_of, run, runs_otherwise

BAD = Write(text="test items", label="bundle")
USER = Join(parts=(BAD, Write(text="web", label="web")), label="tokens")
END = Join(parts=(USER,), label="model")


def refusal(prefix: str, **results: ExecutorStep[Blob]) -> str:
    with pytest.raises(Revoked) as refused:
        planned(prefix, **results).must_not_stop()
    return str(refused.value)


def test_what_was_made_from_revoked_bytes_is_refused_by_name(prefix: str) -> None:
    run(prefix, end=END)
    good = Write(text="clean", label="bundle-clean")
    run(prefix, end=good)
    revoke(Store(prefix), record_of(prefix, BAD), "holds GSM8K test items", record_of(prefix, good))
    said = refusal(prefix, end=END)
    assert "toy-write/bundle: revoked by" in said
    assert "holds GSM8K test items; use toy-write/bundle-clean" in said
    assert f"toy-join/model: made from toy-write/bundle {BAD.identity[:12]} (through toy-join/tokens), revoked" in said
    assert planned(prefix, end=Write(text="web", label="web")).of(Write(text="web")).action is Action.CACHED


def test_the_same_bytes_under_another_label_are_refused(prefix: str) -> None:
    other = Write(text="test items", encoding="ascii", label="innocent")
    run(prefix, end=BAD, other=other)
    revoke(Store(prefix), record_of(prefix, BAD), "bad")
    assert "toy-write/innocent" in refusal(prefix, end=other)


def test_a_rebuild_that_gives_other_bytes_mends_what_follows(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(prefix, end=END)
    revoke(Store(prefix), record_of(prefix, BAD), "bad")
    still = run(prefix, rebuild=("bundle",), end=END)
    failed = next(result for result in still.results.values() if result.status == "failed")
    assert "RevokedBytes: toy-write/bundle wrote the very bytes" in failed.error
    assert ran(still) == set()
    runs_otherwise(monkeypatch, Write, _clean)
    assert ran(run(prefix, rebuild=("bundle",), end=END)) == {"toy-write/bundle", "toy-join/tokens", "toy-join/model"}
    assert planned(prefix, on_drift=OnDrift.ACCEPT, end=END).having(Action.STOP) == []


def _clean(self: Write, ctx: object) -> Blob:
    ctx.out.write_text("text.txt", "clean")  # type: ignore[attr-defined]
    return Blob(bytes=5)


def test_lineage_survives_a_rebuild_in_between(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(prefix, end=END)
    bad = record_of(prefix, BAD)
    runs_otherwise(monkeypatch, Write, _clean)
    plan = planned(prefix, rebuild=("bundle",), end=BAD)  # END is not in this plan, and its record keeps its inputs
    execute(plan)
    monkeypatch.undo()
    revoke(Store(prefix), bad, "bad")
    plan = planned(prefix, on_drift=OnDrift.ACCEPT, end=END)
    assert plan.of(BAD).action is Action.CACHED  # its rebuilt bytes are clean
    assert plan.of(END).action is Action.STOP
    assert "made from" in plan.of(END).reason


def test_a_revoked_output_is_no_alias(prefix: str) -> None:
    run(prefix, end=END)
    revoke(Store(prefix), record_of(prefix, USER), "joined wrongly")
    web = Write(text="web", encoding="ascii", label="web")
    again = run(prefix, end=Join(parts=(BAD, web), label="tokens"))
    assert "RevokedBytes" in next(result.error for result in again.results.values() if result.status == "failed")


def test_withdrawing_a_revocation_needs_one_and_a_reason(prefix: str) -> None:
    run(prefix, end=END)
    store, bad = Store(prefix), record_of(prefix, BAD)
    with pytest.raises(BadField, match="is not revoked"):
        withdraw(store, bad, "oops")
    with pytest.raises(BadField, match="--because"):
        revoke(store, bad, " ")
    revoke(store, bad, "bad")
    withdraw(store, bad, "looked at the wrong file")
    assert planned(prefix, end=END).having(Action.STOP) == []


def test_a_garbled_revocation_stops_every_plan(prefix: str) -> None:
    run(prefix, end=END)
    revoke(Store(prefix), record_of(prefix, BAD), "bad")
    (path,) = (Path(prefix) / ".marin/revocations").iterdir()
    path.write_text(path.read_text() + "{\n")
    with pytest.raises(CorruptRecord, match="is not a readable revocation"):
        planned(prefix, end=END)


def pinned(record: Record, digest: str = "") -> Pinned[Blob]:
    return Pinned(at=record.attempt, digest=digest or record.root, label="old")


def test_a_pin_is_an_alias_of_what_it_names(prefix: str) -> None:
    run(prefix, end=END)
    end = Join(parts=(pinned(record_of(prefix, BAD)),), label="again")
    plan = planned(prefix, end=end)
    assert plan.of(end.parts[0]).reason.startswith("pinned: toy-write/bundle-")
    assert ran(execute(plan)) == {"toy-join/again"}
    assert Store(prefix).output(record_of(prefix, end)).read_text("text.txt") == "test items"
    assert ran(run(prefix, end=end)) == set()


def test_a_pin_of_revoked_bytes_is_refused_used_or_not(prefix: str) -> None:
    run(prefix, end=END)
    used = Join(parts=(pinned(record_of(prefix, USER)),), label="again")
    run(prefix, end=used)
    revoke(Store(prefix), record_of(prefix, BAD), "holds test items")
    said = refusal(prefix, end=used)
    assert "pinned/old: made from toy-write/bundle" in said
    assert "toy-join/again: made from" in said
    fresh = Join(parts=(pinned(record_of(prefix, END)),), label="other")
    assert "pinned/old: the pinned output was made from toy-write/bundle" in refusal(prefix, end=fresh)


def test_a_pin_holds_what_it_says_or_stops(prefix: str) -> None:
    run(prefix, end=END)
    record = record_of(prefix, BAD)
    wrong = planned(prefix, end=pinned(record, "0" * 64))
    assert wrong.having(Action.STOP)[0].reason.endswith("then pin the digest that you mean")
    gone = Pinned[Blob](at="toy-write/elsewhere.0001", digest=record.root)
    assert "is not in" in planned(prefix, end=gone).having(Action.STOP)[0].reason
    run(prefix, end=pinned(record))
    (Path(prefix) / record.attempt / "text.txt").write_text("test ITEMS")
    assert "changed in place" in planned(prefix, end=pinned(record)).having(Action.STOP)[0].reason


@pytest.mark.parametrize(
    ("at", "digest"), [("a/b", ""), ("a/b", "12"), ("", "0" * 64), ("/a/b", "0" * 64), ("a/../../b", "0" * 64)]
)
def test_a_pin_needs_a_place_in_the_store_and_a_digest(at: str, digest: str) -> None:
    with pytest.raises(BadField):
        Pinned(at=at, digest=digest)
