"""Test ``marin gc`` as a user meets it: its report, and deletions that match the report."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from marin import after_use
from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.store.store import Store
from tests.support.aging import age, tree
from tests.support.project import MARIN, Project
from tests.support.toy import Fail, Join, Write, run
from tests.support.visible import visible


def gc(*arguments: str, code: int = Exit.OK) -> str:
    done: Result = CliRunner().invoke(main, ["gc", *arguments])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    """Return a store of 40 days ago: one output whose lifetime is over, one that stays, and a failed attempt."""
    store = str(tmp_path / "store")
    source = Write(text="a" * 5000, label="source", lifetime=after_use(days=30))
    run(store, end=Join(parts=(source,), label="end"))
    run(store, broken=Fail(source=source, label="broken"))
    age(tmp_path / "store", 40)
    return store


def test_it_says_what_would_go_and_deletes_nothing(prefix: str, tmp_path: Path) -> None:
    before = tree(tmp_path)
    said = gc("--prefix", prefix)
    assert tree(tmp_path) == before
    assert "1 output whose lifetime is over: 4.9 KiB in 1 file" in said
    assert "kept 30 days after it was made or last read" in said
    assert "toy-write/source" in said
    assert "1 attempt that never committed" in said
    assert "stays: 1 output" in said
    assert re.search("nothing was deleted; to delete: .*marin gc", said)


def test_it_deletes_what_it_said(prefix: str) -> None:
    told = json.loads(gc("--prefix", prefix, "--json"))
    done = json.loads(gc("--prefix", prefix, "--json", "--delete"))
    assert told["swept"] is None
    assert done["selection"] == told["selection"]
    assert done["swept"]["gone"] == done["selection"]["goes"]
    assert sum(each["bytes"] for each in done["swept"]["gone"]) >= 5000
    for each in done["swept"]["gone"]:
        assert not any((Path(prefix) / place).exists() for place in [*each["folders"], *each["objects"]])
    assert [record.name for record in visible(Store(prefix)).values()] == ["toy-join/end"]


def test_what_goes_is_said_before_it_goes(prefix: str) -> None:
    said = gc("--prefix", prefix, "--delete")
    assert said.index("toy-write/source") < said.index("frees ") < said.index("deleted: ")
    assert "nothing to free" in gc("--prefix", prefix, "--only", "expired", "--delete")


def test_only_one_kind(prefix: str) -> None:
    told = json.loads(gc("--prefix", prefix, "--only", "unfinished", "--json", "--delete"))
    assert {each["kind"] for each in told["selection"]["goes"]} == {"unfinished"}
    assert len(visible(Store(prefix))) == 2


def test_unreachable_needs_an_experiment(prefix: str) -> None:
    for asked in (["--unreachable"], ["--only", "unreachable"]):
        assert "--experiment FILE" in gc("--prefix", prefix, *asked, code=Exit.EXPERIMENT)


def test_there_is_no_store(tmp_path: Path) -> None:
    assert "there is no store" in gc("--prefix", str(tmp_path / "nowhere"), code=Exit.STORE)


def test_an_experiment_keeps_its_steps_at_both_scales(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.file.write_text(project.file.read_text().replace('text="hello"', "text=scale.value"))
    for scale in ("rehearsal", "full"):
        project.run("--scale", scale)
    other = Project(tmp_path / "other")
    other.store = project.store
    other.run()
    age(project.store, 40)
    asked = [MARIN, "gc", "--prefix", str(project.store), "--experiment", str(project.file), "--unreachable", "--json"]

    def told(*more: str) -> list[str]:
        ended = project.started([*asked, *more], cwd=project.folder)
        assert ended.code == 0, ended.said
        goes = json.loads(ended.stdout)["selection"]["goes"]
        return sorted(each["name"] for each in goes if each["kind"] == "unreachable")

    assert told() == ["repeat/repeat", "say/say"], "the other project's"
    assert told("--scale", "full") == ["repeat/repeat"] * 2 + ["say/say"] * 2
    assert told("--delete") == ["repeat/repeat", "say/say"]
    for scale in ("rehearsal", "full"):
        project.run("--scale", scale)
        assert "ran" not in project.run("--scale", scale, "--dry-run").split()
    assert len(visible(Store(str(project.store)))) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
def test_what_belongs_to_somebody_else_stays_with_its_record(prefix: str) -> None:
    folder = Path(prefix) / "toy-write"
    folder.chmod(0o555)
    try:
        assert "you may not delete" in gc("--prefix", prefix, "--delete", code=Exit.STORE)
    finally:
        folder.chmod(0o755)
    assert len(visible(Store(prefix))) == 2
    shutil.rmtree(folder)
