"""A file that one step read and the project's code kept for another step counts as read by both steps."""

import shutil
from pathlib import Path

import pytest

from tests.fingerprint.test_observed import TAIL, run, stopped
from tests.support.project import Project

READ = 'Path(__file__).with_name("{name}.txt").read_text()'
KEPT = {
    "cache": """
@functools.cache
def words():
    return READ
""",
    "cache_by_call": """
def _words():
    return READ

words = functools.lru_cache(maxsize=None)(_words)
""",
    "lazy_global": """
_words = None

def words():
    global _words
    if _words is None:
        _words = READ
    return _words
""",
    "table": """
TABLE = {}

def words():
    if "words" not in TABLE:
        TABLE["words"] = READ
    return TABLE["words"]
""",
    "default_list": """
def words(memo=[]):
    if not memo:
        memo.append(READ)
    return memo[0]
""",
    "once": """
def once(function):
    held = []
    def call():
        if not held:
            held.append(function())
        return held[0]
    return call

@once
def words():
    return READ
""",
    "cached_property": """
class Vocabulary:
    @functools.cached_property
    def words(self):
        return READ

VOCABULARY = Vocabulary()

def words():
    return VOCABULARY.words
""",
    "attribute": """
class Vocabulary:
    held = ""

    def words(self):
        self.held = self.held or READ
        return self.held

VOCABULARY = Vocabulary()

def words():
    return VOCABULARY.words()
""",
    "class_attribute": """
class Vocabulary:
    held = ""

    @classmethod
    def words(cls):
        cls.held = cls.held or READ
        return cls.held

words = Vocabulary.words
""",
    "object_in_a_cache": """
class Vocabulary:
    @functools.cached_property
    def words(self):
        return READ

@functools.cache
def vocabulary():
    return Vocabulary()

def words():
    return vocabulary().words
""",
    "already_built": """
@functools.cache
def words():
    return READ
""",
}
APART = {
    "plain": """
def words(number):
    return READ
""",
    "own_object": """
class Vocabulary:
    def __init__(self, number):
        self.words = READ

def words(number):
    return Vocabulary(number).words
""",
    "in_a_list": """
def words(number):
    lines = []
    lines.append(READ)
    return lines[0]
""",
}
STEP = """
class {cls}(ExecutorStep[Blob], op="{name}"):
    number: int

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", lib.{name}.words({argument}))
        return Blob(bytes=1)


"""
HEAD = """
\"\"\"Whose is it?\"\"\"
{imports}

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose steps have all run, two of each class, one after the other in one process."""
    names = [*KEPT, *APART]
    steps = "".join(
        STEP.format(name=name, cls=name.title().replace("_", ""), argument="self.number" if name in APART else "")
        for name in names
    )
    results = ", ".join(
        f'"{name}{number}": {name.title().replace("_", "")}(number={number}, label="{number}")'
        for name in names
        for number in (1, 2)
    )
    tail = TAIL.format(results=results).replace("    return", "    lib.already_built.words()\n    return", 1)
    head = HEAD.format(imports="\n".join(f"import lib.{name}" for name in names))
    project = Project(tmp_path_factory.mktemp("kept") / "project", head + steps + tail)
    for name, code in {**KEPT, **APART}.items():
        file = project.folder / "lib" / f"{name}.py"
        read = READ.format(name=name) if name in KEPT else READ.format(name=f"{name}{{number}}").replace('("', '(f"')
        file.write_text(f"import functools\nfrom pathlib import Path\n{code}".replace("READ", read))
        for number in ("", "1", "2"):
            file.with_name(f"{name}{number}.txt").write_text("one")
    run(project, expect=0)
    return project


def test_a_change_is_drift_of_each_step_that_was_given_it(kept: Project, tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    shutil.copytree(kept.folder, project.folder, dirs_exist_ok=True)
    assert "cached" in run(project, "--dry-run", expect=0)
    for name in KEPT:
        (project.folder / "lib" / f"{name}.txt").write_text("two")
    for name in APART:
        (project.folder / "lib" / f"{name}1.txt").write_text("two")
    said = run(project, "--dry-run", "--every-step", expect=3)
    assert set(stopped(said)) == {f"{name}/{n}" for name in KEPT for n in (1, 2)} | {f"{name}/1" for name in APART}
