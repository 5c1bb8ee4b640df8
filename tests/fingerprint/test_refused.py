"""Where a change could be missed, the step is refused, and the error says where, why and what to do."""

import pytest

from tests.fingerprint.cases import HEAD, REGISTRY
from tests.fingerprint.project import Refused, read_each, write
from tests.fingerprint.seen import RULES, Seen

PLUGIN = "from lib.registry import TABLE\n\ndef mine(x):\n    return x\n\nTABLE['mine'] = mine\n"
LATE = "\nimport lib.plugin\n"  # the experiment imports it, the operator's code does not


def refused(name: str, body: str, says: str, top: str = "", **other) -> Seen:
    return Seen(name, body, top, new=says, **other)


def patched(name: str, says: str, top: str, build: str, **other) -> Seen:
    """build() also does something to what run() uses."""
    whole = HEAD + f"from lib import rules\n{top}\nclass Step(ExecutorStep[Tokens], op='step'):\n    limit = 3\n"
    whole += f"    def run(self, ctx):\n        return use()\n\ndef build():\n    {build}\n    return Step()\n"
    return Seen(name, "", whole=whole, new=says, **other)


CASES = [
    refused("__import__", "return __import__(ctx.name).f()", "finds code by a computed name (__import__)"),
    refused(
        "sys.modules", "import sys\n        return sys.modules[ctx.name].f()", "whose name is computed (sys.modules)"
    ),
    refused(
        "pydoc.locate",
        "import pydoc\n        return pydoc.locate(ctx.name)()",
        "op.py:10: Step finds code by a computed name (pydoc.locate)",
    ),
    refused(
        "entry points",
        "from importlib.metadata import entry_points\n        return entry_points(group='x')",
        "finds code through entry points",
    ),
    refused("exec", "exec(ctx.text)", "executes text (exec)"),
    refused("compile", "return compile(ctx.text, '', 'exec')", "compiles text (compile)"),
    refused(
        "python -c",
        "import sys\n        return [sys.executable, '-c', ctx.text]",
        "runs a program whose text is computed",
    ),
    refused(
        "python -m",
        "import sys\n        return [sys.executable, '-m', ctx.name]",
        "runs a module whose name is computed",
    ),
    refused(
        "pickle",
        "import pickle\n        return pickle.load(ctx)",
        "unpickles: the classes named in the data are not seen",
    ),
    refused("numpy with pickles", "import numpy as np\n        return np.load(ctx, allow_pickle=True)", "unpickles"),
    refused(
        "sys.path", "import sys\n        sys.path.insert(0, 'x')", "changes sys.path: modules found there are not seen"
    ),
    refused("sys.path by slice", "import sys\n        sys.path[:0] = ['x']", "changes sys.path"),
    refused(
        "raw code", "import types\n        return types.FunctionType(ctx.code, {})", "builds a function out of raw code"
    ),
    refused(
        "a name that nothing binds", "return conjured(1)", "op.py:9: Step uses conjured, which nothing in op binds"
    ),
    refused(
        "a name that its module does not bind",
        "return rules.conjured(1)",
        "uses rules.conjured, whose source is not found",
        "from lib import rules",
    ),
    refused("a module without source", "import lib.generated\n        return lib.generated.f()", "lib.generated"),
    refused(
        "a captured object",
        "",
        "Step.run uses k, a object that exists only in this process",
        whole=HEAD + "def make(k):\n    class Step(ExecutorStep[Tokens], op='step'):\n        def run(self, ctx):\n"
        "            return k\n    return Step()\n\ndef build():\n    return make(object())\n",
    ),
    # What this process holds is not what the files say
    patched(
        "a function replaced by the experiment",
        "lib.rules.keep was replaced by op.mine",
        "def use():\n    return rules.keep(1)\ndef mine(x):\n    return x",
        "rules.keep = mine",
    ),
    patched(
        "a function replaced by an object",
        "lib.rules.keep is now",
        "def use():\n    return rules.keep(1)\nclass M:\n    def __call__(self, x):\n        return x",
        "rules.keep = M()",
    ),
    patched(
        "a method replaced",
        "op.K.f was replaced by lib.other.mine",
        "from lib import other\nclass K:\n    def f(self):\n        return 1\ndef use():\n    return K().f()",
        "K.f = other.mine",
        files={"lib/other.py": "def mine(self):\n    return 2\n"},
    ),
    patched(
        "a method added",
        "op.K.f was replaced by lib.other.mine",
        "from lib import other\nclass K:\n    pass\ndef use():\n    return K().f()",
        "K.f = other.mine",
        files={"lib/other.py": "def mine(self):\n    return 2\n"},
    ),
    patched(
        "a constant set",
        "lib.rules.LIMIT is 5, its file says 3",
        "def use():\n    return rules.LIMIT",
        "rules.LIMIT = 5",
        files={"lib/rules.py": "LIMIT = 3\n"},
    ),
    patched(
        "a class attribute set", "op.Step.limit is 5, its file says 3", "def use():\n    return 1", "Step.limit = 5"
    ),
    patched(
        "a registry filled by the experiment",
        "lib.registry.TABLE holds lib.plugin.mine",
        "from lib.registry import TABLE\ndef use():\n    return TABLE['mine']()",
        "import lib.plugin",
        files={"lib/registry.py": REGISTRY, "lib/plugin.py": PLUGIN},
    ),
    patched(
        "a singledispatch function filled by the experiment",
        "lib.show.show holds lib.plugin._",
        "from lib.show import show\ndef use():\n    return show(1)",
        "import lib.plugin",
        files={
            "lib/show.py": "from functools import singledispatch\n@singledispatch\ndef show(x):\n    return 0\n",
            "lib/plugin.py": "from lib.show import show\n@show.register\ndef _(x: int):\n    return 1\n",
        },
    ),
    patched(
        "a subclass announced by the experiment",
        "lib.base.B.kinds holds lib.plugin.A",
        "from lib.base import B\ndef use():\n    return B.kinds['A']()",
        "import lib.plugin",
        files={
            "lib/base.py": "class B:\n    kinds = {}\n    def __init_subclass__(cls):\n        B.kinds['A'] = cls\n",
            "lib/plugin.py": "from lib.base import B\nclass A(B):\n    pass\n",
        },
    ),
    patched(
        "a subclass found by listing",
        "lib.base.B has the subclass lib.plugin.A",
        "from lib.base import B\ndef use():\n    return B.__subclasses__()",
        "import lib.plugin",
        files={
            "lib/base.py": "class B:\n    pass\n",
            "lib/plugin.py": "from lib.base import B\nclass A(B):\n    pass\n",
        },
    ),
    patched(
        "a file edited after it was imported",
        "was edited after this process imported it; start a new process",
        "import os\ndef use():\n    return rules.keep(1)",
        "open(rules.__file__, 'w').write('def keep(x):\\n    return 2\\n')",
    ),
]

