"""Test files beside the code, and code that computed names and strings lead to. marin neither guesses them from the
source nor refuses them: it sees them while run() works. Only the step that read a changed file or function drifts."""

import json
from pathlib import Path

import pytest

from tests.fingerprint.test_kept import HEAD as PLAIN
from tests.fingerprint.test_observed import TAIL, Idiom, run
from tests.support.project import MARIN, Project

HEAD = '''
"""Is it seen?"""
import importlib, multiprocessing, os, pkgutil, pydoc, runpy, sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module, metadata, resources
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import numpy as np

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob
from lib.beside import HERE, OWN, load
from lib.lazy import LIMIT
import lib.taken

TABLE = {"a": "parts.by_table"}
NAMES = ["parts.by_loop"]
AT_IMPORT = import_module(".".join(["parts", "by_binding"])).K


def by_path(name):
    spec = spec_from_file_location(name.replace("/", "_"), f"{os.path.dirname(__file__)}/{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(path):
    return path.read_text()


def call(name):
    return import_module(name).f()


PATHED = by_path("parts/by_path_at_import").K
'''
STEP = """
class {cls}(ExecutorStep[Blob], op="{name}"):
    ask: str = "by_field"

    def run(self, ctx: Context) -> Blob:
        text = self.read()
        ctx.out.write_text("text.txt", str(text))
        return Blob(bytes=1)

    def read(self):
{body}

"""


def beside(name: str, read: str) -> tuple[str, Idiom]:
    file = f"data/{name}.txt"
    return name, Idiom(read.replace("FILE", f"{name}.txt"), file, f"{file} changed, which run() read")


def package_file(name: str, read: str) -> tuple[str, Idiom]:
    file = f"lib/{name}.txt"
    return name, Idiom(read.replace("FILE", f"{name}.txt"), file, f"{file} changed, which run() read")


def by_name(name: str, read: str, unit: str = "K") -> tuple[str, Idiom]:
    named = f"parts/{name}.py changed" if unit == "" else f"parts.{name}.{unit} changed"
    return name, Idiom(read, f"parts/{name}.py", named)


