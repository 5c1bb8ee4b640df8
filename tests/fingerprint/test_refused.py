"""marin refuses steps that only this process could make. It notes code of a step that it may not see."""

import sys

import pytest

from tests.fingerprint.cases import HEAD, REGISTRY
from tests.fingerprint.project import CHECKOUT, PRINT, Refused, read, read_each, write
from tests.fingerprint.seen import RULES, Seen

PLUGIN = "from lib.registry import TABLE\n\ndef mine(x):\n    return x\n\nTABLE['mine'] = mine\n"


def reads(name: str, body: str, says: str = "", top: str = "", **other) -> Seen:
    """Return a case. says: the expected note, "" for none."""
    return Seen(name, body, top, new=says, **other)


def patched(name: str, says: str, top: str, build: str, **other) -> Seen:
    """Return a case whose build() also changes something that run() uses."""
    whole = HEAD + f"from lib import rules\n{top}\nclass Step(ExecutorStep[Tokens], op='step'):\n    limit = 3\n"
    whole += f"    def run(self, ctx):\n        return use()\n\ndef build():\n    {build}\n    return Step()\n"
    return Seen(name, "", whole=whole, new=says, **other)


CASES = [
    reads(
        "a captured object",
        "",
        "Step.run uses k (object), which exists only in this process",
        whole=HEAD + "def make(k):\n    class Step(ExecutorStep[Tokens], op='step'):\n        def run(self, ctx):\n"
        "            return k\n    return Step()\n\ndef build():\n    return make(object())\n",
    ),
    # The process holds other code than the files
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
        "a file edited after it was imported",
        "was edited after this process imported it; start a new process",
        "import os\ndef use():\n    return rules.keep(1)",
        "open(rules.__file__, 'w').write('def keep(x):\\n    return 2\\n')",
    ),
]

FINE = [
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
]

NOTED = [
    reads("__import__", "return __import__(ctx.name).f()", "finds code by its name (__import__)"),
    reads("sys.modules", "import sys\n        return sys.modules[ctx.name].K", "name is computed (sys.modules)"),
    reads(
        "pydoc.locate",
        "import pydoc\n        return pydoc.locate(ctx.name)()",
        "op.py:10: Step finds code by its name (pydoc.locate)",
    ),
    reads(
        "pydoc.locate, constant", "import pydoc\n        return pydoc.locate('lib.rules.K')", "its name (pydoc.locate)"
    ),
    reads("exec", "exec(ctx.text)", "executes text (exec)"),
    reads("compile", "return compile(ctx.text, '', 'exec')", "compiles text (compile)"),
    reads("python -c", "import sys\n        return [sys.executable, '-c', ctx.text]", "program whose text is computed"),
    reads("a name that nothing binds", "return conjured(1)", "op.py:9: Step uses conjured, which nothing in op binds"),
    reads(
        "a name that its module does not bind",
        "return rules.conjured(1)",
        "uses rules.conjured, whose source is not found",
        "from lib import rules",
    ),
    reads("a module without source", "import lib.generated\n        return lib.generated.f()", "lib.generated"),
]

CLEAR = [
    reads("unpickling", "import pickle, joblib\n        return pickle.load(ctx), joblib.load(ctx)"),
    reads("numpy with pickles", "import numpy as np\n        return np.load(ctx, allow_pickle=True)"),
    reads("a longer import path", "import sys\n        sys.path.append('x')\n        sys.path[:0] = ['x']"),
    reads("a name in a string", "return {'_target_': 'lib.rules.keep', 'entry': 'lib.rules:keep'}"),
    reads("python -m", "import sys\n        return [sys.executable, '-m', ctx.name]"),
    reads(
        "what every module has",
        "return rules.__file__, rules.__doc__, rules.__name__, __doc__",
        "",
        "from lib import rules",
    ),
    reads(
        "settings of this machine",
        "return LIMIT",
        "",
        "LIMIT = 3\ntry:\n    from local_settings import *\nexcept ImportError:\n    pass",
        files={"local_settings.py": "LIMIT = 5\n"},
    ),
    reads(
        "declared",
        "return load(ctx.name)",
        "",
        "from marin import reaches\n@reaches()\ndef load(name):\n    exec(name)",
    ),
    reads(
        "type parameters",
        "return first([1])",
        "",
        "def first[T](x: list[T]) -> T:\n    made: list[T] = [T]\n    return x[0]",
    ),
    reads(
        "super and __class__",
        "return K().f()",
        "",
        "class K:\n    def f(self):\n        return __class__, super().__init__(), __name__",
    ),
    reads(
        "a name of the class body",
        "return K.b",
        "",
        "class K:\n    a = 1\n    b = a + 1\n    @property\n"
        "    def c(self): return 1\n    @c.setter\n    def c(self, x): pass",
    ),
    reads("names from a star of a package", "return sqrt(array([4]))", "", "from math import *\nfrom numpy import *"),
    reads("a list of arguments that is no Python", "return ['git', 'commit', '-m', ctx.text]", ""),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    every = [*CASES, *FINE, *NOTED, *CLEAR]
    projects = [write(folder / str(number), case.project()) for number, case in enumerate(every)]
    return dict(zip((case.name for case in every), read_each(projects), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_refused_and_named(found, case):
    assert isinstance(found[case.name], Refused), found[case.name].opaque
    assert case.new in found[case.name].opaque[0]


def test_a_file_edited_after_it_was_imported_before_marin_is_refused(tmp_path):
    case = next(case for case in CASES if case.name == "a file edited after it was imported")
    project = write(tmp_path, case.project())
    first = "import sys\nsys.path[:0] = sys.argv[1:]\nimport lib.rules\n"
    found = read(project, command=[sys.executable, "-c", first + PRINT, str(project), str(CHECKOUT)])
    assert case.new in found.opaque[0]


@pytest.mark.parametrize("case", [*FINE, *NOTED, *CLEAR], ids=lambda case: case.name)
def test_it_is_not_refused(found, case):
    assert not isinstance(found[case.name], Refused), found[case.name].opaque


@pytest.mark.parametrize("case", [*NOTED, *CLEAR], ids=lambda case: case.name)
def test_what_may_not_be_seen_is_noted_and_nothing_else(found, case):
    opaque = found[case.name].opaque
    assert (len(opaque) == 1 and case.new in opaque[0]) if case.new else not opaque, opaque
