"""What an experiment changes in a module's variables is seen by no worker: it stops, whatever runs the steps."""

import subprocess
import sys

import pytest

from marin.fingerprint.live.fresh_process import NotImported, Question, ask
from tests.cli.test_cli import Command
from tests.support.project import Project
from tests.support.waiting import is_gone

LIB = """
from dataclasses import dataclass
from types import SimpleNamespace
from marin import value


def make():
    return {"a": {"b": 1}}


def times(k):
    def by(text):
        return text * k["n"]

    return by


@value("outside_rates")
class Rates:
    rate: float = 0.5


@dataclass
class Config:
    sizes: list


class Table:
    rows = {"a": [1]}

    def __init__(self):
        self.held = [1]


class Slots:
    __slots__ = ("held",)

    def __init__(self):
        self.held = [1]


K = {"a": {"b": 1}}
MADE = make()
CALLED = dict(a=dict(b=1))
LISTS = [[1], [2]]
TWICE = times({"n": 2})
RATES = Rates()
CONFIG = Config([1, 2])
TABLE = Table()
SLOTS = Slots()
SPACE = SimpleNamespace(a=[1])
RATE = 1 / 3


def f(x=0, y=[1], *, z={"q": 1}):
    return [x, y, z]


f.mark = [1]


def same(x):
    return x


def other(x):
    return x


def shout(text):
    held = [K, MADE, CALLED, LISTS, TWICE("x"), RATES.rate, CONFIG.sizes, Table.rows, TABLE.held, SLOTS.held, SPACE.a]
    return text + repr([held, RATE, f(), f.mark, same(1), other(1)])
"""
CHANGES = {
    "K['a']['b'] = 12": "K['a']['b'] is 12, a new process has 1",
    "MADE['a']['b'] = 12": "MADE['a']['b'] is 12",
    "CALLED['new'] = 1": "CALLED['new'] is 1, a new process has no such thing",
    "LISTS[1].append(3)": "LISTS[1][1] is 3",
    "RATE = .5": "RATE is 0.5",
    "f.__defaults__[1][0] = 12": "f.__defaults__[1][0] is 12",
    "f.__kwdefaults__['z']['q'] = 12": "f.__kwdefaults__['z']['q'] is 12",
    "f.mark[0] = 12": "f.mark[0] is 12",
    "TWICE.__closure__[0].cell_contents['n'] = 3": "TWICE closing over k['n'] is 3",
    "Table.rows['a'][0] = 12": "Table.rows['a'][0] is 12",
    "TABLE.held.append(2)": "TABLE.held[1] is 2",
    "SLOTS.held[0] = 12": "SLOTS.held[0] is 12",
    "CONFIG.sizes[0] = 12": "CONFIG.sizes[0] is 12",
    "RATES.__dict__['rate'] = .7": "RATES.rate is 0.7",
    "SPACE.a[0] = 12": "SPACE.a[0] is 12",
    "same = lib.words.other": "same is function lib.words.other",
}
AGAIN = {
    "K['a'].pop('b')": "K['a']['b'] is gone, a new process has 1",
    "f.__defaults__ = (3, [1])": "f.__defaults__[0] is 3",
    "TWICE.__closure__[0].cell_contents = {'n': 3}": "TWICE closing over k['n'] is 3",
    "Table.more = [1]": "Table.more is list, a new process has no such thing",
}
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
import lib.words
from lib.step import Say
TOP


def build(scale: Scale) -> Experiment:
    BUILD
    return Experiment(issue=1, question=__doc__, results={"end": Say(text="hello", label="say")})


if __name__ == "__main__":
    executor_main(build)
