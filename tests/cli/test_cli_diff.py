"""Test ``marin diff`` on real checkouts. It builds each side from its own code, and changes nothing in the checkout."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from marin.cli.commands import main
from tests.cli.test_cli import EXPERIMENT_ERROR, OK, STORE_ERROR
from tests.support.project import ROOT, Project

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def diff(*arguments: str, expect: int = OK) -> str:
    """Return the output of ``marin diff``. The command builds each side in its own process even here."""
    done = CliRunner().invoke(main, ["diff", *arguments])
    assert done.exit_code == expect, done.output
    return done.stdout if expect == OK else done.stderr


class Checkout(Project):
    """A project with one commit on main."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.git("init", "-q", "-b", "main")
        (folder / ".gitignore").write_text("store\n")
        self.commit("first")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(self.folder), *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **IDENTITY},
        )
        return done.stdout.strip()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def edit_experiment(self, old: str, new: str) -> None:
        source = self.file.read_text()
        assert old in source
        self.file.write_text(source.replace(old, new))

    def diff(self, *arguments: str, expect: int = OK) -> str:
        return diff(str(self.file), *arguments, expect=expect)

    def told(self, *arguments: str) -> Any:
        return json.loads(self.diff(*arguments, "--json"))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def fates(told: Any) -> dict[str, str]:
    return {(step["new"] or step["old"]).partition("#")[0]: step["fate"] for step in told["steps"]}


def test_the_working_tree_against_the_last_commit(checkout: Checkout) -> None:
    checkout.edit_experiment('text="hello"', 'text="bye"')
    before = {path: path.stat().st_mtime_ns for path in checkout.folder.rglob("*")}
    told = checkout.told()
    assert fates(told) == {"say/say": "changed", "repeat/repeat": "follows"}
    assert told["steps"][0]["field_changes"] == [{"place": "text", "old": "hello", "new": "bye"}]
    assert told["to"] == "working tree"
    assert told["from"].startswith(checkout.git("rev-parse", "HEAD")[:8])
    # Nothing was written, .git and bytecode included.
    assert {path: path.stat().st_mtime_ns for path in checkout.folder.rglob("*")} == before


def test_what_is_set_is_the_new_side(checkout: Checkout) -> None:
    setting = ("--set", "say.text=bye")
    told = checkout.told(*setting)
    assert fates(told) == {"say/say": "changed", "repeat/repeat": "follows"}
    assert told["steps"][0]["field_changes"] == [{"place": "text", "old": "hello", "new": "bye"}]
    assert (told["from"], told["to"]) == ("as it is", "say.text=bye")
    first = checkout.git("rev-parse", "HEAD")
    checkout.edit_experiment('text="hello"', 'text="bye"')
    checkout.commit("second")
    assert checkout.told("--from", first, "--set", "say.text=hello")["same"]
    assert "no step has that label" in checkout.diff("--set", "nobody.text=x", expect=EXPERIMENT_ERROR)


def test_each_side_imports_its_own_code(checkout: Checkout) -> None:
    """The old revision's imports are gone from the working tree, and today's imports did not exist then."""
    first = checkout.git("rev-parse", "HEAD")
    checkout.git("mv", "lib", "library")
    checkout.edit_experiment("from lib.words", "from library.words")
    checkout.edit_experiment('text="hello"', 'text="bye"')
    told = checkout.told("--from", first)
    assert fates(told) == {"say/say": "changed", "repeat/repeat": "follows"}
    units = {change["unit"]: change["how"] for change in told["code"]}
    assert units["library.words.shout"] == "moved"
    assert not any(change["drifts"] for change in told["code"])


def test_a_file_that_moved_is_no_other_code(checkout: Checkout) -> None:
    checkout.git("mv", "lib", "library")
    checkout.edit_experiment("from lib.words", "from library.words")
    told = checkout.told()
    assert set(fates(told).values()) == {"reused"}
    assert {change["how"] for change in told["code"]} == {"moved"}
    assert not any(change["drifts"] for change in told["code"])
    assert "moved or renamed, the code is the same" in " ".join(checkout.diff().split())


def test_other_code_at_the_same_identity_is_shown_with_what_is_committed(checkout: Checkout) -> None:
    checkout.run()
    checkout.edit("MARK * times", "MARK * times * 2")
    told = checkout.told("--prefix", str(checkout.store))
    assert set(fates(told).values()) == {"reused"}
    assert not told["same"]
    [change] = told["code"]
    assert change["unit"] == "lib.words.ending"
    assert change["drifts"] == [told["steps"][0]["new"]]
    assert told["store"]["new"]["to_run"] == []
    drifts = "1 committed outputs were built by the earlier code"
    assert drifts in checkout.diff("--prefix", str(checkout.store))
    checkout.run("--on-drift", "rebuild")
    assert drifts not in checkout.diff("--prefix", str(checkout.store)), "made again by the code of now"


