"""A moved file and an added since() field are no drift of existing outputs. A change in either is drift."""

import pytest

from tests.support.project import Project

STEP = """
from marin import Context, ExecutorStep
from tests.support.toy import Blob
import lib.words


class Say(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", lib.words.shout(self.text))
        return Blob(bytes=1)
"""
EXPERIMENT = '''
"""Does it run?"""
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from lib.step import Say


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"end": Say(text="hello", label="say")})


if __name__ == "__main__":
    executor_main(build)
'''
FIELD = "    mark: str = since(2, default=MARK)\n"
WITH_FIELD = (
    STEP.replace("import Context, ExecutorStep", "import Context, ExecutorStep, since")
    .replace("import lib.words\n", "import lib.words\n\nMARK = '?'\n")
    .replace("    text: str\n", f"    text: str\n{FIELD}")
)


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path / "project", EXPERIMENT)
    (made.folder / "lib/step.py").write_text(STEP)
    made.run()
    assert made.ran() == ["say/say"]
    return made


def test_a_file_that_moves_is_no_drift_and_a_change_in_it_is(project):
    (project.folder / "lib/text").mkdir()
    (project.folder / "lib/text/__init__.py").write_text("")
    project.words.rename(project.folder / "lib/text/said.py")
    (project.folder / "lib/step.py").write_text(STEP.replace("lib.words", "lib.text.said"))
    assert "1 cached" in project.run()
    explained = project.marin("plan", "say")
    assert "lib.words.shout → lib.text.said.shout: moved, the code is the same" in explained
    project.words = project.folder / "lib/text/said.py"
    project.edit("MARK * times", "MARK * times * 2")
    said = project.run(expect=3)
    assert "lib.text.said.ending is now used" in said


def test_what_was_accepted_before_a_file_moved_stays_accepted(project):
    project.edit('MARK = "!"', 'MARK = "?"')
    project.run(expect=3)
    project.run("--on-drift", "accept", "--because", "a mark")
    project.words.rename(project.folder / "lib/said.py")
    (project.folder / "lib/step.py").write_text(STEP.replace("lib.words", "lib.said"))
    assert "1 cached" in project.run()


def test_a_field_that_is_added_is_no_drift_and_another_default_is(project):
    step = project.folder / "lib/step.py"
    step.write_text(WITH_FIELD.replace("default=MARK", "default='!'").replace("MARK = '?'\n", ""))
    assert "1 cached" in project.run()
    assert "+mark: ... = since(2, default='!')" in project.marin("plan", "say")
    project.run("--rebuild", "say")  # from now on the record knows the field
    assert project.ran() == ["say/say"]
    step.write_text(step.read_text().replace("default='!'", "default='?'"))
    assert "lib.step.Say.mark changed" in project.run(expect=3)
    assert "+mark: ... = since(2, default='?')" in project.marin("plan", "say")


def test_a_field_that_is_added_with_a_change_of_what_run_does_is_drift(project):
    step = project.folder / "lib/step.py"
    step.write_text(WITH_FIELD.replace("shout(self.text)", "shout(self.text) + self.mark"))
    assert "lib.step.Say changed" in project.run(expect=3)


def test_the_enum_of_an_added_field_is_none_either_and_what_is_registered_is(project):
    step = project.folder / "lib/step.py"
    modes = "from enum import Enum\nfrom marin import value\n\n@value('mode')\nclass Mode(Enum):\n    PLAIN = 'plain'\n"
    (project.folder / "lib/mode.py").write_text(modes)
    field = "    text: str\n    mode: Mode = since(2, default=Mode.PLAIN)\n"
    with_mode = STEP.replace("import Context", "import since, Context").replace("    text: str\n", field)
    step.write_text("from lib.mode import Mode\n" + with_mode)
    assert "1 cached" in project.run()
    step.write_text("from lib.mode import Mode\nimport lib.more\n" + with_mode)
    (project.folder / "lib/more.py").write_text("import lib.words\n\nlib.words.MARK = '?'\n")
    assert "lib.more.<on import> is now used" in project.run(expect=3)
