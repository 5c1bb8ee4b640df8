"""Small operators with registries, scopes and indirection. Each case lists the units that it must reach or must not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

HEAD = """
from marin import Artifact, Documents, Tokens
from marin.steps.step import ExecutorStep
from marin.steps.value import value
"""
STEP = """
class Step(ExecutorStep[Tokens], op="step"):
    def run(self, ctx):
        {body}

def build():
    return Step()
"""
REGISTRY = """
TABLE = {}

def register(name):
    def add(f):
        TABLE[name] = f
        return f
    return add
"""


@dataclass(frozen=True)
class Case:
    """A step whose run() is body. has, lacks: units. opaque: parts of each note, in order. packages: names."""

    name: str
    body: str
    top: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    whole: str = ""
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


RULES = {"lib/__init__.py": "", "lib/rules.py": "def keep(x):\n    return x\n\n\ndef drop(x):\n    return -x\n"}
OTHER_STEP = """
class Other(ExecutorStep[Tokens], op="other"):
    def run(self, ctx):
        return helper()

def helper():
    return 1
"""

BESIDE = """
from pathlib import Path

HERE = Path(__file__).parent

class Words:
    def __init__(self):
        self.words = [HERE / "words.txt"]

def timed(f):
    def inside(*given):
        assert HERE
        return f(*given)
    return inside

WORDS = Words()

@timed
def other():
    return 1
