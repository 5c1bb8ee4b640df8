"""marin sees every read of run() that its source does not tell. A change of the data is drift, reported by name."""

import itertools
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from tests.support.project import MARIN, Project

HEAD = '''
"""Is it seen?"""
import ctypes, glob, importlib, io, linecache, os, pickle, pkgutil, runpy, sqlite3, subprocess, sys
from os import getenv as asked
from os.path import dirname
from pathlib import Path

import joblib
import numpy as np

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob
import lib.loaded
import lib.pickled
import lib.texts

HERE = dirname(__file__)
sys.path.append(HERE + "/tops")
from at_top import LIMIT
MODE = os.environ.get("TOY_MODE", "plain")
AT_IMPORT = Path("data/at_import.txt").read_text()


def load(name):
    return importlib.import_module(name)

'''
STEP = """
class {cls}(ExecutorStep[Blob], op="{name}"):
    def run(self, ctx: Context) -> Blob:
        text = self.read()
        ctx.out.write_text("text.txt", str(text))
        return Blob(bytes=1)

    def read(self):
{body}

"""
TAIL = """
def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={{{results}}})


if __name__ == "__main__":
    executor_main(build)
"""


@dataclass(frozen=True)
class Idiom:
    """read: the body of the function that the step reads with. file: edited (or created). says: its name in drift."""

    read: str
    file: str
    says: str


