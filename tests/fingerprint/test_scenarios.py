"""Test the model of docs/drift.md, scenario by scenario: the edits that make an output drift, and the reason given."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from tests.support.project import MARIN, Project

EXPERIMENT = '''
"""Has it drifted?"""
from marin import Context, Experiment, ExecutorStep, Scale, executor_main
from tests.support.toy import Blob

STEPS

def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={cls.__name__: cls(label="x") for cls in ALL})


if __name__ == "__main__":
    executor_main(build)
'''
STEP = """
class {cls}(ExecutorStep[Blob], op="{name}"):
    def run(self, ctx: Context) -> Blob:
        from lib.{module} import use

        ctx.out.write_text("text.txt", str(use()))
        return Blob(bytes=1)


"""
CONSTANTS = """
import enum
from dataclasses import dataclass
from functools import partial

LIMIT = 1
RATES = {"math": 1, "code": 2}
keep = lambda x: x + 1
more = partial(pow, 2)


class Kind(enum.Enum):
    ONE = 1


@dataclass
class Shape:
    size: int = 1


def made(scale):
    def by(x):
        return x * scale

    return by


times = made(3)


def default(x=1):
    return x


def other():
    return 1
"""


def constant(used: str, old: str, new: str, says: str = "") -> "Scenario":
    """Return a scenario whose use() gives something of CONSTANTS, and whose edit changes CONSTANTS."""
    return Scenario(f"{CONSTANTS}\n\ndef use():\n    return {used}\n", {"{}.py": (old, new)}, says)


@dataclass(frozen=True)
class Scenario:
    """code: the module whose use() the step calls. {}: the module's name. edits: (old, new) text by file; "" for a file
    that does not exist yet, or no longer. says: the reason that drift gives, "" if there is no drift.
    """

    code: str
    edits: Mapping[str, tuple[str, str]]
    says: str = ""
    files: Mapping[str, str] = field(default_factory=dict)


FAR = {"{}_b.py": "from lib.{}_c import h\n\ndef g():\n    return h()\n", "{}_c.py": "def h():\n    return 1\n"}
BASE = {"{}_b.py": "class Base:\n    def get(self):\n        return 1\n"}
TABLE = {"{}_b.py": "TABLE = dict()\n\ndef enter(f):\n    TABLE[f.__name__] = f\n    return f\n"}
ONE = ("1", "2")
SCENARIOS = {
    "helper_three_modules_away": Scenario(
        "from lib.{}_b import g\n\ndef use():\n    return g()\n", {"{}_c.py": ONE}, "lib.{}_c.h changed", FAR
    ),
    "inherited_method": Scenario(
        "from lib.{}_b import Base\n\nclass A(Base):\n    pass\n\ndef use():\n    return A().get()\n",
        {"{}_b.py": ONE},
        "lib.{}_b.Base changed",
        BASE,
    ),
    "body_of_a_decorator": Scenario(
        "def twice(f):\n    return lambda: f() * 1\n\n@twice\ndef use():\n    return 3\n",
        {"{}.py": ONE},
        "lib.{}.twice changed",
    ),
    "method_of_a_metaclass": Scenario(
        "class M(type):\n    def get(cls):\n        return 1\n\nclass A(metaclass=M):\n    pass\n\n"
        "def use():\n    return A.get()\n",
        {"{}.py": ONE},
        "lib.{}.M changed",
    ),
    "constant": constant("LIMIT", "LIMIT = 1", "LIMIT = 2", "lib.{}.LIMIT changed"),
    "default_argument": constant("default()", "x=1", "x=2", "lib.{}.default changed"),
    "value_of_a_closure": constant("times(1)", "made(3)", "made(4)", "lib.{}.times changed"),
    "body_of_a_lambda": constant("keep(1)", "x + 1", "x + 2", "lib.{}.keep changed"),
    "argument_of_a_partial": constant("more(3)", "pow, 2", "pow, 3", "lib.{}.more changed"),
    "member_of_an_enum": constant("Kind.ONE.value", "ONE = 1", "ONE = 2", "lib.{}.Kind changed"),
    "default_of_a_dataclass": constant("Shape().size", "size: int = 1", "size: int = 2", "lib.{}.Shape changed"),
    "another_entry_of_a_dict": constant("RATES['math']", '"code": 2', '"code": 3', "lib.{}.RATES changed"),
    "annotation_of_a_plain_dataclass": constant("Shape().size", "size: int", "size: float"),
    "comment": constant("other()", "def other", "# why\ndef other"),
    "order_of_imports": constant(
        "other()",
        "import enum\nfrom dataclasses import dataclass\n",
        "from dataclasses import dataclass\nimport enum\n",
    ),
    "another_function": constant("LIMIT", "def other():\n    return 1", "def other():\n    return 2"),
    "docstring_beside_pydantic": Scenario(
        "from pydantic import TypeAdapter\n\nREAD = TypeAdapter(int)\n\n"
        'def use():\n    """One."""\n    return READ.validate_python(1)\n',
        {"{}.py": ("One", "Two")},
    ),
    "two_bindings_swapped": Scenario(
        "from math import floor as g\n\ndef g(x):\n    return 1\n\ndef use():\n    return g(1)\n",
        {
            "{}.py": (
                "from math import floor as g\n\ndef g(x):\n    return 1\n",
                "def g(x):\n    return 1\n\nfrom math import floor as g\n",
            )
        },
        "lib.{}.use changed",
    ),
    "data_file": Scenario(
        "def use():\n    return open('lib/{}.txt').read()\n",
        {"{}.txt": ONE},
        "lib/{}.txt changed, which run() read",
        {"{}.txt": "1"},
    ),
    "data_file_behind_a_cache": Scenario(
        "import functools\n\n@functools.cache\ndef read():\n    return open('lib/{}.txt').read()\n"
        "\ndef use():\n    return read()\n",
        {"{}.txt": ONE},
        "lib/{}.txt changed, which run() read",
        {"{}.txt": "1"},
    ),
    "read_in_a_child_of_a_pool": Scenario(
        "import multiprocessing\n\ndef read(name):\n    return open(name).read()\n\ndef use():\n"
        "    with multiprocessing.get_context('fork').Pool(1) as pool:\n"
        "        return pool.map(read, ['lib/{}.txt'])\n",
        {"{}.txt": ONE},
        "lib/{}.txt changed, which run() read",
        {"{}.txt": "1"},
    ),
    "module_by_a_computed_name": Scenario(
        "import importlib\n\ndef use():\n    return importlib.import_module('lib.' + '{}_b').K\n",
        {"{}_b.py": ONE},
        "lib.{}_b.K changed",
        {"{}_b.py": "K = 1\n"},
    ),
    "file_by_its_path": Scenario(
        "import runpy\n\ndef use():\n    return runpy.run_path('lib/{}_b.py')['K']\n",
        {"{}_b.py": ONE},
        "lib/{}_b.py changed, which run() read",
        {"{}_b.py": "K = 1\n"},
    ),
    "plugin_that_came": Scenario(
        "import os\n\ndef use():\n    return len(os.listdir('lib/{}_plugins'))\n",
        {"{}_plugins/b.py": ("", "x = 1\n")},
        "lib/{}_plugins/ has 2 names, had 1",
        {"{}_plugins/a.py": "x = 1\n"},
    ),
    "log_that_came": Scenario(
        "import os\n\ndef use():\n    return len(os.listdir('lib/{}_data'))\n",
        {"{}_data/run.log": ("", "x")},
        files={"{}_data/a.txt": "1"},
    ),
    "pickled_class": Scenario(
        "import pickle\n\ndef use():\n    return pickle.loads(b'clib.' + b'{}_b\\nf\\n.')()\n",
        {"{}_b.py": ONE},
        "lib.{}_b.f changed",
        {"{}_b.py": "def f():\n    return 1\n"},
    ),
    "configuration_that_is_executed": Scenario(
        "def use():\n    space = dict()\n    exec(open('lib/{}.cfg').read(), space)\n    return space['K']\n",
        {"{}.cfg": ONE},
        "lib/{}.cfg changed, which run() read",
        {"{}.cfg": "K = 1\n"},
    ),
    "constant_of_a_module_by_a_computed_name": Scenario(
        "import sys\nimport lib.{}_b\n\ndef use():\n    return sys.modules['lib.' + '{}_b'].K\n",
        {"{}_b.py": ONE},
        files={"{}_b.py": "K = 1\n"},
    ),
    "settings_of_this_machine": Scenario(
        "K = 1\ntry:\n    from lib.{}_local import *\nexcept ImportError:\n    pass\n\ndef use():\n    return K\n",
        {"{}_local.py": ("K = 1", "K = 2")},
        "lib.{}_local.K changed",
        {"{}_local.py": "K = 1\n"},
    ),
    "object_beside_the_folder": Scenario(
        "from pathlib import Path\n\nHERE = Path(__file__).parent\n\nclass Words:\n"
        "    def __init__(self):\n        self.at = HERE\n\n"
        "WORDS = Words()\nN = 1\n\ndef use():\n    return len(HERE.name)\n",
        {"{}.py": ("        self.at = HERE\n", "        self.at = HERE / 'x'\n")},
    ),
    "registered_by_a_decorator": Scenario(
        "from lib.{}_b import TABLE, enter\n\n@enter\ndef f():\n    return 1\n\ndef use():\n"
        "    return [g() for g in TABLE.values()]\n",
        {"{}.py": ONE},
        "lib.{}.f changed",
        TABLE,
    ),
    "listed_by_subclasses": Scenario(
        "class B:\n    pass\n\nclass C(B):\n    n = 1\n\ndef use():\n"
        "    return [each.n for each in B.__subclasses__()]\n",
        {"{}.py": ONE},
        "lib.{}.C changed",
    ),
    "variable_by_name": Scenario(
        "import os\n\ndef use():\n    return os.environ.get('TOY_MODE')\n", {}, "TOY_MODE changed in the environment"
    ),
    "variable_by_a_computed_name": Scenario(
        "import os\n\ndef use():\n    return os.environ.get('TOY_' + 'MODE'[:4])\n", {}
    ),
    "variable_of_a_scheduler": Scenario("import os\n\ndef use():\n    return os.environ.get('SLURM_JOB_ID')\n", {}),
    "module_that_moved": Scenario(
        "from lib.{}_b import f\n\ndef use():\n    return f()\n",
        {
            "{}.py": ("{}_b", "{}_c"),
            "{}_b.py": ("def f():\n    return 1\n", ""),
            "{}_c.py": ("", "def f():\n    return 1\n"),
        },
        files={"{}_b.py": "def f():\n    return 1\n"},
    ),
    "random_and_the_clock": Scenario(
        "import random, time\n\ndef use():\n    return random.random() + time.time()\n", {}
    ),
}
SHARED = {"second_behind_that_cache": "data_file_behind_a_cache"}  # steps that call another scenario's use()


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return the plan's reasons for each scenario's step after every edit."""
    modules = {**{name: name for name in SCENARIOS}, **SHARED}
    steps = "".join(STEP.format(cls=name.title(), name=name, module=module) for name, module in modules.items())
    steps += f"ALL = [{', '.join(map(str.title, modules))}]\n"
    project = Project(tmp_path_factory.mktemp("scenarios") / "project", EXPERIMENT.replace("STEPS", steps))

    def write(name: str, file: str, text: str) -> None:
        path = project.folder / "lib" / file.replace("{}", name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("{}", name))

    for name, scenario in SCENARIOS.items():
        for file, text in {"{}.py": scenario.code, **scenario.files}.items():
            write(name, file, text)
    ran = project.started(project.command(), cwd=project.folder, environment={"TOY_MODE": "a", "SLURM_JOB_ID": "1"})
    assert ran.code == 0, ran.said
    for name, scenario in SCENARIOS.items():
        for file, (old, new) in scenario.edits.items():
            path = project.folder / "lib" / file.replace("{}", name)
            text, old = path.read_text() if old else "", old.replace("{}", name)
            assert old in text
            if new:
                path.write_text(text.replace(old, new.replace("{}", name)) if old else new)
            else:
                path.unlink()
    command = [MARIN, "plan", str(project.file), "--prefix", str(project.store), "--json"]
    told = project.started(command, cwd=project.folder, environment={"TOY_MODE": "b", "SLURM_JOB_ID": "2"})
    return {step["step"].removesuffix("/x"): step["drift"] for step in json.loads(told.stdout)["steps"]}


@pytest.mark.parametrize("name", [*SCENARIOS, *SHARED])
def test_a_plan_says_of_it_what_the_model_says(planned: dict[str, list[str]], name: str) -> None:
    module = SHARED.get(name, name)
    says = SCENARIOS[module].says.replace("{}", module)
    assert bool(planned[name]) == bool(says), planned[name]
    assert not says or any(line.startswith(says) for line in planned[name]), planned[name]