"""
CODE = [
    # Registries
    Case(
        "what stands beside a path that is used",
        "return HERE",
        "from lib.beside import HERE",
        {"lib/__init__.py": "", "lib/beside.py": BESIDE},
        has=("lib.beside.HERE",),
        lacks=("lib.beside.WORDS", "lib.beside.other", "lib.beside.timed"),
    ),
    Case(
        "registered by a decorator",
        "return registry.TABLE['a']()",
        "from lib import registry",
        {
            "lib/__init__.py": "from lib import plugins\n",
            "lib/registry.py": REGISTRY,
            "lib/plugins.py": "from lib.registry import register\n\n@register('a')\ndef a():\n    return b()\n\n"
            "def b():\n    return 1\n\ndef c():\n    return 1\n\n"
            "if b:\n    @register('d')\n    def d():\n        return 1\n",
        },
        has=("lib.plugins.a", "lib.plugins.b", "lib.plugins.d", "lib.registry.register", "lib.registry.TABLE"),
        lacks=("lib.plugins.c",),
    ),
    Case(
        "registered by a method of the table",
        "return TABLE.make('a')",
        "from lib.registry import TABLE\nimport lib.plugins",
        {
            "lib/__init__.py": "",
            "lib/registry.py": "class Table:\n    def add(self, f):\n        return f\n\nTABLE = Table()\n",
            "lib/plugins.py": "from lib.registry import TABLE\n\n@TABLE.add\ndef a():\n    return 1\n",
        },
        has=("lib.plugins.a", "lib.registry.Table"),
    ),
    Case(
        "registered by subclassing",
        "return Base.kinds['a']()",
        "from lib.base import Base\nimport lib.plugins",
        {
            "lib/__init__.py": "",
            "lib/base.py": "class Base:\n    kinds = {}\n\n    def __init_subclass__(cls):\n"
            "        Base.kinds[cls.__name__] = cls\n\nclass Middle(Base):\n    pass\n",
            "lib/plugins.py": "from lib.base import Middle\n\nclass A(Middle):\n    pass\n",
        },
        has=("lib.plugins.A",),
    ),
    Case(
        "registered by a statement",
        "return TABLE['a']()",
        "from lib.registry import TABLE\nimport lib.plugins",
        {
            "lib/__init__.py": "",
            "lib/registry.py": "TABLE = {}\n",
            "lib/plugins.py": "from lib.registry import TABLE\n\ndef a():\n    return 1\n\nTABLE['a'] = a\n",
        },
        has=("lib.plugins.a", "lib.plugins.<on import>"),
    ),
    Case(
        "registered with singledispatch",
        "return show(1)",
        "from lib.show import show",
        {
            "lib/__init__.py": "",
            "lib/show.py": "from functools import singledispatch\n\n@singledispatch\ndef show(x):\n    return 0\n\n"
            "@show.register\ndef _(x: int):\n    return helper(x)\n\ndef helper(x):\n    return x\n",
        },
        has=("lib.show._", "lib.show.helper"),
    ),
    Case(
        "registered in a table that the step does not use",
        "return keep(1)",
        "from lib.rules import keep\nimport lib.plugins",
        {
            **RULES,
            "lib/registry.py": REGISTRY,
            "lib/plugins.py": "from lib.registry import register\n\n@register('a')\ndef a():\n    return 1\n",
        },
        has=("lib.rules.keep",),
        lacks=("lib.plugins.a", "lib.registry.TABLE", "lib.registry.register"),
    ),
    Case(
        "decorated by what the step uses too, without a registry",
        "return a()",
        "import functools\n\ndef plain(f):\n    return functools.wraps(f)(f)\n\n@plain\ndef a():\n    return 1\n\n"
        "@plain\ndef b():\n    return 2\n",
        has=("op.a", "op.plain"),
        lacks=("op.b",),
    ),
    # Statements that run on import
    Case(
        "a setting made on import",
        "return keep(1)",
        "from lib.rules import keep",
        {**RULES, "lib/__init__.py": "import lib.setup\n", "lib/setup.py": "import numpy\nnumpy.seterr(all='raise')\n"},
        has=("lib.setup.<on import>",),
        packages=("numpy",),
    ),
    Case(
        "the experiment's own call",
        "return 1",
        whole=HEAD
        + "from marin.steps.step import identity_fields\n"
        + STEP.format(body="return 1")
        + "\nidentity_fields(build())\n"
        "if __name__ == '__main__':\n    identity_fields(build())\n",
        lacks=("op.<on import>", "op.build"),
    ),
    # Scopes
    Case(
        "local names are not global ones",
        "a = 1\n        [b for b in (lambda c: c)([])]\n        for d in (): pass\n        with ctx as e: pass\n"
        "        try: pass\n        except ValueError as f: f\n        match ctx:\n            case [g, *h]: pass\n"
        "            case {'k': i, **j}: pass\n        def k(l, *m, n=1, **o): return l, m, n, o\n"
        "        if (p := 1): pass\n        import q\n        return a, d, e, g, h, i, j, k, p",
        "\n".join(f"{name} = 1" for name in "abcdefghijklmnop"),
        has=("op.Step",),
        lacks=tuple(f"op.{name}" for name in "abcdefghijklmnop"),
    ),
    Case(
        "global names beside local ones",
        "return [a for a in b], (lambda c, d=e: c), inner(f=g)",
        "a = b = c = d = e = f = g = 1\ndef inner(f):\n    global h\n    h = f\n    return h\nh = 2\n",
        has=("op.b", "op.e", "op.g", "op.h"),
        lacks=("op.a", "op.c", "op.d", "op.f"),
    ),
    Case(
        "names of a class body are not seen by its methods",
        "return Holder().get()",
        "keep = 1\nclass Holder:\n    keep = 2\n    def get(self):\n        return keep\n",
        has=("op.keep",),
    ),
    # Indirection
    Case(
        "functions in tables, partials and lambdas",
        "return TABLE['a'](1) + part(1)",
        "from functools import partial\nfrom lib.rules import keep, drop\nTABLE = {'a': lambda x: keep(x)}\n"
        "part = partial(drop, 1)\n",
        RULES,
        has=("lib.rules.keep", "lib.rules.drop"),
    ),
    Case(
        "getattr with a constant",
        "return getattr(lib.rules, 'keep')(1)",
        "import lib.rules",
        RULES,
        has=("lib.rules.keep",),
        lacks=("lib.rules.drop",),
    ),
    Case(
        "getattr with a computed name",
        "return getattr(rules, ctx.name)(1)",
        "from lib import rules",
        RULES,
        has=("lib.rules.keep", "lib.rules.drop"),
        opaque=("op.py:9: Step takes a computed name from lib.rules",),
    ),
    Case(
        "a module as a value",
        "return list(vars(rules))",
        "from lib import rules",
        RULES,
        has=("lib.rules.keep", "lib.rules.drop"),
    ),
    Case(
        "import_module with a constant",
        "return import_module('lib.rules').keep(1)",
        "from importlib import import_module",
        RULES,
        has=("lib.rules.keep",),
        lacks=("lib.rules.drop",),
    ),
    Case(
        "import_module held in a variable",
        "import importlib\n        held = importlib.import_module('lib.rules')\n        return held.keep(1)",
        files=RULES,
        has=("lib.rules.keep", "lib.rules.drop"),
    ),
    Case(
        "a module run with -m",
        "import subprocess, sys\n        subprocess.run([sys.executable, '-m', 'lib.work', '--fast'])",
        files={
            "lib/__init__.py": "",
            "lib/work.py": "def main():\n    return 1\n\nif __name__ == '__main__':\n    main()\n",
        },
        has=("lib.work.main", "lib.work.<as script>"),
    ),
    Case(
        "globals",
        "return globals()[ctx.name](1)",
        "def hidden(x):\n    return x\n",
        has=("op.hidden",),
        opaque=("Step uses globals()",),
    ),
    Case(
        "the module's docstring",
        "return __doc__",
        whole='"""Question."""' + HEAD + STEP.format(body="return __doc__"),
        has=("op.__doc__",),
    ),
    Case(
        "a module's own __getattr__",
        "return rules.conjured(1)",
        "from lib import rules",
        {
            "lib/__init__.py": "",
            "lib/rules.py": "def __getattr__(name):\n    return helper\n\ndef helper(x):\n    return x\n",
        },
        has=("lib.rules.__getattr__", "lib.rules.helper"),
    ),
]