OUTSIDE = "OUTSIDE"  # in read, file and says, this stands for a folder beside the project
IDIOMS = {
    "dirname": Idiom(
        "return open(dirname(__file__) + '/data/dirname.txt').read()",
        "data/dirname.txt",
        "data/dirname.txt changed, which run() read",
    ),
    "fstring": Idiom(
        "name = 'fstring'\nreturn open(f'{HERE}/data/{name}.txt').read()",
        "data/fstring.txt",
        "data/fstring.txt changed",
    ),
    "cwd": Idiom("return Path('data/cwd.txt').read_text()", "data/cwd.txt", "data/cwd.txt changed"),
    "absolute": Idiom(
        "return open('OUTSIDE/absolute.txt').read()", "OUTSIDE/absolute.txt", "OUTSIDE/absolute.txt changed"
    ),
    "numpy": Idiom("return np.loadtxt('OUTSIDE/numpy.txt')", "OUTSIDE/numpy.txt", "OUTSIDE/numpy.txt changed"),
    "glob": Idiom(
        "return len(glob.glob(HERE + '/globbed/*.txt'))", "globbed/new.txt", "globbed/*.txt has 2 names, had 1"
    ),
    "pathglob": Idiom(
        "return len(list((Path(HERE) / 'found').rglob('*.txt')))",
        "found/deep/new.txt",
        "found/**/*.txt has 2 names, had 1",
    ),
    "walk": Idiom("return list(os.walk(HERE + '/walked'))", "walked/deep/new.txt", "walked/deep/ has 2 names, had 1"),
    "listdir": Idiom("return os.listdir('OUTSIDE/listed')", "OUTSIDE/listed/new.txt", "OUTSIDE/listed/ has 2 names"),
    "later": Idiom(
        "try:\n    return open(HERE + '/data/later.conf').read()\nexcept OSError:\n    return 0",
        "data/later.conf",
        "data/later.conf is there now, which run() looked for",
    ),
    "exists": Idiom(
        "return Path(HERE + '/data/local.yaml').exists()",
        "data/local.yaml",
        "data/local.yaml is there now, which run() looked for",
    ),
    "isfile": Idiom(
        "marker = HERE + '/data/made.txt'\nif not os.path.isfile(marker):\n    os.system('touch ' + marker)\n"
        "return os.path.isfile(HERE + '/data/override.txt')",
        "data/override.txt",
        "data/override.txt is there now",
    ),
    "alias_of_import": Idiom(
        "load = importlib.import_module\nreturn load('by_alias').f()", "by_alias.py", "by_alias.f changed"
    ),
    "constant_by_import": Idiom("return getattr(load('by_constant'), 'K')", "by_constant.py", "by_constant.K changed"),
    "map_import": Idiom(
        "return [m.f() for m in map(importlib.import_module, ['by_map'])]", "by_map.py", "by_map.f changed"
    ),
    "builtin_import": Idiom("return __import__('by_' + 'builtin').f()", "by_builtin.py", "by_builtin.f changed"),
    "helper_of_helper": Idiom("return load('by_two').f()", "by_third.py", "by_third.g changed"),
    "exec_of_a_file": Idiom(
        "space = {}\nexec(open(HERE + '/data/code.txt').read(), space)\nreturn space['X']",
        "data/code.txt",
        "data/code.txt changed",
    ),
    "sys_modules": Idiom("return sys.modules.get('lib.loaded').f()", "lib/loaded.py", "lib.loaded.f changed"),
    "run_path": Idiom("return runpy.run_path(HERE + '/by_path.py')['X']", "by_path.py", "by_path.X changed"),
    "pickle": Idiom("return pickle.loads(b'cby_pickle\\nf\\n.')()", "by_pickle.py", "by_pickle.f changed"),
    "pickled_constant": Idiom(
        "return pickle.loads(b'clib.pickled\\nK\\n.')", "lib/pickled.py", "lib.pickled.K changed"
    ),
    "joblib": Idiom("return joblib.load(io.BytesIO(b'cby_joblib\\nf\\n.'))()", "by_joblib.py", "by_joblib.f changed"),
    "numpy_pickle": Idiom(
        "return np.load(io.BytesIO(b'cby_numpy\\nK\\n.'), allow_pickle=True)", "by_numpy.py", "by_numpy.K changed"
    ),
    "sys_path": Idiom(
        "sys.path.append(HERE + '/plugs')\nfrom on_path import K\nreturn K",
        "plugs/on_path.py",
        "on_path.K changed",
    ),
    "sys_path_at_top": Idiom("return LIMIT", "tops/at_top.py", "at_top.LIMIT changed"),
    "text_that_imports": Idiom(
        "space = {}\nexec('from lib.' + 'texts import K', space)\nreturn space['K']",
        "lib/texts.py",
        "lib.texts.K changed",
    ),
    "get_data": Idiom("g = pkgutil.get_data\nreturn g('lib', 'got.txt')", "lib/got.txt", "lib/got.txt changed"),
    "environment": Idiom("return MODE", "", "TOY_MODE changed in the environment"),
    "environment_inside": Idiom("return os.getenv('TOY_INSIDE')", "", "TOY_INSIDE changed in the environment"),
    "module_level": Idiom("return AT_IMPORT", "data/at_import.txt", "data/at_import.txt changed"),
    "script": Idiom(
        "return subprocess.check_output([sys.executable, HERE + '/child.py'])", "child.py", "child.<on import> changed"
    ),
    "argument": Idiom(
        "return subprocess.check_output(['cat', HERE + '/data/argument.txt'])",
        "data/argument.txt",
        "data/argument.txt changed",
    ),
    "program": Idiom(
        "os.chmod(HERE + '/tool.sh', 0o755)\nreturn subprocess.check_output([HERE + '/tool.sh'])",
        "tool.sh",
        "tool.sh changed",
    ),
    "memmap": Idiom(
        "return np.memmap(HERE + '/data/memmap.txt', 'u1').sum()", "data/memmap.txt", "data/memmap.txt changed"
    ),
    "database": Idiom(
        "return sqlite3.connect('file:' + HERE + '/data/base%20one.db?mode=ro', uri=True).close()",
        "data/base one.db",
        "data/base one.db changed",
    ),
    "default": Idiom(
        "os.environ.setdefault('TOY_DEFAULT', 'x')\nreturn os.environ['TOY_DEFAULT']",
        "",
        "TOY_DEFAULT changed in the environment",
    ),
    "getenv": Idiom("return asked('TOY_GETENV')", "", "TOY_GETENV changed in the environment"),
    "linked": Idiom(
        "os.path.lexists('link.txt') and os.remove('link.txt')\nos.symlink(HERE + '/data/linked.txt', 'link.txt')\n"
        "return open('link.txt').read()",
        "data/linked.txt",
        "data/linked.txt changed",
    ),
    "linecache": Idiom(
        "return linecache.getline(HERE + '/data/lines.txt', 1)", "data/lines.txt", "data/lines.txt changed"
    ),
    "option": Idiom(
        "return subprocess.check_output(['grep', '--file=' + HERE + '/data/option.txt'], input=b'1')",
        "data/option.txt",
        "data/option.txt changed",
    ),
    "expanded": Idiom("return os.path.expandvars('$TOY_EXPANDED')", "", "TOY_EXPANDED changed in the environment"),
}
FILES = {
    **{f"data/{name}.txt": "one" for name in ("dirname", "fstring", "cwd", "at_import", "argument")},
    **{f"OUTSIDE/{name}.txt": "1" for name in ("absolute", "numpy")},
    "OUTSIDE/listed/a.txt": "",
    "globbed/a.txt": "",
    "found/deep/a.txt": "",
    "walked/deep/a.txt": "",
    "data/code.txt": "X = 1",
    "lib/loaded.py": "def f():\n    return 1\n\ndef other():\n    return 1\n",
    "lib/got.txt": "one",
    "lib/pickled.py": "K = 1\n",
    "lib/texts.py": "K = 1\n",
    **{
        f"{name}.py": "K = 1\n\ndef f():\n    return 1\n"
        for name in (
            "by_alias",
            "by_constant",
            "by_map",
            "by_builtin",
            "by_pickle",
            "by_joblib",
            "by_numpy",
            "plugs/on_path",
        )
    },
    "tops/at_top.py": "LIMIT = 1\n",
    "by_two.py": "from by_third import g\n\ndef f():\n    return g()\n",
    "by_third.py": "def g():\n    return 1\n",
    "by_path.py": "X = 1\n",
    "tool.sh": "#!/bin/sh\necho 1\n",
    **{f"data/{name}.txt": "one" for name in ("memmap", "linked", "lines")},
    "data/option.txt": "1",
    "data/base one.db": "one",
    "child.py": "import sys\nsys.stdout.write('1')\n",
}


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project whose steps have all run."""
    folder = tmp_path_factory.mktemp("observed")
    outside = str(folder / "outside")
    steps = "".join(
        STEP.format(
            cls=name.title().replace("_", ""),
            name=name,
            body="\n".join(f"        {line}" for line in idiom.read.replace(OUTSIDE, outside).splitlines()),
        )
        for name, idiom in IDIOMS.items()
    )
    results = ", ".join(f'"{name}": {name.title().replace("_", "")}(label="x")' for name in IDIOMS)
    project = Project(folder / "project", HEAD + steps + TAIL.format(results=results))
    for name, text in FILES.items():
        file = place(project, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    run(project, expect=0)
    assert sorted(project.ran()) == sorted(f"{name}/x" for name in IDIOMS)
    return project


def place(project: Project, name: str) -> Path:
    return project.folder / name.replace(OUTSIDE, str(project.folder.parent / "outside"))


def run(project: Project, *arguments: str, expect: int, cwd: Path | None = None, **environment: str) -> str:
    ended = project.started(project.command(*arguments), cwd=cwd or project.folder, environment=environment)
    assert ended.code == expect, ended.said
    return ended.said


def stopped(said: str) -> list[str]:
    return [words[1].removesuffix("/x") for line in said.splitlines() if (words := line.split()) and words[0] == "stop"]


def test_nothing_drifts_where_nothing_changed(observed: Project) -> None:
    said = run(observed, "--dry-run", "--every-step", expect=0)
    assert f"{len(IDIOMS)} cached" in said, said


@pytest.fixture
def undone(observed: Project) -> Iterator[Project]:
    """Return the project, and undo the test's additions and edits afterwards."""
    yield observed
    for idiom in IDIOMS.values():
        if idiom.file and idiom.file not in FILES:
            place(observed, idiom.file).unlink(missing_ok=True)
    for name, text in FILES.items():
        place(observed, name).write_text(text)


