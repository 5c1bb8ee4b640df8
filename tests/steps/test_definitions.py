"""Each op, value tag and artifact kind has one class: two classes of one name would share their outputs."""

from __future__ import annotations

import enum
import gc
import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from marin import Artifact, Context, ExecutorStep, value
from marin.errors import ExperimentError
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import Blob, Join, Write, experiment


def operator(name: str, op: str) -> Any:
    return type(name, (ExecutorStep,), {"__annotations__": {"text": "str"}, "run": Write.run}, op=op)


def artifact(name: str, kind: str) -> Any:
    return type(name, (Artifact,), {}, kind=kind)


def tagged(name: str, tag: str) -> Any:
    return value(tag)(type(name, (), {}))


def tagged_enum(name: str, tag: str) -> Any:
    return value(tag)(enum.Enum(name, {"A": 1}))


MAKERS = [(operator, "op"), (artifact, "artifact kind"), (tagged, "value tag"), (tagged_enum, "value tag")]


@pytest.mark.parametrize(("make", "what"), MAKERS)
def test_a_second_class_of_one_name_is_refused_naming_both_places(make: Any, what: str) -> None:
    first = make("First", "toy-taken")
    with pytest.raises(ExperimentError, match=f"two classes have the {what} 'toy-taken'") as refused:
        make("Second", "toy-taken")
    said = str(refused.value)
    assert len(re.findall(re.escape(__file__) + r":\d+", said)) == 2
    assert "tests.steps.test_definitions.First" in said
    assert "tests.steps.test_definitions.Second" in said
    assert first.__name__ == "First"


@pytest.mark.parametrize(("make", "what"), MAKERS)
def test_the_same_class_again_takes_the_place_of_the_old_one(make: Any, what: str) -> None:
    """A notebook's cell that runs twice or a test function defines the same class again."""
    assert len({id(held) for held in [make("Again", "toy-again") for _ in range(3)]}) == 3


@pytest.mark.parametrize(("make", "what"), MAKERS)
def test_a_class_that_nobody_uses_any_more_does_not_keep_its_name(make: Any, what: str) -> None:
    gone = make("Gone", "toy-gone")
    if make is operator:
        assert gone(text="a", label="used").dependencies == ()
    del gone
    assert make("Other", "toy-gone").__name__ == "Other"


def test_a_value_and_an_operator_may_share_a_name() -> None:
    kept = [operator("Shared", "toy-shared"), artifact("Shared", "toy-shared"), tagged("Shared", "toy-shared")]
    assert len(kept) == 3


def test_an_operator_that_extends_another_needs_an_op_of_its_own() -> None:
    with pytest.raises(ExperimentError, match="needs a name"):

        class Nameless(Write):  # pyright: ignore[reportUnusedClass]
            pass

    with pytest.raises(ExperimentError, match=r"two classes have the op 'toy-write'.*toy\.Write.*Louder"):

        class Louder(Write, op="toy-write"):  # pyright: ignore[reportUnusedClass]
            pass

    class Quieter(Write, op="toy-quieter"):
        pass

    assert Quieter(text="a").identity != Write(text="a").identity


def test_a_module_may_be_loaded_again_and_moved_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = EXPERIMENT.replace("from lib.words import shout\n", "shout = str.upper\n")
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "marin_toy_definitions.py").write_text(source.replace('op="', 'op="definitions-'))
    monkeypatch.syspath_prepend(str(tmp_path / "old"))
    module = importlib.import_module("marin_toy_definitions")
    first = module.Say(text="a")
    assert importlib.reload(module).Say(text="a") == first
    monkeypatch.syspath_prepend(str(tmp_path / "new"))
    del sys.modules["marin_toy_definitions"]
    assert importlib.import_module("marin_toy_definitions").Say(text="a") == first


def test_a_file_that_is_run_and_imported_is_one_definition(tmp_path: Path) -> None:
    """``python exp.py`` defines the classes in __main__. A worker that unpickles them imports the file by its name."""
    project = Project(tmp_path / "project")
    project.run()
    project.edit("return text.upper()", "return text.lower()")
    project.run("--on-drift", "rebuild")
    assert project.ran() == ["say/say", "repeat/repeat"]
    python, *rest = project.command()  # a profiler runs the file in a module of its own
    ended = project.started([python, "-m", "cProfile", *rest], fork=False)
    assert "2 cached" in ended.said, ended.said  # cProfile exits with 0 whatever the file does


TWICE = """

class Whisper(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", self.text.lower())
        return Blob(bytes=1)


def build("""


@pytest.mark.parametrize("program", [["-m", "marin", "run"], []], ids=["marin run", "python"])
def test_an_experiment_with_two_operators_of_one_op_never_starts(program: list[str], tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT.replace("\n\ndef build(", TWICE))
    command = [sys.executable, *program, str(project.file), "--prefix", str(project.store)]
    done = subprocess.run(command, env=project.environment(), capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 4, said
    assert "two classes have the op 'say'" in said
    assert re.search(r"(exp1_toy|__main__)\.Say \(\S*exp1_toy\.py:11\)", said)
    assert re.search(r"(exp1_toy|__main__)\.Whisper \(\S*exp1_toy\.py:27\)", said)
    assert "Traceback" not in said
    assert not project.store.exists()


def made_by_a_function(word: str) -> ExecutorStep[Any]:
    class Local(ExecutorStep[Blob], op="toy-definitions-local"):
        def run(self, ctx: Context) -> Blob:
            ctx.out.write_text("text.txt", word)
            return Blob(bytes=1)

    return Local()


def test_equal_steps_of_two_classes_are_not_taken_for_each_other() -> None:
    one, two = made_by_a_function("one"), made_by_a_function("two")
    for build in (
        lambda: Join(parts=(one, two)),
        lambda: experiment(a=one, b=two),
        lambda: experiment(a=Join(parts=(one,)), b=Join(parts=(two,), separator="-")),
    ):
        with pytest.raises(ExperimentError, match=r"from two classes with the same name, .*made_by_a_function"):
            build()
    assert experiment(a=one, b=Join(parts=(one, one))).steps()


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[31mb", "a\u202eb", "a\u2028b", "\ud800"])
@pytest.mark.parametrize("make", [operator, artifact, tagged])
def test_a_name_is_one_line_of_plain_text(make: Any, name: str) -> None:
    with pytest.raises(ExperimentError, match=r"holds (a line break|U\+[0-9A-F]{4})"):
        make("Named", name)


def test_reading_records_finds_the_latest_class_of_a_kind() -> None:
    from marin.steps.artifact import KINDS

    artifact("Kind", "toy-kind")
    latest: ModuleType | Any = artifact("Kind", "toy-kind")
    gc.collect()
    assert KINDS["toy-kind"] is latest