def test_what_a_change_costs_on_a_store(checkout: Checkout) -> None:
    checkout.run()
    checkout.edit_experiment("source=say", "source=Repeat(source=Repeat(source=say, label='1'), label='2')")
    told = checkout.told("--prefix", str(checkout.store))
    assert told["store"]["old"]["to_run"] == []
    by_identity = {step["new"].partition("#")[2]: step["new"].partition("#")[0] for step in told["steps"]}
    assert [by_identity[identity] for identity in told["store"]["new"]["to_run"]] == ["repeat/2", "repeat/repeat"]
    assert "no store at" in checkout.diff("--prefix", str(checkout.folder / "elsewhere"), expect=STORE_ERROR)


def test_a_branch_is_compared_with_where_it_left_main(checkout: Checkout) -> None:
    fork = checkout.git("rev-parse", "HEAD")
    checkout.git("switch", "-q", "-c", "work")
    checkout.edit_experiment('text="hello"', 'text="bye"')
    checkout.commit("the work")
    checkout.git("switch", "-q", "main")
    checkout.edit_experiment('label="say"', 'label="said"')
    checkout.commit("others' work")
    checkout.git("switch", "-q", "work")
    told = checkout.told()
    assert told["from"] == f"{fork[:8]} (where it left main)"
    assert fates(told) == {"say/say": "changed", "repeat/repeat": "follows"}
    checkout.edit_experiment('text="bye"', 'text="not committed"')
    told = checkout.told("--from", "main", "--to", "work")
    assert told["to"] == f"work ({checkout.git('rev-parse', 'HEAD')[:8]})"
    assert fates(told) == {"say/say": "new", "repeat/repeat": "changed", "say/said": "gone"}


def test_a_file_that_is_new_and_one_that_is_gone(checkout: Checkout) -> None:
    other = checkout.folder / "exp2_other.py"
    other.write_text(checkout.file.read_text())
    told = json.loads(diff(str(other), "--json"))
    assert fates(told) == {"say/say": "new", "repeat/repeat": "new"}
    checkout.file.unlink()
    assert set(fates(checkout.told()).values()) == {"gone"}


def test_two_files(checkout: Checkout) -> None:
    other = checkout.folder / "exp2_other.py"
    other.write_text(checkout.file.read_text().replace('text="hello"', 'text="bye"'))
    told = checkout.told(str(other))
    assert fates(told) == {"say/say": "changed", "repeat/repeat": "follows"}
    assert (told["from"], told["to"]) == (str(checkout.file), str(other))
    assert "did you mean" in checkout.diff(str(checkout.folder / "exp2_othr.py"), expect=EXPERIMENT_ERROR)


def test_markdown(checkout: Checkout) -> None:
    checkout.edit_experiment('text="hello"', 'text="a|b_c"')
    said = checkout.diff("--markdown")
    assert said.startswith("### exp1_toy, full scale: ")
    assert "  - text: hello → a\\|b\\_c" in said.splitlines()
    assert "#### Changed inputs only" in said


def test_nothing_differs(checkout: Checkout) -> None:
    assert "no difference: the same 2 steps" in checkout.diff()


def test_errors_say_which_side_and_what_to_do(checkout: Checkout, tmp_path: Path) -> None:
    assert "did you mean main?" in checkout.diff("--from", "mian", expect=EXPERIMENT_ERROR)
    checkout.edit_experiment("say = Say(", "say = Sy(")
    said = checkout.diff(expect=EXPERIMENT_ERROR)
    assert "working tree" in said
    assert "NameError: name 'Sy' is not defined" in said
    assert "say = Sy(" in said
    alone = tmp_path / "alone.py"
    alone.write_text(checkout.file.read_text())
    assert "not in a git checkout" in diff(str(alone), expect=EXPERIMENT_ERROR)
    assert "exists on neither side" in diff(str(checkout.folder / "exp1_tay.py"), expect=EXPERIMENT_ERROR)


def test_what_an_experiment_prints_is_no_part_of_the_diff(checkout: Checkout) -> None:
    checkout.edit_experiment("def build(", "print('noise')\n\n\ndef build(")
    told = checkout.told()  # JSON, whatever the sides print
    assert set(fates(told).values()) == {"reused"}


def test_the_workflow_of_the_howto_writes_what_it_posts(checkout: Checkout) -> None:
    workflow = (ROOT / "docs/howto/review.yml").read_text()
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py") if path.parent.name != "tests"}
    assert [name for name in packages if f'"{name}/**"' not in workflow] == []
    [writes] = [block for block in re.findall(r"run: \|\n((?: {10}.*\n)+)", workflow) if "marin diff" in block]
    writes = textwrap.dedent(writes)
    (checkout.folder / "experiments").mkdir()
    checkout.git("mv", checkout.file.name, f"experiments/{checkout.file.name}")
    checkout.commit("as a repository has it")
    checkout.git("switch", "-q", "-c", "change")
    moved = checkout.folder / "experiments" / checkout.file.name
    moved.write_text(moved.read_text().replace('text="hello"', 'text="bye"'))
    checkout.commit("a change")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "BASE": "main", "PYTHONPATH": f"{checkout.folder}:{ROOT}"}
    subprocess.run(["bash", "-e", "-c", writes], cwd=checkout.folder, env=environment, check=True)
    posted = (checkout.folder / "review.md").read_text()
    assert posted.startswith(f"### {moved.stem}, full scale: main (")
    assert "- text: hello → bye" in posted