ROUNDS = 8
CHANGED_IN = dict(zip(IDIOMS, itertools.combinations(range(ROUNDS), 3), strict=False))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_change_is_drift_of_the_step_that_read_it_alone(undone: Project, number: int) -> None:
    """For any two idioms, some round changes the first and leaves the second alone."""
    assert CHANGED_IN.keys() == IDIOMS.keys()
    changed = {name: idiom for name, idiom in IDIOMS.items() if number in CHANGED_IN[name]}
    for idiom in changed.values():
        if idiom.file in FILES:
            file = place(undone, idiom.file)
            file.write_text(file.read_text().replace("1", "2").replace("one", "two"))
        elif idiom.file:
            place(undone, idiom.file).write_text("1")
    variables = {idiom.says.split()[0]: "fancy" for idiom in changed.values() if not idiom.file}
    command = [MARIN, "plan", str(undone.file), "--prefix", str(undone.store), "--json"]
    planned = undone.started(command, cwd=undone.folder, environment=variables)
    assert planned.code == Exit.DRIFT, planned.said
    steps = {step["step"].removesuffix("/x"): step for step in json.loads(planned.stdout)["steps"]}
    assert {name for name, step in steps.items() if step["action"] == "stop"} == changed.keys()
    for name, idiom in changed.items():
        says = idiom.says.replace(OUTSIDE, str(undone.folder.parent / "outside"))
        assert any(line.startswith(says) for line in steps[name]["drift"]), steps[name]


