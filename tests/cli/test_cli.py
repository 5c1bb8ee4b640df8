"""Test ``marin plan|run|status|audit`` in fresh processes: exit codes, JSON, findings."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from marin.store.layout import ENDS
from marin.store.store import Store
from tests.support.project import EXPERIMENT, MARIN, Project
from tests.support.visible import visible

OK, FAILED, USAGE, DRIFT, EXPERIMENT_ERROR, STORE_ERROR = 0, 1, 2, 3, 4, 5  # docs/exit-codes.md


class Command:
    """Calls of the installed ``marin`` on one project."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def __call__(self, *arguments: str, expect: int = OK, cwd: Path | None = None) -> str:
        ended = self.project.started([*self.program(), *arguments], cwd=cwd)
        assert ended.code == expect, ended.said
        assert "Traceback" not in ended.stderr
        return ended.stdout if expect in (OK, DRIFT) else ended.said

    @staticmethod
    def program() -> list[str]:
        return [MARIN]

    def on(self, command: str, *arguments: str, expect: int = OK) -> str:
        return self(command, str(self.project.file), *arguments, "--prefix", str(self.project.store), expect=expect)

    def json(self, command: str, *arguments: str, expect: int = OK) -> Any:
        return json.loads(self.on(command, *arguments, "--json", expect=expect))

    def verify(self, *arguments: str, expect: int = OK) -> str:
        return self("audit", "--bytes", "--prefix", str(self.project.store), *arguments, expect=expect)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def marin(project: Project) -> Command:
    return Command(project)


def test_plan_run_plan(project: Project, marin: Command) -> None:
    before = marin.json("plan")["steps"]
    assert [(held["step"], held["action"], held["reason"]) for held in before] == [
        ("say/say", "run", "never built"),
        ("repeat/repeat", "run", "never built"),
    ]
    assert not project.store.exists()
    marin.on("run", "--backend", "inline")
    after = marin.json("plan")["steps"]
    assert [held["action"] for held in after] == ["cached", "cached"]
    assert all((project.store / held["output"] / "text.txt").exists() for held in after)
    assert [held["identity"] for held in after] == [held["identity"] for held in before]


def test_a_cached_run_imports_nothing_that_runs_steps(tmp_path: Path) -> None:
    """Importing what runs steps would take as long as the whole rest of a cached run."""
    # The module of the tests' own Blob imports what runs steps.
    own = 'from marin import Artifact\n\n\nclass Blob(Artifact, kind="blob"):\n    bytes: int\n\n\n'
    project = Project(tmp_path / "project", EXPERIMENT.replace("from tests.support.toy import Blob\n", own))
    project.run()
    command = [sys.executable, "-X", "importtime", *project.command()[1:]]
    again = subprocess.run(command, capture_output=True, text=True, env=project.environment(), check=True)
    assert "2 cached" in again.stdout
    imported = set(re.findall(r"\| +(\S+)$", again.stderr, re.MULTILINE))
    assert "marin.cli.carry_out" in imported
    assert imported.isdisjoint(
        {"marin.executor.scheduler", "marin.executor.backends.inline", "jinja2", "fsspec", "ray"}
    )


def test_what_set_changed_is_another_output_and_is_never_served_as_the_unmodified_one(
    project: Project, marin: Command
) -> None:
    marin.on("run", "--backend", "inline")
    setting = ("--set", "say.text=goodbye")
    plan = marin.json("plan", *setting)
    assert plan["set"] == ["say/say.text=goodbye"]
    assert [step["action"] for step in plan["steps"]] == ["run", "recheck"]
    said = marin.on("run", "--backend", "inline", *setting)
    assert "set: say/say.text=goodbye" in said
    pages = {path.name: path.read_text() for path in project.store.glob(".marin/pages/*.html")}
    [changed] = [text for name, text in pages.items() if "goodbye" in name]
    assert len(pages) == 2  # the unchanged experiment keeps its own page
    assert "set on the command line" in changed
    steps = {step["step"]: step for step in marin.json("plan", *setting)["steps"]}
    assert {step["action"] for step in steps.values()} == {"cached"}
    record = json.loads((project.store / steps["repeat/repeat"]["output"] / ".marin/record.json").read_text())
    assert record["provenance"]["changes"] == ["say/say.text=goodbye"]
    unmodified = marin.json("plan")["steps"]
    assert [step["action"] for step in unmodified] == ["cached", "cached"]
    assert not {step["identity"] for step in unmodified} & {step["identity"] for step in steps.values()}
    assert "did you mean say" in marin.on("plan", "--set", "saay.text=x", expect=EXPERIMENT_ERROR)


