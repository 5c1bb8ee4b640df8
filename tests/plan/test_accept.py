"""Accepting drift and rebuilding each record their reason, and every view shows the reason."""

import json
from pathlib import Path
from typing import Any

import pytest

from marin.errors import BadField, CorruptRecord, Revoked
from marin.plan.acceptance import accept_named
from marin.plan.decision import Action, OnDrift
from marin.plan.plan import make_plan
from marin.store.revocation import revoke
from marin.store.store import Store
from tests.cli.test_cli import DRIFT, EXPERIMENT_ERROR, Command
from tests.support.project import Project
from tests.support.toy import Join, Outside, Slowly, Write, execute, experiment, planned, ran, run


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def marin(project: Project) -> Command:
    return Command(project)


def drifted(prefix: str, folder: Path) -> tuple[Outside, Outside]:
    """Return two committed outputs whose outside data has changed since."""
    sources = [folder / "one.txt", folder / "two.txt"]
    for source in sources:
        source.write_text("as it was")
    steps = (Outside(path=str(sources[0]), label="one"), Outside(path=str(sources[1]), label="two"))
    run(prefix, one=steps[0], two=steps[1])
    for source in sources:
        source.write_text("as it is")
    return steps


def test_only_the_named_step_is_accepted_and_nothing_runs(prefix: str, tmp_path: Path) -> None:
    one, two = drifted(prefix, tmp_path)
    (accepted,) = accept_named(planned(prefix, one=one, two=two), [one], "a comma")
    assert accepted.entry.because == "a comma"
    assert accepted.entry.changes == [f"outside data {tmp_path}/one.txt: as it was → as it is"]
    after = planned(prefix, one=one, two=two)
    assert after.of(one).action is Action.CACHED
    assert accepted.entry.describe() in after.of(one).notes
    assert after.of(two).action is Action.STOP
    (tmp_path / "one.txt").write_text("as it will be")
    assert planned(prefix, one=one).of(one).action is Action.STOP  # another change, another decision


def test_what_is_no_drift_is_not_accepted(prefix: str, tmp_path: Path) -> None:
    one, two = drifted(prefix, tmp_path)
    fresh = Write(text="a", label="fresh")
    run(prefix, fresh=fresh)
    plan = planned(prefix, one=one, two=two, fresh=fresh)
    with pytest.raises(BadField, match="--because"):
        accept_named(plan, [one], " ")
    with pytest.raises(BadField, match=r"no drift in toy-write/fresh \(cached\)"):
        accept_named(plan, [fresh], "why not")
    store = Store(prefix)
    record = store.record(fresh.identity)
    assert record is not None
    revoke(store, record, "bad")
    with pytest.raises(Revoked, match="A revocation is not drift"):
        accept_named(planned(prefix, one=one, fresh=fresh), [one, fresh], "why not")
    other = store.record(two.identity)
    assert other is not None
    (Path(prefix) / other.attempt / "text.txt").write_text("broken")
    with pytest.raises(CorruptRecord, match="damage, not drift"):
        accept_named(planned(prefix, one=one, two=two), [one, two], "why not")
    assert store.acceptances.about(one.identity) == []  # all or nothing


def test_work_in_progress_goes_on_once_it_is_accepted(prefix: str, tmp_path: Path, monkeypatch: Any) -> None:
    switch = tmp_path / "switch"
    step = Slowly(text="slow", switch=str(switch), label="s")
    assert ran(run(prefix, end=step)) == set()
    monkeypatch.setattr(Slowly, "outside", lambda _: {"weather": "rain"})
    plan = planned(prefix, end=step)
    assert plan.of(step).action is Action.STOP
    accept_named(plan, [step], "rain does not count")
    switch.touch()
    plan = planned(prefix, end=step)
    assert plan.of(step).action is Action.RUN
    assert "rain does not count" in plan.of(step).notes[0]
    assert ran(execute(plan)) == {"toy-slowly/s"}
    record = Store(prefix).record(step.identity)
    assert record is not None
    made = {path.name for path in (Path(prefix) / record.attempt).glob("made-*")}
    assert made == {"made-1.txt", "made-2.txt"}  # the first piece is from before


def test_a_record_says_why_its_output_was_made_again(prefix: str, tmp_path: Path) -> None:
    one, two = drifted(prefix, tmp_path)
    end = Join(parts=(one,), label="end")
    because = {}
    for results, rebuild, on_drift in (
        ({"one": one, "two": two, "end": end}, ("two",), OnDrift.REBUILD),
        ({"one": one, "two": two, "end": end}, (), OnDrift.STOP),
    ):
        plan = make_plan(
            experiment(**results), Store(prefix), rebuild=rebuild, on_drift=on_drift, because="the disk was bad"
        )
        execute(plan)
        for name, step in results.items():
            record = Store(prefix).record(step.identity)
            assert record is not None
            because[name] = record.provenance.because
    assert because == {
        "one": f"drifted: outside data {tmp_path}/one.txt: as it was → as it is: the disk was bad",
        "two": "asked for by --rebuild: the disk was bad",
        "end": "",
    }


def test_accept_explain_and_the_page_show_the_same_reason(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    project.edit("MARK * times", "MARK * times * 1")
    refused = marin("accept", str(project.file), "say/sya", "--because", "x", expect=EXPERIMENT_ERROR)
    assert "say/say" in refused
    said = marin("accept", "say", str(project.file), "--because", "times one", "--prefix", str(project.store))
    assert "lib.words.ending changed" in said
    marin.on("plan")
    marin.on("run", "--backend", "inline")
    (told,) = marin.json("plan", "say/say")
    (entry,) = told["accepted"]
    assert entry["because"] == "times one"
    assert entry["changes"][0].startswith("lib.words.ending changed")
    assert "times one" in marin.on("plan", "say/say")
    marin.on("run", "--backend", "inline", "--rebuild", "repeat", "--because", "to be sure")
    (told,) = marin.json("plan", "repeat/repeat")
    assert told["committed"]["because"] == "asked for by --rebuild: to be sure"
    page = (project.store / ".marin/pages/exp1_toy-rehearsal.html").read_text()
    assert "times one" in page
    assert "asked for by --rebuild: to be sure" in page
    assert "<td>made again</td>" in page


def test_accept_as_json_and_what_still_stops(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    project.file.write_text(project.file.read_text().replace('read_text("text.txt") * 2', 'read_text("text.txt") * 3'))
    project.edit("MARK * times", "MARK * times * 1")
    marin.on("plan", expect=DRIFT)
    said = marin("accept", str(project.file), "say", "--because", "x", "--prefix", str(project.store))
    assert "still stopping this experiment: repeat/repeat" in said
    rows = json.loads(
        marin("accept", str(project.file), "repeat", "--because", "y", "--prefix", str(project.store), "--json")
    )
    assert [(row["step"], row["because"]) for row in rows] == [("repeat/repeat", "y")]
    marin.on("plan")
    again = marin("accept", str(project.file), "say", "--because", "x", "--prefix", str(project.store), expect=4)
    assert "nothing to accept" in again
    assert "name the steps" in marin("accept", str(project.file), expect=EXPERIMENT_ERROR)