def test_what_nobody_can_see_is_said_by_run_and_plan(observed: Project, tmp_path: Path) -> None:
    said = run(observed, "--dry-run", expect=0)
    assert "files that programs of the step read (cat)" in said, said
    first = run(observed, "--only", "argument", "--prefix", str(tmp_path / "store"), expect=0)
    assert "files that programs of the step read (cat)" in first, first


def test_another_checkout_of_the_project_shares_the_store(observed: Project, tmp_path: Path) -> None:
    """marin knows files by their path within the project. The test leaves out steps that name a folder absolutely."""
    other = Project(tmp_path / "elsewhere")
    shutil.copytree(observed.folder, other.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("store"))
    other.store = observed.store
    assert f"{len(IDIOMS)} cached" in run(other, "--dry-run", expect=0)
    (other.folder / "data/dirname.txt").write_text("other")
    assert stopped(run(other, "--dry-run", "--every-step", expect=3)) == ["dirname"]


def test_an_acceptance_is_of_the_change_as_it_is(undone: Project, tmp_path: Path) -> None:
    store = tmp_path / "store"
    only = ("--only", "dirname", "--prefix", str(store))
    run(undone, *only, expect=0)
    place(undone, "data/dirname.txt").write_text("accepted")
    run(undone, *only, "--on-drift", "accept", "--because", "only a test", expect=0)
    assert "1 cached" in run(undone, *only, "--dry-run", expect=0)
    place(undone, "data/dirname.txt").write_text("another")
    run(undone, *only, "--dry-run", expect=3)


def test_the_value_of_a_variable_is_nowhere_in_the_store(observed: Project, tmp_path: Path) -> None:
    store = tmp_path / "store"
    run(observed, "--only", "environment", "--prefix", str(store), expect=0, TOY_MODE="verysecret")
    assert not [
        file
        for file in store.rglob("*")
        if file.is_file() and file.name != "text.txt" and b"verysecret" in file.read_bytes()
    ]


OF_HEAD = ("lib/loaded.py", "lib/pickled.py", "lib/texts.py", "data/at_import.txt", "tops/at_top.py")
LIBRARY = """
class Load(ExecutorStep[Blob], op="load"):
    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", str(ctypes.CDLL(HERE + "/lib" + "fast.so").fast()))
        return Blob(bytes=1)


"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc to compile a library with")
def test_a_library_that_is_loaded(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", HEAD + LIBRARY + TAIL.format(results='"load": Load(label="x")'))
    for name in OF_HEAD:
        place(project, name).parent.mkdir(exist_ok=True)
        place(project, name).write_text(FILES[name])

    def compiled(number: int) -> None:
        source = tmp_path / "fast.c"
        source.write_text(f"int fast(void) {{ return {number}; }}")
        subprocess.run(["gcc", "-shared", "-o", project.folder / "libfast.so", source], check=True)

    compiled(1)
    run(project, expect=0)
    assert "1 cached" in run(project, "--dry-run", expect=0)
    compiled(2)
    assert "libfast.so changed, which run() read" in run(project, "--dry-run", expect=3)


LAZY = """
class Lazy(ExecutorStep[Blob], op="lazy"):
    def run(self, ctx: Context) -> Blob:
        from lib.lazy import used

        ctx.out.write_text("text.txt", str(used()))
        return Blob(bytes=1)