FINE = [
    # What is seen while it runs
    refused("import by a name from outside", "import importlib\n        importlib.import_module(ctx.name)", ""),
    refused("import by the name of a field", "import importlib\n        importlib.import_module(self.name)", ""),
    refused("a file by its path", "import runpy\n        runpy.run_path(ctx.path)", ""),
    refused(
        "a module from a path",
        "from importlib.util import spec_from_file_location as s\n        return s('x', ctx.p)",
        "",
    ),
    refused("modules of a computed package", "import pkgutil\n        return pkgutil.iter_modules(ctx.path)", ""),
    refused(
        "files of a computed package",
        "from importlib import resources\n        return resources.files(ctx.name) / 'x'",
        "",
    ),
    refused(
        "every file of the project",
        "return (HERE / ctx.name).read_text()",
        "",
        "from pathlib import Path\nHERE = Path(__file__).parent",
    ),
    patched(
        "a comment added after it was imported",
        "",
        "import os\ndef use():\n    return rules.keep(1)",
        f"open(rules.__file__, 'w').write({'# why' + chr(10) + RULES!r})",
    ),
    patched(
        "annotations in a file touched after it was imported",
        "",
        "import os\ndef use():\n    return rules.keep(1)",
        "os.utime(rules.__file__)",
        files={"lib/rules.py": "def keep(x):\n    def inner(y: int) -> int:\n        return y\n    return inner(x)\n"},
    ),
    patched(
        "a constant that the step's own code sets",
        "",
        "rules.LIMIT = 5\ndef use():\n    return rules.LIMIT",
        "pass",
        files={"lib/rules.py": "LIMIT = 3\n"},
    ),
    patched(
        "a registry that the step's own code fills",
        "",
        "import lib.plugin\nfrom lib.registry import TABLE\ndef use():\n    return TABLE['mine']()",
        "pass",
        files={"lib/registry.py": REGISTRY, "lib/plugin.py": PLUGIN},
    ),
    patched(
        "a function decorated in place",
        "",
        "import functools\ndef use():\n    return slow(1)\n@functools.cache\ndef slow(x):\n    return x",
        "pass",
    ),
    refused(
        "an import that the code does without",
        "return fast",
        "",
        "try:\n    from lib.generated import fast\nexcept ImportError:\n    fast = None",
    ),
    refused(
        "an import within suppress",
        "with suppress(ImportError):\n            from lib.generated import f\n            f()",
        "",
        "from contextlib import suppress",
    ),
    refused(
        "type parameters",
        "return first([1])",
        "",
        "def first[T](x: list[T]) -> T:\n    made: list[T] = [T]\n    return x[0]",
    ),
    refused(
        "super and __class__",
        "return K().f()",
        "",
        "class K:\n    def f(self):\n        return __class__, super().__init__(), __name__",
    ),
    refused(
        "a name of the class body",
        "return K.b",
        "",
        "class K:\n    a = 1\n    b = a + 1\n    @property\n"
        "    def c(self): return 1\n    @c.setter\n    def c(self, x): pass",
    ),
    refused("names from a star of a package", "return sqrt(array([4]))", "", "from math import *\nfrom numpy import *"),
    refused("a list of arguments that is no Python", "return ['git', 'commit', '-m', ctx.text]", ""),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    every = [*CASES, *FINE]
    projects = [write(folder / str(number), case.project()) for number, case in enumerate(every)]
    return dict(zip((case.name for case in every), read_each(projects), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_and_named(found, case):
    assert isinstance(found[case.name], Refused), found[case.name].opaque
    assert case.new in found[case.name].opaque[0]


@pytest.mark.parametrize("case", FINE, ids=lambda case: case.name)
def test_it_is_not_refused(found, case):
    assert not isinstance(found[case.name], Refused), found[case.name].opaque
