"""Test `marin audit`: one report that groups faults, doubts and people's decisions, with an exit code."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from marin import Context, Pinned
from marin.executor.backends.inline import InlineBackend
from marin.executor.job import RunSettings
from marin.executor.run_results import StepResult
from marin.executor.scheduler import Scheduler
from marin.plan.decision import OnDrift
from marin.report.audit import Audit, audit_plans, audit_store
from marin.report.claims import Grade
from marin.store.files.verify import Check
from marin.store.inventory import read_inventory
from marin.store.layout import VERIFIED, end_name
from marin.store.revocation import revoke, withdraw
from marin.store.store import Store
from marin.store.verifications import last_verified, note_verified
from marin.upkeep.adopt import adopt
from tests.cli.test_cli import DRIFT, STORE_ERROR, Command
from tests.store.test_lineage import of
from tests.support.aging import rewrite_record
from tests.support.project import Project
from tests.support.toy import Blob, Join, Write, execute, planned, run, runs_otherwise

WEB, MATH = Write(text="web", label="web"), Write(text="math", label="math")
CLEAN, MIXED = Join(parts=(WEB,), label="clean"), Join(parts=(WEB, MATH), label="mixed")


def subjects(made: Audit) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for claim in made.claims:
        found.setdefault(claim.subject, set()).update(made.names(claim))
    return found


def test_what_nobody_touched_has_nothing_against_it(any_prefix: str) -> None:
    run(any_prefix, clean=CLEAN, mixed=MIXED)
    assert audit_store(Store(any_prefix)).claims == {}
    made = audit_plans(Store(any_prefix), [planned(any_prefix, clean=CLEAN, mixed=MIXED)])
    assert made.claims == {}
    assert {result.name: len(result.rests_on) for result in made.results} == {"clean": 2, "mixed": 3}


def test_a_revocation_is_said_once_and_of_the_results_that_rest_on_it(prefix: str) -> None:
    run(prefix, clean=CLEAN, mixed=MIXED)
    store = Store(prefix)
    revoke(store, of(prefix, MATH), "holds test items")
    made = audit_plans(store, [planned(prefix, clean=CLEAN, mixed=MIXED)])
    (claim,) = made.claims
    assert claim.grade is Grade.UNTRUSTED
    assert claim.text.endswith("holds test items")
    assert set(made.names(claim)) == {"toy-write/math", "toy-join/mixed"}
    assert {result.name: made.about(result) for result in made.results} == {"clean": [], "mixed": [claim]}
    assert audit_store(store).claims.keys() == made.claims.keys()
    withdraw(store, of(prefix, MATH), "it does not")
    assert audit_store(store).claims == {}


def test_what_somebody_decided_is_good_to_know(prefix: str, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("from elsewhere")
    given: dict[str, Any] = {"kind": "toy-blob", "label": "out", "because": "the paper's", "facts": {"bytes": 1}}
    record = adopt(Store(prefix), str(outside), **given, on_message=lambda _: None).record
    pin: Pinned[Blob] = Pinned(at=record.attempt, digest=record.root, label="pin")
    run(prefix, end=dataclasses.replace(MIXED, parts=(WEB, MATH)), pinned=pin)
    run(prefix, rebuild=("math",), on_drift=OnDrift.ACCEPT, end=MIXED)
    made = audit_plans(Store(prefix), [planned(prefix, end=MIXED, pinned=pin)])
    assert made.of(Grade.UNTRUSTED) == made.of(Grade.DOUBTFUL) == []
    assert subjects(made) == {
        "adopted": {"adopt/out"}, "pinned": {"pinned/pin"}, "made again": {"toy-write/math"},
    }  # fmt: skip
    (adopted,) = [claim.text for claim in made.claims if claim.subject == "adopted"]
    assert adopted == f"from {outside}: the paper's"


def test_how_it_was_made_may_be_doubtful(prefix: str) -> None:
    plan = planned(prefix, mixed=MIXED)
    Scheduler(plan, InlineBackend(), _say_nothing, RunSettings(git="0123456789abcdef+dirty")).execute()
    assert subjects(audit_store(Store(prefix))) == {
        "dirty git tree": {"toy-write/web", "toy-write/math", "toy-join/mixed"}
    }
    store = Store(prefix)
    for path in (Path(prefix) / ".marin/code").iterdir():
        path.unlink()
    for record in read_inventory(store).newest_first():
        when = structs.replace(record.provenance, git="", started="2020-01-01 00:00:00")
        packages = record.packages | {"numpy": "0.1"}
        rewrite_record(store, record.identity, packages=packages, provenance=when)
    made = audit_store(store)
    assert set(subjects(made)) == {"code not kept", "not verified", "packages"}
    (package,) = [claim.text for claim in made.claims if claim.subject == "packages"]
    assert package.startswith("numpy 0.1, here ")
    assert "not verified" not in subjects(audit_store(store, days=365 * 100))


def test_bytes_and_records_that_are_not_what_they_were(prefix: str) -> None:
    run(prefix, mixed=MIXED)
    store, math, web = Store(prefix), of(prefix, MATH), of(prefix, WEB)
    (Path(prefix) / math.attempt / "text.txt").write_text("MATH")
    os.utime(Path(prefix) / web.attempt / "text.txt", (1, 1))
    made = audit_store(store)
    assert subjects(made) == {"damaged": {"toy-write/math"}, "touched": {"toy-write/web"}}
    (Path(prefix) / end_name(math.identity, math.token)).write_text("{")
    made = audit_plans(store, [planned(prefix, mixed=MIXED)])
    assert set(subjects(made)) == {"corrupt record", "touched", "corrupt", "record gone"}
    assert [claim.grade for claim in made.about(made.results[0])][:2] == [Grade.DOUBTFUL, Grade.KNOWN]


def test_what_was_made_from_bytes_that_a_rebuild_replaced(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(prefix, mixed=MIXED)
    runs_otherwise(monkeypatch, Write, _other)
    execute(planned(prefix, rebuild=("math",), end=MATH))
    monkeypatch.undo()
    made = audit_store(Store(prefix))
    assert subjects(made)["replaced input"] == {"toy-join/mixed"}


def _other(_: Write, ctx: Context) -> Blob:
    ctx.out.write_text("text.txt", "other")
    return Blob(bytes=5)


def _say_nothing(_event: str, _result: StepResult) -> None:
    """Nobody looks on."""


def test_the_command_is_short_and_ends_with_a_code(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    assert "there is no store" in marin("audit", *where, expect=STORE_ERROR)
    project.run()
    assert "nothing against it" in marin.on("audit")
    marin("audit", "--bytes", *where)
    project.edit("times: int = 2", "times: int = 3")
    said = marin.on("audit", expect=DRIFT)
    assert "not to be trusted: drifted" in said
    assert "lib.words.ending changed" in said
    marin("audit", *where)  # the store alone does not know today's code
    project.run("--on-drift", "accept", "--because", "marks do not matter")
    assert "marks do not matter" in marin.on("audit")
    told = marin.json("audit")
    assert [(held["name"], [claim["subject"] for claim in held["claims"]]) for held in told["results"]] == [
        ("end", ["drift accepted"])
    ]
    assert "0 results" not in said


def test_a_verification_counts_for_its_days(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    marin, where = Command(project), ("--prefix", str(project.store))
    project.run()
    store = Store(str(project.store))
    for record in read_inventory(store).newest_first():
        long_ago = structs.replace(record.provenance, started="1999-01-01 00:00:00")
        rewrite_record(store, record.identity, provenance=long_ago)
    assert "not verified" in marin("audit", *where)
    (path,) = project.store.glob("say/*/text.txt")
    os.utime(path, (1, 1))
    assert "touched" in marin("audit", *where)
    marin("audit", "--bytes", "--sizes-only", *where)
    assert "not verified" in marin("audit", *where)
    marin("audit", "--bytes", *where)
    said = marin("audit", *where)
    assert "not verified" not in said
    assert "touched" not in said
    assert "nothing is wrong" in said


def test_a_verification_takes_the_place_of_those_that_say_no_more(any_prefix: str) -> None:
    run(any_prefix, mixed=MIXED)
    store = Store(any_prefix)
    math, web = of(any_prefix, MATH).attempt, of(any_prefix, WEB).attempt
    note_verified(store, Check.CHECKSUMS, [math, web])
    note_verified(store, Check.CHECKSUMS, [math])
    assert len(store.objects.list(VERIFIED)) == 2
    assert last_verified(store).keys() == {math, web}
    note_verified(store, Check.BYTES, [web, math])
    assert len(store.objects.list(VERIFIED)) == 1
    assert last_verified(store).keys() == {math, web}


def test_hundreds_of_steps_are_a_short_page(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    prefix, store = str(project.store), Store(str(project.store))
    parts = tuple(Join(parts=(MATH,), separator=str(n), label=f"p{n}") for n in range(120))
    run(prefix, end=Join(parts=parts, label="end"))
    revoke(store, of(prefix, MATH), "holds test items")
    said = Command(project)("audit", "--prefix", prefix, expect=DRIFT)
    assert len(said.splitlines()) < 10
    assert "118 more" in said