"""


def test_what_only_an_import_runs_does_not_count(tmp_path: Path) -> None:
    """Test a class and a decorator of a module from which run() uses only another function."""
    project = Project(tmp_path / "project", HEAD + LAZY + TAIL.format(results='"lazy": Lazy(label="x")'))
    for name in OF_HEAD:
        place(project, name).parent.mkdir(exist_ok=True)
        place(project, name).write_text(FILES[name])
    lazy = project.folder / "lib/lazy.py"
    lazy.write_text(
        "def mark(f):\n    return f\n\n\n@mark\ndef other():\n    return 1\n\n\n"
        "class Unused:\n    x = 1\n\n\ndef used():\n    return 1\n"
    )
    run(project, expect=0)
    lazy.write_text(lazy.read_text().replace("x = 1", "x = 2").replace("    return f\n", "    return (f)  # same\n"))
    assert "1 cached" in run(project, "--dry-run", expect=0)
    lazy.write_text(lazy.read_text().replace("used():\n    return 1", "used():\n    return 2"))
    assert "lib.lazy.used changed" in run(project, "--dry-run", expect=3)


VERSION = '''
"""Does a file beside the experiment count, where run() only asks for the version of a package?"""
import os
from importlib import metadata

from marin import Context, Experiment, ExecutorStep, Scale, executor_main
from tests.support.toy import Blob


class Versioned(ExecutorStep[Blob], op="versioned"):
    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", metadata.version("numpy"))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"versioned": Versioned()})


if __name__ == "__main__":
    executor_main(build)
'''


def test_to_ask_for_the_version_of_a_package_reads_no_folder(tmp_path: Path) -> None:
    """Python lists every folder of its path to find a version, including the experiment's folder."""
    project = Project(tmp_path / "project", VERSION)
    run(project, expect=Exit.OK)
    (project.folder / "exp2_new.py").write_text("new = True\n")
    assert "1 cached" in run(project, "--dry-run", expect=Exit.OK)


def test_a_temporary_file_that_comes_or_goes_is_a_note_and_a_changed_one_is_drift(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    staged = outside / "staged.txt"
    read = f'open("{staged}").read() + str(os.path.exists("{outside}/flag"))'
    project = Project(tmp_path / "project", VERSION.replace('metadata.version("numpy")', read))
    staged.write_text("one")
    run(project, expect=Exit.OK)
    staged.write_text("two")
    assert f"{staged} changed, which run() read" in run(project, "--dry-run", expect=Exit.DRIFT)
    staged.unlink()
    (outside / "flag").touch()
    said = run(project, "--dry-run", "--every-step", expect=Exit.OK)
    assert f"the temporary file {staged} is gone; run() read it" in said
    assert f"the temporary file {outside / 'flag'} is there now; run() looked for it" in said


def test_a_module_may_rebind_its_own_constants_as_it_is_imported(tmp_path: Path) -> None:
    """nanoGPT's configurator rebinds constants like this. The text that the module runs counts."""
    source = VERSION.replace("import os\n", "import lib.configured\n")
    project = Project(tmp_path / "project", source.replace('metadata.version("numpy")', "str(lib.configured.RATE)"))
    overrides = project.folder / "lib/overrides.py"
    overrides.write_text("RATE = 2\n")
    read = "exec(open(__file__.replace('configured', 'overrides')).read())\n"
    (project.folder / "lib/configured.py").write_text("RATE = 1\n" + read)
    run(project, expect=Exit.OK)
    assert "1 cached" in run(project, "--dry-run", expect=Exit.OK)
    overrides.write_text("RATE = 3\n")
    assert "lib/overrides.py changed, which run() read" in run(project, "--dry-run", expect=Exit.DRIFT)


def test_a_field_that_names_a_function_of_a_module_makes_that_alone_count(tmp_path: Path) -> None:
    source = VERSION.replace(
        'ctx.out.write_text("text.txt", metadata.version("numpy"))',
        'rule = getattr(importlib.import_module("lib.rules"), self.rule)\n'
        '        ctx.out.write_text("text.txt", rule())',
    )
    source = source.replace("    def run(", "    rule: str\n\n    def run(").replace("import os", "import importlib")
    project = Project(tmp_path / "project", source.replace("Versioned()}", 'Versioned(rule="keep")}'))
    rules = project.folder / "lib/rules.py"
    text = "def keep():\n    return words()\n\n\ndef words():\n    return 'kept'\n\n\ndef other():\n    return 'left'\n"
    rules.write_text(text)
    run(project, expect=Exit.OK)
    rules.write_text(text.replace("left", "changed"))
    assert "1 cached" in run(project, "--dry-run", expect=Exit.OK)
    rules.write_text(text.replace("kept", "changed"))
    assert "lib.rules.words changed" in run(project, "--dry-run", expect=Exit.DRIFT)
    project.file.write_text(project.file.read_text().replace('rule="keep"', 'rule="other"'))
    run(project, expect=Exit.OK)
    rules.write_text(text.replace("left", "changed"))
    assert "lib.rules.other changed" in run(project, "--dry-run", expect=Exit.DRIFT)