def test_every_command_that_plans_takes_what_was_set(project: Project, marin: Command) -> None:
    setting = ("--set", "say.text=goodbye")
    marin.on("run", "--backend", "inline", *setting)
    [planned] = [step for step in marin.json("plan", *setting)["steps"] if step["step"] == "say/say"]
    [explained] = marin.json("plan", "say", *setting)
    assert explained["identity"] == planned["identity"] != marin.json("plan", "say")[0]["identity"]
    assert {step["status"] for step in marin.json("status", *setting)} == {"committed"}
    assert {step["status"] for step in marin.json("status")} == {"absent"}
    assert marin.json("audit", *setting)["outputs"] == 2
    file, prefix = ("--experiment", str(project.file)), ("--prefix", str(project.store))
    made = json.loads(marin("lineage", "repeat", *file, *prefix, *setting, "--json"))["outputs"]
    assert planned["identity"] in {node["identity"] for node in made}
    project.edit("MARK * times", "MARK * times * 2")
    [accepted, *_] = marin.json("accept", "say", "--because", "the same to us", *setting)
    assert accepted["identity"] == planned["identity"]
    for command in (("status", *prefix), ("audit", *prefix), ("lineage", "repeat", *prefix)):
        assert "name its file" in marin(*command, *setting, expect=EXPERIMENT_ERROR)


def test_the_file_itself_and_the_command_agree(project: Project, marin: Command) -> None:
    """The file defines the experiment in __main__, the command imports its name. Identities and fingerprints agree."""
    project.run()
    assert [held["action"] for held in marin.json("plan")["steps"]] == ["cached", "cached"]
    marin.on("run", "--backend", "inline", "--rebuild", "say")
    assert "2 cached" in project.run()


def test_the_file_may_be_named_relative_to_any_folder(project: Project, marin: Command, tmp_path: Path) -> None:
    said = marin("plan", "project/exp1_toy.py", "--prefix", "fresh", "--json", cwd=tmp_path)
    assert len(json.loads(said)["steps"]) == 2


def test_drift_is_exit_code_3_and_explain_shows_the_function_and_its_difference(
    project: Project, marin: Command
) -> None:
    marin.on("run", "--backend", "inline")
    project.edit("MARK * times", "MARK * times * 2")
    planned = {held["step"]: held for held in marin.json("plan", expect=DRIFT)["steps"]}
    assert planned["say/say"]["action"] == "stop"
    assert "lib.words.ending" in " ".join(planned["say/say"]["drift"])
    assert planned["repeat/repeat"]["drift"] == []
    [told] = marin.json("plan", "say/say")
    assert list(told["diffs"]) == ["lib.words.ending"]
    lines = told["diffs"]["lib.words.ending"].splitlines()
    assert "-    return MARK * times" in lines
    assert "+    return MARK * times * 2" in lines
    assert "+    return MARK * times * 2" in marin.on("plan", "say/say")
    assert "lib.words.ending" in marin.on("run", "--backend", "inline", expect=DRIFT)


def test_results_that_could_not_be_made_again_are_not_shown_as_if_they_had_been(
    project: Project, marin: Command
) -> None:
    assert "• end: bytes 1" in marin.on("run", "--backend", "inline")
    project.edit("return text.upper() + ending()", "raise RuntimeError(text)")
    said = marin.on("run", "--backend", "inline", "--on-drift", "rebuild", expect=FAILED)
    assert "RuntimeError: hello" in said
    assert "• end" not in said
    page = next((project.store / ".marin/pages").glob("*.html")).read_text()
    assert "bytes 1" not in page