IDIOMS = dict(
    [
        beside("join", "return (HERE.parent / 'data' / 'FILE').read_text()"),
        beside("file_in_place", "return (Path(__file__).parent / 'data/FILE').read_bytes()"),
        beside("with_name", "return Path(__file__).with_name('data').joinpath('FILE').open().read()"),
        beside("parents", "return open(Path(__file__).resolve().parents[0] / 'data' / 'FILE').read()"),
        beside("os_path", "return open(os.path.join(os.path.dirname(__file__), 'data', 'FILE')).read()"),
        beside("a_function", "return np.loadtxt(HERE.parent / 'data' / 'FILE')"),
        beside("computed", "return (HERE.parent / 'data' / f'{self.op}.txt').read_text()"),
        beside(
            "computed_folder", "return open(HERE.parent / self.op.replace('computed_folder', 'data') / 'FILE').read()"
        ),
        beside(
            "pool", "with multiprocessing.Pool(1) as pool:\n    return pool.map(read, [HERE.parent / 'data' / 'FILE'])"
        ),
        package_file("by_loader", "return load('FILE')"),
        package_file("constant", "return OWN.read_text()"),
        package_file("files", "return resources.files('lib').joinpath('FILE').read_text()"),
        package_file("files_computed", "return (resources.files('li' + 'b') / 'FILE').read_text()"),
        package_file("read_text", "return resources.read_text('lib', 'FILE')"),
        package_file("open_text", "return resources.open_text(lib, 'FILE').read()"),
        package_file("get_data", "return pkgutil.get_data('lib', 'FILE')"),
        ("later", Idiom("return (HERE / 'later.txt').exists()", "lib/later.txt", "")),
        (
            "looked_for",
            Idiom(
                "try:\n    return (HERE / 'new.txt').read_text()\nexcept OSError:\n    return 0",
                "lib/new.txt",
                "lib/new.txt is there now, which run() looked for",
            ),
        ),
        ("names_only", Idiom("return HERE.name + Path(__file__).stem", "lib/unread.txt", "")),
        (
            "listed",
            Idiom(
                "return len(list((HERE.parent / 'listed').iterdir()))", "listed/new.txt", "listed/ has 2 names, had 1"
            ),
        ),
        ("own_source", Idiom("return lib.taken.source()", "lib/taken.py", "lib/taken.py changed, which run() read")),
        by_name("by_field", "return import_module('parts.' + self.ask).f()", "f"),
        by_name("by_fstring", "return importlib.import_module(f'parts.{self.op}').K"),
        by_name("by_percent", "return importlib.import_module('parts.%s' % self.op).K"),
        by_name("by_format", "return importlib.import_module('parts.{}'.format(self.op)).K"),
        by_name("by_loop", "return [import_module(name).K for name in NAMES]"),
        by_name("by_table", "return import_module(TABLE['A'.lower()]).K"),
        by_name("by_getattr", "return getattr(import_module('parts.' + self.op), 'K'.upper())"),
        by_name("by_string", "return pydoc.locate('parts.by_string.f')()", "f"),
        by_name("by_entry_point", "return metadata.EntryPoint('x', 'parts.by_entry_point:K', 'group').load()"),
        by_name("by_relative", "return import_module('.' + self.op, 'parts').K"),
        by_name("by_binding", "return AT_IMPORT"),
        by_name("by_lazy", "return LIMIT"),
        by_name("by_path", "return by_path('parts/' + self.op).K"),
        by_name("by_path_at_import", "return PATHED"),
        by_name("by_run_path", "return runpy.run_path(str(HERE.parent / 'parts' / (self.op + '.py')))['K']"),
        by_name(
            "by_script",
            "return runpy.run_path(f'{HERE.parent}/parts/{self.op}.py', run_name='__main__')",
            "<as script>",
        ),
        by_name(
            "by_pool",
            "with ProcessPoolExecutor(1) as pool:\n    return list(pool.map(call, ['parts.' + self.op]))",
            "f",
        ),
        by_name("by_module", "return runpy.run_module('parts.' + self.op)['K']"),
        by_name("by_resolve", "return pkgutil.resolve_name(f'parts.{self.op}:K')"),
        by_name(
            "by_listing",
            "paths = [str(HERE.parent / 'more')]\n"
            "found = [each.module_finder.find_spec(each.name) for each in pkgutil.iter_modules(paths)]\n"
            "return [spec.loader.load_module(spec.name).K for spec in found]",
        ),
    ]
)
IDIOMS["by_listing"] = Idiom(IDIOMS["by_listing"].read, "more/listed.py", "listed.K changed")
CODE = "K = 1\n\n\ndef f():\n    return 1\n\n\nif __name__ == '__main__':\n    X = 1\n"
FILES = {
    **{each.file: "1" for each in IDIOMS.values() if each.file.endswith(".txt") and "new" not in each.file},
    **{each.file: CODE for each in IDIOMS.values() if each.file.endswith(".py")},
    "listed/a.txt": "",
    "lib/unread.txt": "1",
    "lib/beside.py": "from pathlib import Path\n\nHERE = Path(__file__).parent\nOWN = HERE / 'constant.txt'\n\n\n"
    "def load(name):\n    return (HERE / name).read_text()\n",
    "lib/taken.py": "# 1\n\n\ndef source():\n    return open(__file__).read()\n",
    "lib/lazy/__init__.py": "from importlib import import_module\n\nLAZY = {'LIMIT': 'parts.by_lazy:K'}\n\n\n"
    "def __getattr__(name):\n    module, _, symbol = LAZY[name].partition(':')\n"
    "    return getattr(import_module(module), symbol)\n",
    "parts/__init__.py": "",
}


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Return each step's reasons for drift after edits to everything that the steps read."""
    steps = "".join(
        STEP.format(
            cls=name.title().replace("_", ""),
            name=name,
            body="\n".join(f"        {line}" for line in idiom.read.splitlines()),
        )
        for name, idiom in IDIOMS.items()
    )
    results = ", ".join(f'"{name}": {name.title().replace("_", "")}(label="x")' for name in IDIOMS)
    project = Project(tmp_path_factory.mktemp("computed") / "project", HEAD + steps + TAIL.format(results=results))
    for name, text in FILES.items():
        place(project, name).write_text(text)
    project.run()
    assert sorted(project.ran()) == sorted(f"{name}/x" for name in IDIOMS)
    assert f"{len(IDIOMS)} cached" in project.run("--dry-run")
    for idiom in IDIOMS.values():
        file = place(project, idiom.file)
        file.write_text(file.read_text().replace("1", "2") if file.exists() else "1")
    planned = project.started([MARIN, "plan", str(project.file), "--prefix", str(project.store), "--json"])
    steps = json.loads(planned.stdout)["steps"]
    return {step["step"].removesuffix("/x"): step["drift"] for step in steps}


def place(project: Project, name: str) -> Path:
    file = project.folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


@pytest.mark.parametrize("name", IDIOMS)
def test_a_change_of_what_was_read_is_drift_and_named(stopped: dict[str, list[str]], name: str) -> None:
    idiom = IDIOMS[name]
    assert any(idiom.says in line for line in stopped[name]) == bool(idiom.says), stopped[name]
    module = idiom.file.removesuffix(".py").replace("/", ".").removeprefix("more.")
    assert all(line.startswith((idiom.file, idiom.says.split()[0], f"{module}.")) for line in stopped[name])


def test_processes_that_multiprocessing_starts_anew_are_noted(tmp_path: Path) -> None:
    body = "        with multiprocessing.get_context('spawn').Pool(1) as pool:\n            return pool.map(len, [''])"
    step = STEP.format(cls="Spawn", name="spawn", body=body)
    head = PLAIN.format(imports="import multiprocessing")
    project = Project(tmp_path / "project", head + step + TAIL.format(results='"spawn": Spawn(label="x")'))
    assert "programs of the step read (new processes of multiprocessing)" in run(project, expect=0)