'''


def experiment(build: str = "pass", top: str = "") -> str:
    return EXPERIMENT.replace("BUILD", build).replace("TOP", top)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    made = Project(tmp_path_factory.mktemp("outside") / "project", experiment())
    made.words.write_text(LIB)
    (made.folder / "lib/step.py").write_text(STEP)
    made.run()
    assert made.ran() == ["say/say"]
    return made


@pytest.mark.parametrize("changes", [CHANGES, AGAIN], ids=["set", "replaced"])
def test_what_build_changes_stops_the_plan_and_each_thing_is_named(project, changes):
    project.file.write_text(experiment("; ".join(f"lib.words.{statement}" for statement in changes)))
    said = project.run(expect=4)
    assert "PatchedCode" in said
    assert [named for named in changes.values() if f"lib.words.{named}" not in said] == []


def test_so_does_what_the_experiment_changes_when_it_is_imported(project):
    project.file.write_text(experiment(top="lib.words.K['a']['b'] = 12"))
    assert "lib.words.K['a']['b'] is 12" in project.run(expect=4)


def test_before_anything_ran_and_on_ray_as_well(project, tmp_path):
    project.file.write_text(experiment("lib.words.MADE['a']['b'] = 12"))
    said = project.run("--prefix", str(tmp_path / "new"), backend="ray", expect=4)
    assert "lib.words.MADE['a']['b'] is 12" in said
    assert not (tmp_path / "new/say").exists()


def test_without_a_change_it_is_cached(project):
    project.file.write_text(experiment())
    assert "1 cached" in project.run()


OWN = """
import functools
import random
import time

CACHE = {}
SEEN = []
COUNT = 0
TABLE = {}
STARTED = time.time()
ORDER = list({"a", "b", "c", "d", "e", "f"})
RANDOM = random.Random()


class Stats:
    made = 0
    kinds = {}

    @functools.cached_property
    def name(self):
        return "stats"


STATS = Stats()


def register(f):
    TABLE[f.__name__] = f
    return f


@register
def one():
    return 1


@functools.cache
def slow(x):
    return x


def load(name):
    global COUNT
    COUNT += 1
    if name not in CACHE:
        CACHE[name] = slow(name)
    SEEN.append(name)
    Stats.made += 1
    Stats.kinds[name] = STATS.name
    return CACHE[name]


def shout(text):
    return load(text) + str([TABLE["one"](), len(ORDER), RANDOM, STARTED])[:3]
"""


def test_what_its_own_code_changes_is_no_change_from_outside(tmp_path):
    own = Project(tmp_path / "project", experiment("lib.words.load('x'), lib.words.shout('y')"))
    own.words.write_text(OWN)
    (own.folder / "lib/step.py").write_text(STEP)
    own.run()
    assert own.ran() == ["say/say"]
    assert "1 cached" in own.run()
    assert "1 cached" in own.run(backend="ray")


def test_a_registry_that_another_module_of_the_experiment_fills_with_data(tmp_path):
    """The step's own code does not import that module, so a worker would find nothing in it."""
    other = Project(tmp_path / "project", experiment(top="import lib.more"))
    other.words.write_text(LIB)
    (other.folder / "lib/step.py").write_text(STEP)
    (other.folder / "lib/more.py").write_text("from lib.words import K\nK['more'] = 1\n")
    assert "lib.words.K['more'] is 1" in other.run(expect=4)
    (other.folder / "lib/step.py").write_text("import lib.more\n" + STEP)
    other.run()
    assert other.ran() == ["say/say"]


TWICE = """
import sys
sys.path.insert(0, {folder!r})
import lib.words
from lib.step import Say
from marin.executor.backends.inline import InlineBackend
from marin.errors import PatchedCode
from marin.steps.experiment import Experiment
from marin.plan.plan import make_plan
from marin.executor.scheduler import Scheduler
from marin.store.store import Store

store = Store({store!r})
def run(text):
    plan = make_plan(Experiment(issue=1, question="?", results={{"end": Say(text=text)}}), store)
    return Scheduler(plan, InlineBackend(), lambda event, result: None).execute()

run("one")
assert lib.words.TABLE.held[-1] == "one", "run() changed it, by a method of the object"
run("two")
lib.words.K["b"] = 12
try:
    run("three")
except PatchedCode as error:
    print(error)
"""


def test_in_one_process_what_run_changed_is_its_own_and_what_others_change_after_it_is_not(tmp_path):
    made = Project(tmp_path / "project")
    keep = (
        "\n\nclass Held(Table):\n    def keep(self, x):\n        (self.held if x else 0).append(x)\n\nTABLE = Held()\n"
    )
    made.words.write_text(
        LIB.replace("TABLE = Table()", "").replace('K = {"a"', f'{keep}\nK = {{"a"')
        + ("\n\ndef louder(text):\n    TABLE.keep(text)\n    return shout(text)\n")
    )
    (made.folder / "lib/step.py").write_text(STEP.replace("lib.words.shout", "lib.words.louder"))
    program = TWICE.format(folder=str(made.folder), store=str(made.store))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=made.environment(), check=False
    )
    assert done.returncode == 0, done.stderr
    assert "lib.words.K['b'] is 12" in done.stdout
    assert "TABLE" not in done.stdout


def test_a_rerun_of_what_is_all_there_starts_no_second_process(tmp_path):
    made = Project(tmp_path / "project", experiment())
    made.words.write_text(LIB)
    (made.folder / "lib/step.py").write_text(STEP)
    # An import that says that it happened: once in the run itself, and again in each process that it starts.
    imports = made.folder / "imports.txt"
    made.words.write_text(f"{LIB}\nwith open({str(imports)!r}, 'a') as _told:\n    _told.write('x')\n")
    made.run()
    assert len(imports.read_text()) == 2
    made.run()
    assert len(imports.read_text()) == 3


def test_what_its_own_code_changes_too_is_named_where_it_is_not_as_imported(tmp_path):
    """Whether build() called the step's own code or set the variable itself, nobody can tell; it is said, each time."""
    for change in ("lib.words.COUNT = 5", "lib.words.load('x')"):
        own = Project(tmp_path / change, experiment(change))
        own.words.write_text(OWN)
        (own.folder / "lib/step.py").write_text(STEP)
        for planned in (own.marin("plan"), own.marin("plan"), own.run()):
            notes = [line for line in planned.splitlines() if "from outside" in line]
            assert any("say" in line.lower() and "lib.words.COUNT is" in line for line in notes)
            assert all("STARTED" not in line and "RANDOM" not in line for line in notes)
    quiet = Project(tmp_path / "quiet", experiment())
    quiet.words.write_text(OWN)
    (quiet.folder / "lib/step.py").write_text(STEP)
    assert "from outside" not in quiet.run()


ALONE = """
import fcntl
_LOCK = open({lock!r}, "w")
fcntl.flock(_LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB)
"""


def test_where_a_new_process_cannot_import_a_module_the_plan_says_that_nothing_was_compared(tmp_path):
    made = Project(tmp_path / "project", experiment("lib.words.K['b'] = 12"))
    made.words.write_text(LIB)
    (made.folder / "lib/step.py").write_text(STEP + "\nimport lib.alone\n")
    (made.folder / "lib/alone.py").write_text(ALONE.format(lock=str(tmp_path / "lock")))
    (told,) = Command(made).json("plan")["not_compared"]
    assert "BlockingIOError" in told
    for said in (made.marin("plan"), made.run()):
        (note,) = [line for line in said.splitlines() if "from outside" in line]
        for fact in ("Say", "lib.step", "BlockingIOError", "lib/alone.py:4"):
            assert fact in note
    (made.folder / "lib/alone.py").write_text("")
    assert "lib.words.K['b'] is 12" in made.run("--prefix", str(tmp_path / "other"), expect=4)


BAD_IMPORTS = {
    "hangs": ("import threading\nthreading.Event().wait()\n", "not done within"),
    "dies": ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n", "ended with -9"),
    "exits": ("raise SystemExit('no display')\n", "SystemExit: no display"),
    "leaves a child behind": (
        "import os, signal\nif not (child := os.fork()):\n    signal.pause()\n"
        "with open('child', 'w') as file:\n    file.write(str(child))\nX = 1\n",
        "",
    ),
}


@pytest.mark.parametrize("how", BAD_IMPORTS)
def test_a_module_that_a_new_process_cannot_import_holds_up_nothing(tmp_path, monkeypatch, how):
    source, why = BAD_IMPORTS[how]
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.py").write_text(source)
    (tmp_path / "good.py").write_text("X = 1\n")
    questions = [Question(imports=[name], names={name: ["X"]}) for name in ("bad", "good")]
    bad, good = ask(questions, 1, seconds=2.0)
    if why:
        assert isinstance(bad, NotImported)
        assert (bad.module, why in bad.error) == ("bad", True), bad
    else:
        assert bad == {"bad": {"X": {"": "1"}}}
        assert is_gone(int((tmp_path / "child").read_text()))
    assert good == {"good": {"X": {"": "1"}}}
