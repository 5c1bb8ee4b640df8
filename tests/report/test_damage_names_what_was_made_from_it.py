"""Test that ``marin audit --bytes`` names the outputs built from damaged bytes since their last successful check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from marin.store.files.verify import Check
from marin.store.layout import end_name
from marin.store.store import Store
from marin.store.verifications import note_verified
from tests.cli.test_cli import STORE_ERROR, Command
from tests.executor.test_inputs_are_verified import flip
from tests.support.project import EXPERIMENT, Project

CHAIN = EXPERIMENT.replace(
    '"end": Repeat(source=say, label="repeat")',
    '"end": Repeat(source=Repeat(source=say, label="once"), label="twice"), "other": Say(text="x", label="other")',
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project", CHAIN)
    made.run()
    return made


def records(project: Project, name: str) -> list[Path]:
    """The record of an output, in its own folder and where everybody sees it."""
    (found,) = (p for p in project.store.glob("*/*/.marin/record.json") if json.loads(p.read_text())["label"] == name)
    record = json.loads(found.read_text())
    return [found, project.store / end_name(record["identity"], record["token"])]


def edit(project: Project, name: str, **fields: Any) -> None:
    for path in records(project, name):
        held = json.loads(path.read_text())
        held["provenance"] |= fields
        write(path, held)


def as_an_old_marin_wrote_it(project: Project, name: str) -> None:
    for path in records(project, name):
        held = json.loads(path.read_text())
        for read in held["inputs"]:
            del read["checked"]
        write(path, held)


def write(path: Path, record: dict[str, Any]) -> None:
    """As an old marin wrote it: without the digest of its fields."""
    record.pop("digest", None)
    path.write_text(json.dumps(record))


def damage(project: Project, name: str = "say") -> None:
    flip(records(project, name)[0].parents[1] / "text.txt")


def suspects(project: Project) -> list[list[str]]:
    """Return, for each damaged output, the labels of the outputs that may be built from it."""
    told = json.loads(Command(project).verify("--json", expect=STORE_ERROR))["bytes"]
    named = [each["made_since"] for each in told["wrong"].values()]
    return [[name.partition(" ")[0].partition("/")[2] for name in names] for names in named]


def test_readers_that_looked_at_sizes_only_are_named_with_what_was_made_from_them(project: Project) -> None:
    as_an_old_marin_wrote_it(project, "once")
    damage(project)
    assert suspects(project) == [["once", "twice"]]
    said = Command(project).verify(expect=STORE_ERROR)
    assert "may have been made from the damage since: repeat/once" in said
    assert "--rebuild" in said
    assert "marin revoke" in said


def test_readers_that_compared_every_byte_are_not_named(project: Project) -> None:
    damage(project)
    assert suspects(project) == [[]]
    assert "nothing was made from it since" in Command(project).verify(expect=STORE_ERROR)


def test_what_was_made_before_the_last_good_verification_is_not_named(project: Project) -> None:
    as_an_old_marin_wrote_it(project, "once")
    for name in ("say", "once", "twice"):
        edit(project, name, started="2020-01-01 00:00:00")
    store = Store(str(project.store))
    said = records(project, "say")[0].parents[1].relative_to(project.store)
    note_verified(store, Check.CHECKSUMS, [str(said)])
    damage(project)
    assert suspects(project) == [[]]
    edit(project, "once", started="2020-01-01 00:00:00", seconds=20 * 365 * 86400.0)  # it read on after that
    assert suspects(project) == [["once", "twice"]]


def test_a_later_reader_that_compared_every_byte_clears_the_earlier_ones(project: Project) -> None:
    for name in ("say", "once", "twice"):
        edit(project, name, started="2020-01-01 00:00:00")
    as_an_old_marin_wrote_it(project, "once")
    project.file.write_text(CHAIN.replace('"other": Say(text="x", label="other")', '"o": Twin(source=say, label="o")'))
    twin = CHAIN[CHAIN.index("class Repeat") : CHAIN.index("def build")]
    twin = twin.replace("class Repeat", "class Twin").replace('op="repeat"', 'op="twin"')
    project.file.write_text(project.file.read_text().replace("def build", f"{twin}\ndef build"))
    project.run()
    damage(project)
    assert suspects(project) == [[]]


def test_what_does_not_read_it_is_not_named(project: Project) -> None:
    as_an_old_marin_wrote_it(project, "once")
    as_an_old_marin_wrote_it(project, "twice")
    damage(project, "once")
    assert suspects(project) == [["twice"]]
    damage(project, "once")
    damage(project, "other")
    assert suspects(project) == [[]]
