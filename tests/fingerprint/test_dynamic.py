"""Test code that finds code: marin sees a change of the found code without running it.

See test_what_computed_names_lead_to for computed names. marin misses nothing silently (see test_refused)."""

import pytest

from tests.fingerprint.cases import HEAD, REGISTRY
from tests.fingerprint.project import changes, read_each
from tests.fingerprint.seen import RULES, Seen, edited_projects

SEEN = [
    # getattr, tables, partial
    Seen("getattr, computed name", "return getattr(rules, ctx.name)(1)", "from lib import rules"),
    Seen(
        "getattr of a package that re-exports",
        "return getattr(lib, ctx.name)(1)",
        "import lib",
        {"lib/__init__.py": "from lib.rules import keep\n"},
    ),
    Seen(
        "getattr of a package that star-imports",
        "return getattr(lib, ctx.name)(1)",
        "import lib",
        {"lib/__init__.py": "from lib.rules import *\n"},
    ),
    Seen("vars of a module", "return [f(1) for f in vars(rules).values()]", "from lib import rules"),
    Seen("__dict__ of a module", "return rules.__dict__[ctx.name](1)", "from lib import rules"),
    Seen(
        "a module in a table", "return getattr(TABLE[ctx.name], 'x')()", "from lib import rules\nTABLE = {'a': rules}"
    ),
    Seen(
        "getattr of self",
        "",
        whole=HEAD + "from lib.rules import keep\nclass Base:\n    def do_it(self):\n"
        "        return keep(1)\n\nclass Step(Base, ExecutorStep[Tokens], op='step'):\n    def run(self, ctx):\n"
        "        return getattr(self, 'do_' + ctx.name)()\n\ndef build():\n    return Step()\n",
    ),
    Seen(
        "partial", "return part(1)", "from functools import partial\nfrom lib.rules import keep\npart = partial(keep)"
    ),
    Seen("dict of functions", "return T[ctx.name](1)", "from lib import rules\nT = {'a': rules.keep, 'b': rules.drop}"),
    Seen(
        "attrgetter", "return attrgetter(ctx.name)(rules)(1)", "from operator import attrgetter\nfrom lib import rules"
    ),
    Seen("globals", "return globals()[ctx.name](1)", "from lib.rules import keep"),
    Seen("vars of the module itself", "return vars()[ctx.name](1)", "from lib.rules import keep"),
    Seen("locals hold what is named", "k = keep\n        return locals()[ctx.name](1)", "from lib.rules import keep"),
    Seen(
        "a function as default argument",
        "return call(1)",
        "from lib.rules import keep\ndef call(x, f=keep):\n    return f(x)",
    ),
    Seen(
        "a function as class attribute",
        "return K().f(1)",
        "from lib.rules import keep\nclass K:\n    f = staticmethod(keep)",
    ),
    Seen(
        "a lambda in a default",
        "return call(1)",
        "from lib import rules\ndef call(x, f=lambda x: rules.keep(x)):\n    return f(x)",
    ),
    # Import by name
    Seen("import_module, constant", "import importlib\n        return importlib.import_module('lib.rules').keep(1)"),
    Seen(
        "import_module, constant elsewhere",
        "import importlib\n        return importlib.import_module(NAME).keep(1)",
        "NAME = 'lib.rules'",
    ),
    Seen(
        "import_module, relative",
        "return load(1)",
        "from lib.loading import load",
        {
            "lib/loading.py": "from importlib import import_module\n\ndef load(x):\n"
            "    return import_module('.rules', __package__).keep(x)\n"
        },
    ),
    Seen(
        "getattr of import_module",
        "import importlib\n        return getattr(importlib.import_module('lib.rules'), ctx.name)(1)",
    ),
    Seen("__import__", "return __import__('lib.rules').rules.keep(1)"),
    Seen("sys.modules", "import sys, lib.rules\n        return sys.modules['lib.rules'].keep(1)"),
    Seen(
        "declared",
        "return load(ctx.name).keep(1)",
        "import importlib\nfrom lib import rules\nfrom marin.steps.reaches import reaches\n"
        "@reaches(rules)\ndef load(name):\n"
        "    return importlib.import_module(name)",
    ),
    Seen(
        "declared on the step",
        "",
        whole=HEAD + "import pickle\nfrom lib import rules\nfrom marin.steps.reaches import reaches\n"
        "@reaches(rules.keep)\nclass Step(ExecutorStep[Tokens], op='step'):\n    def run(self, ctx):\n"
        "        return pickle.loads(ctx)\n\ndef build():\n    return Step()\n",
    ),
    # Text as code
    Seen("eval of a constant", "return eval('keep(1)')", "from lib.rules import keep"),
    Seen("eval of a computed text", "return eval(ctx.text)", "from lib.rules import keep"),
    Seen("eval in a namespace", "return eval(ctx.text, {'k': keep})", "from lib.rules import keep"),
    Seen("exec of a constant", "exec('from lib.rules import keep\\nkeep(1)')"),
    Seen(
        "python -c",
        "import subprocess, sys\n        subprocess.run([sys.executable, '-c', 'import lib.rules as r; r.keep(1)'])",
    ),
    Seen("python -m", "import subprocess, sys\n        subprocess.run([sys.executable, '-m', 'lib.rules'])"),
    # Patches and registries
    Seen(
        "patched on import",
        "return rules.keep(1)",
        "from lib import rules\nfrom lib import patch",
        {"lib/patch.py": "from lib import rules\n\ndef mine(x):\n    return x\n\nrules.keep = mine\n"},
        "lib/patch.py",
        "    return x",
        "    return 2 * x",
        ("lib.patch.mine",),
    ),
    Seen("method assigned on import", "return K().f(1)", "from lib.rules import keep\nclass K:\n    pass\nK.f = keep"),
    Seen(
        "setattr on import", "return K().f(1)", "from lib.rules import keep\nclass K:\n    pass\nsetattr(K, 'f', keep)"
    ),
    Seen(
        "setattr in a function",
        "return K().f(1)",
        "from lib.rules import keep\nclass K:\n    pass\ndef fill(k):\n    k.f = keep\nfill(K)",
    ),
    Seen(
        "registered by an assignment",
        "return T['a'](1)",
        "from lib.registry import TABLE as T\nimport lib.rules",
        {
            "lib/registry.py": REGISTRY,
            "lib/rules.py": RULES + "\nfrom lib.registry import register\n_ = register('a')(keep)\n",
        },
    ),
    Seen(
        "registered in a class attribute",
        "return R.table['keep'](1)",
        "from lib.registry import R\nimport lib.rules",
        {
            "lib/registry.py": "class R:\n    table = {}\n\ndef register(f):\n"
            "    R.table[f.__name__] = f\n    return f\n",
            "lib/rules.py": "from lib.registry import register\n\n@register\n" + RULES,
        },
    ),
    Seen(
        "registered in a default argument",
        "return register(None)['keep'](1)",
        "from lib.registry import register\nimport lib.rules",
        {
            "lib/registry.py": "def register(f, table={}):\n    table[f.__name__] = f\n    return f\n",
            "lib/rules.py": "from lib.registry import register\n\n@register\n" + RULES,
        },
    ),
    Seen(
        "registered with __init_subclass__",
        "return B.kinds['A']().go()",
        "from lib.base import B\nimport lib.rules",
        {
            "lib/base.py": "class B:\n    kinds = {}\n    def __init_subclass__(cls):\n"
            "        B.kinds[cls.__name__] = cls\n",
            "lib/rules.py": "from lib.base import B\nclass A(B):\n    def go(self):\n        return 1\n",
        },
        old="return 1",
        new="return 2",
        changes=("lib.rules.A",),
    ),
    Seen(
        "registered with a metaclass",
        "return KINDS['A']().go()",
        "from lib.base import KINDS\nimport lib.rules",
        {
            "lib/base.py": "KINDS = {}\nclass M(type):\n"
            "    def __init__(cls, name, *rest):\n        KINDS[name] = cls\n"
            "class B(metaclass=M):\n    pass\n",
            "lib/rules.py": "from lib.base import B\nclass A(B):\n    def go(self):\n        return 1\n",
        },
        old="return 1",
        new="return 2",
        changes=("lib.rules.A",),
    ),
    Seen(
        "found with __subclasses__",
        "return [k().go() for k in B.__subclasses__()]",
        "from lib.base import B\nimport lib.rules",
        {
            "lib/base.py": "class B:\n    pass\n",
            "lib/rules.py": "from lib.base import B\nclass A(B):\n    def go(self):\n        return 1\n",
        },
        old="return 1",
        new="return 2",
        changes=("lib.rules.A",),
    ),
    Seen(
        "registered with a package",
        "return click.echo(1)",
        "import click\nimport lib.rules",
        {"lib/rules.py": "import click\n\n@click.command()\n" + RULES},
    ),
    Seen(
        "bound by a function through global",
        "return keep(1)",
        "from lib.late import *\nfrom lib.late import fill",
        {
            "lib/late.py": "__all__ = ['keep', 'fill']\n\ndef fill():\n"
            "    global keep\n    from lib.rules import keep\nfill()\n"
        },
    ),
    Seen("bound through globals on import", "return keep(1)", "from lib.rules import keep as k\nglobals()['keep'] = k"),
    Seen("a later star import wins", "return keep(1)", "def keep(x):\n    return 0\nfrom lib.rules import *"),
    Seen(
        "a computed __all__",
        "return keep(1)",
        "from lib.star import *",
        {"lib/star.py": "from lib.rules import keep\n__all__ = ['keep'] + []\n"},
    ),
    # Values made at run time
    Seen(
        "a class made in a function",
        "",
        whole=HEAD + "def make(k):\n    class Step(ExecutorStep[Tokens], op='step'):\n"
        "        def run(self, ctx):\n            return k\n    return Step()\n\ndef build():\n    return make(3)\n",
        file="op.py",
        old="make(3)",
        new="make(4)",
        changes=("op.make.<locals>.Step.<captured>",),
    ),
    Seen(
        "a captured function",
        "",
        whole=HEAD + "from lib.rules import keep\ndef make(k):\n"
        "    class Step(ExecutorStep[Tokens], op='step'):\n        def run(self, ctx):\n            return k(1)\n"
        "    return Step()\n\ndef build():\n    return make(keep)\n",
    ),
    Seen(
        "a captured closure",
        "",
        whole=HEAD + "def times(k):\n    return lambda x: k * x\n\ndef make(k):\n"
        "    class Step(ExecutorStep[Tokens], op='step'):\n        def run(self, ctx):\n            return k(1)\n"
        "    return Step()\n\ndef build():\n    return make(times(3))\n",
        file="op.py",
        old="times(3)",
        new="times(4)",
        changes=("op.make.<locals>.Step.<captured>",),
    ),
    Seen(
        "an attribute of a class made in a function",
        "",
        whole=HEAD + "def make(k):\n"
        "    class Step(ExecutorStep[Tokens], op='step'):\n        limit = k\n        def run(self, ctx):\n"
        "            return self.limit\n    return Step()\n\ndef build():\n    return make(3)\n",
        file="op.py",
        old="make(3)",
        new="make(4)",
        changes=("op.make.<locals>.Step.<captured>",),
    ),
    Seen(
        "a class made by type()",
        "",
        whole=HEAD + "def go(self, ctx):\n    return 1\n\nimport types\n"
        "Step = types.new_class('Made', (ExecutorStep[Tokens],), {'op': 'step'}, lambda ns: ns.update(run=go))\n"
        "build = Step\n",
        file="op.py",
        old="return 1",
        new="return 2",
        changes=("op.go",),
    ),
    Seen(
        "a class without source",
        "",
        whole=HEAD + "space = {'ExecutorStep': ExecutorStep, 'Tokens': Tokens, "
        "'__name__': 'conjured'}\n"
        "exec('class Step(ExecutorStep[Tokens], op=\"step\"):\\n    def run(self, ctx): return 1', "
        "space)\nbuild = space['Step']\n",
        file="op.py",
        old="return 1",
        new="return 2",
        changes=("conjured.Step",),
    ),
    Seen(
        "what a class without source uses",
        "",
        whole=HEAD + "from lib.rules import keep\n"
        "space = {'ExecutorStep': ExecutorStep, 'Tokens': Tokens, '__name__': 'conjured', 'keep': keep}\n"
        "exec('class Step(ExecutorStep[Tokens], op=\"step\"):\\n    def run(self, ctx): return keep(1)', space)\n"
        "build = space['Step']\n",
    ),
    Seen(
        "closure factory, value",
        "return by(1)",
        "from lib.rules import keep\ndef times(k):\n    return lambda x: k * x\nby = times(3)",
        file="op.py",
        old="times(3)",
        new="times(4)",
        changes=("op.by",),
    ),
    # Methods of other steps, artifacts of inputs
    Seen(
        "a method of the step in a field",
        "",
        whole=HEAD + "from typing import Any\nclass Other(ExecutorStep[Tokens], op='o'):\n"
        "    def weight(self):\n        return 1\n    def run(self, ctx):\n        return 1\n\n"
        "class Step(ExecutorStep[Tokens], op='step'):\n    of: Any\n    def run(self, ctx):\n"
        "        return self.of.weight()\n\ndef build():\n    return Step(of=Other())\n",
        file="op.py",
        old="self):\n        return 1",
        new="self):\n        return 2",
        changes=("op.Other",),
    ),
    Seen(
        "running the step in a field",
        "",
        whole=HEAD + "from typing import Any\nclass Other(ExecutorStep[Tokens], op='o'):\n"
        "    def run(self, ctx):\n        return 1\n\nclass Step(ExecutorStep[Tokens], op='step'):\n    of: Any\n"
        "    def run(self, ctx):\n        return self.of.run(ctx)\n\ndef build():\n    return Step(of=Other())\n",
        file="op.py",
        old="ctx):\n        return 1",
        new="ctx):\n        return 2",
        changes=("op.Other",),
    ),
    Seen(
        "the artifact of the step in a field",
        "",
        whole=HEAD + "from typing import Any\nclass Image(Artifact, kind='image'):\n"
        "    def show(self):\n        return 1\n\nclass Other(ExecutorStep[Image], op='o'):\n    def run(self, ctx):\n"
        "        return Image()\n\nclass Step(ExecutorStep[Tokens], op='step'):\n    of: Any\n    def run(self, ctx):\n"
        "        return ctx[self.of].show()\n\ndef build():\n    return Step(of=Other())\n",
        file="op.py",
        old="return 1",
        new="return 2",
        changes=("op.Image",),
    ),
    Seen(
        "the run that makes a milestone",
        "",
        whole=HEAD + "class Run(ExecutorStep[Tokens], op='r'):\n    def run(self, ctx):\n"
        "        return 1\n\nclass Step(ExecutorStep[Tokens], op='step'):\n"
        "    of: Run\n    @property\n    def producer(self):\n"
        "        return self.of\n    def run(self, ctx):\n"
        "        return 0\n\ndef build():\n    return Step(of=Run())\n",
        file="op.py",
        old="return 1",
        new="return 2",
        changes=("op.Run",),
    ),
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Return the fingerprints before and after each edit. Every one has its own process and checkout."""
    found = read_each(edited_projects(SEEN, tmp_path_factory.mktemp("dynamic")))
    return dict(zip((seen.name for seen in SEEN), zip(found[::2], found[1::2], strict=True), strict=True))


@pytest.mark.parametrize("seen", SEEN, ids=lambda seen: seen.name)
def test_a_change_is_seen(pairs, seen):
    before, after = pairs[seen.name]
    assert before.units, before.opaque
    assert changes(before, after) == {f"changed {name}" for name in seen.changes}