def test_explain_holds_fields_inputs_code_and_what_is_committed(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    [told] = marin.json("plan", "repeat")
    assert told["step"] == "repeat/repeat"
    assert told["inputs"] == ["say/say"]
    assert told["fields"]["source"].startswith("say/say#")
    assert told["committed"]["output"].startswith("repeat/repeat-")
    assert [held["name"] for held in told["committed"]["inputs"]] == ["say/say"]
    [by_identity] = marin.json("plan", told["identity"][:10])
    assert by_identity["identity"] == told["identity"]
    [say] = marin.json("plan", "say/say")
    assert {"lib.words.shout", "lib.words.ending", "lib.words.MARK"} <= set(say["code"]["units"])
    assert "lib.words.unrelated" not in say["code"]["units"]
    assert "python" in say["packages"]
    said = marin.on("plan", "no/such", expect=EXPERIMENT_ERROR)
    assert "no/such" in said


def test_status_says_committed_failed_and_absent(project: Project, marin: Command) -> None:
    assert [held["status"] for held in marin.json("status")] == ["absent", "absent"]
    project.edit("return text.upper() + ending()", "raise RuntimeError(text)")
    marin.on("run", "--backend", "inline", expect=FAILED)
    rows = marin.json("status")
    assert [(held["step"], held["status"]) for held in rows] == [("say/say", "failed"), ("repeat/repeat", "absent")]
    assert "RuntimeError: hello" in rows[0]["detail"]
    project.edit("raise RuntimeError(text)", "return text.upper() + ending()")
    marin.on("run", "--backend", "inline")
    assert [held["status"] for held in marin.json("status")] == ["committed", "committed"]


def test_verify_finds_one_tampered_byte(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    assert json.loads(marin.verify("--json"))["bytes"] == {"check": "checksums", "outputs": 2, "wrong": {}}
    [output] = (project.store / "say").iterdir()
    content = bytearray((output / "text.txt").read_bytes())
    content[0] ^= 1
    (output / "text.txt").write_bytes(content)
    told = json.loads(marin.verify("--json", expect=STORE_ERROR).strip())["bytes"]
    [(name, found)] = told["wrong"].items()
    assert name.startswith("say/say ")
    assert "text.txt" in found["differs"][0]
    assert "--rebuild" in marin.verify(expect=STORE_ERROR)
    marin.verify("--sizes-only", expect=DRIFT)  # the size is right
    assert "0 damaged" in marin.verify("repeat/repeat", expect=DRIFT)  # its own bytes are right
    marin.on("run", "--backend", "inline", "--rebuild", "say/say")
    marin.verify()


def test_verify_of_nothing_is_not_a_success(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    assert "say/sya" in marin.verify("say/sya", expect=EXPERIMENT_ERROR)
    said = marin("audit", "--bytes", "--prefix", str(project.folder / "nostore"), expect=STORE_ERROR)
    assert "nostore" in said


def test_a_label_that_looks_like_markup_is_shown_as_it_is(project: Project, marin: Command) -> None:
    project.file.write_text(project.file.read_text().replace('label="say"', 'label="[/b] [red]x"'))
    marin.on("run", "--backend", "inline")
    for command in ("plan", "status"):
        assert "say/[/b] [red]x" in marin.on(command)
    [output] = (project.store / "say").iterdir()
    (output / "text.txt").write_text("")
    assert "say/[/b] [red]x" in marin.verify(expect=STORE_ERROR)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan",), "EXPERIMENT"),
        (("plan", "x.py", "--scale", "huge"), "huge"),
        (("run", "x.py", "--on-drift", "ignore"), "ignore"),
        (("run", "x.py", "--backend", "slurm"), "slurm"),
        (("run", "x.py", "--no-such-option"), "--no-such-option"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_a_misused_command_is_exit_code_2(marin: Command, arguments: tuple[str, ...], says: str) -> None:
    assert says in marin(*arguments, expect=USAGE)


def test_an_experiment_file_that_is_none_is_exit_code_4(project: Project, marin: Command) -> None:
    folder = project.folder
    (folder / "empty.py").write_text("x = 1\n")
    assert "build(scale)" in marin("plan", str(folder / "empty.py"), expect=EXPERIMENT_ERROR)
    assert "missing.py" in marin("plan", str(folder / "missing.py"), expect=EXPERIMENT_ERROR)
    assert "lib" in marin("plan", str(folder / "lib"), expect=EXPERIMENT_ERROR)
    (folder / "notes.txt").write_text("build")
    assert "not a Python file" in marin("plan", str(folder / "notes.txt"), expect=EXPERIMENT_ERROR)
    (folder / "other").mkdir()
    (folder / "other/json.py").write_text(project.file.read_text())  # this name would import Python's own json
    assert "rename the file" in marin("plan", str(folder / "other/json.py"), expect=EXPERIMENT_ERROR)
    (folder / "odd.py").write_text("def build(scale):\n    return 3\n")
    assert "int" in marin("plan", str(folder / "odd.py"), expect=EXPERIMENT_ERROR)


def test_an_error_of_the_experiment_s_own_code_says_where_it_is(project: Project, marin: Command) -> None:
    good = project.file.read_text()
    for old, new, says in (
        (
            "def build(scale: Scale)",
            "import nowhere\n\n\ndef build(scale: Scale)",
            ("exp1_toy.py:27", "No module named"),
        ),
        ('    say = Say(text="hello"', '    say = Say(text=scale.mood, txt="hello"', ("exp1_toy.py:28", "mood")),
        ('    say = Say(text="hello"', '    say = Say(txt="hello"', ("exp1_toy.py:28", "'text'", "BadField")),
        ("    say = Say(", "    say = = Say(", ("exp1_toy.py:28", "invalid syntax", "say = = Say(")),
        ("    say = Say(", "    raise SystemExit(7)\n    say = Say(", ("exp1_toy.py", "ends Python", "7")),
        (
            "    say = Say(",
            "    shout(3)\n    say = Say(",
            ("words.py:8", "AttributeError", "exp1_toy.py:28", "shout(3)"),
        ),
    ):
        project.file.write_text(good.replace(old, new))
        said = marin.on("plan", expect=EXPERIMENT_ERROR)
        assert all(part in said for part in says), said
        assert said.count(" in build: ") <= 1 or "words.py" in said


def test_unknown_results_and_steps_are_exit_code_4_and_name_what_there_is(marin: Command) -> None:
    assert "end" in marin.on("run", "--backend", "inline", "--only", "start", expect=EXPERIMENT_ERROR)
    assert "say/say" in marin.on("run", "--backend", "inline", "--rebuild", "say/sya", expect=EXPERIMENT_ERROR)
    said = marin.on("run", "--backend", "inline", "--on-drift", "accept", expect=EXPERIMENT_ERROR)
    assert "--because" in said


def test_a_field_without_an_encoding_is_exit_code_4_and_named(project: Project, marin: Command) -> None:
    project.file.write_text(project.file.read_text().replace('text="hello"', 'text=["hello"]'))
    assert "Say.text" in marin.on("plan", expect=EXPERIMENT_ERROR)


def test_a_store_that_cannot_be_is_exit_code_5(project: Project, marin: Command) -> None:
    file = str(project.file)
    for command in (("plan", file), ("status", file), ("plan", file, "say"), ("audit", "--bytes"), ("run", file)):
        assert "is a file" in marin(command[0], *command[1:], "--prefix", file, expect=STORE_ERROR)


def test_a_corrupt_record_is_exit_code_5_for_run_and_seen_by_status(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    for end in (project.store / ENDS).iterdir():
        end.write_text("{")
    assert "--rebuild" in marin.on("run", "--backend", "inline", expect=STORE_ERROR)
    assert [held["status"] for held in marin.json("status")] == ["corrupt", "corrupt"]
    assert len(json.loads(marin.verify("--json", expect=STORE_ERROR))["bytes"]["wrong"]) == 2
    marin.on("run", "--backend", "inline", "--rebuild", "say", "--rebuild", "repeat")
    assert "0 damaged" in marin.verify(expect=DRIFT)  # the replaced outputs cannot be read


def test_corrupt_source_of_old_code_is_named(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    project.edit("MARK * times", "MARK * times * 2")
    for kept in (project.store / ".marin/code").iterdir():
        kept.write_text("{")
    assert ".marin/code" in marin.on("plan", expect=STORE_ERROR)


def test_the_documented_exit_codes_are_the_real_ones() -> None:
    from marin.cli.exits import Exit

    text = (Path(__file__).resolve().parents[2] / "docs/exit-codes.md").read_text()
    documented = {int(line.split("|")[1]) for line in text.splitlines() if line.startswith("| ") and line[2].isdigit()}
    assert documented == {int(code) for code in Exit}


def test_interrupting_leaves_nothing_half_visible_and_the_next_run_completes(tmp_path: Path) -> None:
    import signal

    from tests.support.project import gated, wait_for

    project, gate = gated(tmp_path)
    started = subprocess.Popen(
        project.command(), env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    wait_for(Path(f"{gate}.started"))
    os.kill(started.pid, signal.SIGINT)
    said, _ = started.communicate(timeout=60)
    assert started.returncode == 130, said
    assert "Traceback" not in said
    assert visible(Store(str(project.store))) == {}
    [row] = [held for held in Command(project).json("status") if held["step"] == "say/say"]
    assert row["status"] == "stopped"
    gate.touch()
    project.run()
    assert project.ran() == ["say/say", "repeat/repeat"]
    Command(project).verify()
