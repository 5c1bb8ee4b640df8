"""A file that moves with its code unchanged is no drift; what only looks like it is."""

import pytest

from marin.fingerprint.fingerprint import CodeFingerprint, compare
from marin.steps.value import digest
from tests.fingerprint.cases import HEAD, STEP
from tests.fingerprint.project import read_each, write

RULES = """
import logging
from lib.words import WORDS
LIMIT = 3
log = logging.getLogger(__name__)


class Rule:
    limit = LIMIT

    def keep(self, x):
        log.info("keeps")
        return [x, WORDS][: self.limit]


def keep(x):
    return Rule().keep(x)
"""
OTHER = "def keep(x):\n    return -x\n"
LIB = {
    "lib/__init__.py": "",
    "lib/rules.py": RULES,
    "lib/other.py": OTHER,
    "lib/twin.py": OTHER,
    "lib/words.py": "WORDS = ['a']\n",
    "lib/use.py": "import lib.rules\nfrom lib import other, twin\n\n"
    "def both(x):\n    return lib.rules.keep(x) + other.keep(x) + twin.keep(x)\n",
    "op.py": HEAD
    + "from lib.use import both\nfrom lib.rules import keep as k\n"
    + STEP.format(body="return both(k(1))"),
}


def edited(moves=(), **replaced):
    """LIB with files moved and texts replaced."""
    files = dict(LIB)
    for old, new in moves:
        files[new] = files.pop(old)
        for depth in range(1, new.count("/")):
            files.setdefault("/".join(new.split("/")[: depth + 1]) + "/__init__.py", "")
    return {
        name: _replaced(text, replaced.get(name.rpartition("/")[2].removesuffix(".py"), ()))
        for name, text in files.items()
    }


def _replaced(text, pairs):
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    return text


FOLLOW = {"use": [("lib.rules", "lib.text.rules")], "op": [("lib.rules", "lib.text.rules")]}
MOVE = [("lib/rules.py", "lib/text/rules.py")]
SWAP = [("lib/rules.py", "lib/one.py"), ("lib/other.py", "lib/two.py")]
CASES = {
    "a module that moved": (edited(MOVE, **FOLLOW), set()),
    "two modules that moved": (
        edited(
            SWAP,
            use=[
                ("import lib.rules\nfrom lib import other,", "import lib.one\nfrom lib import two as other,"),
                ("lib.rules", "lib.one"),
            ],
            op=[("lib.rules", "lib.one")],
        ),
        set(),
    ),
    "a function that moved, and uses what stayed": (
        edited(
            rules=[("\n\ndef keep(x):\n    return Rule().keep(x)\n", "")],
            use=[("lib.rules", "lib.more")],
            op=[("lib.rules", "lib.more")],
        )
        | {"lib/more.py": "from lib.rules import Rule\n\ndef keep(x):\n    return Rule().keep(x)\n"},
        set(),
    ),
    "a module that moved and changed": (
        edited(MOVE, **FOLLOW, rules=[("LIMIT = 3", "LIMIT = 4")]),
        {"added lib.text.rules.LIMIT", "removed lib.rules.LIMIT"},
    ),
    "moved, and the two are taken for each other": (
        edited(
            SWAP,
            use=[("lib.rules", "lib.two"), ("lib import other,", "lib import one as other,")],
            op=[("lib.rules", "lib.one")],
        ),
        {"changed lib.use.both"},
    ),
    "another function of the same name": (
        edited(use=[("lib.rules", "lib.other"), ("lib import other,", "lib import rules as other,")]),
        {"changed lib.use.both"},
    ),
    "two of one name and text that moved": (
        edited(
            [("lib/other.py", "lib/one.py"), ("lib/twin.py", "lib/two.py")],
            use=[("import other, twin", "import one as other, two as twin")],
        ),
        {"added lib.one.keep", "added lib.two.keep", "removed lib.other.keep", "removed lib.twin.keep"},
    ),
    "a constant of the new module under the old name": (
        edited(
            rules=[("\n\ndef keep(x):\n    return Rule().keep(x)\n", "\n\ndef stays(x):\n    return Rule()\n")],
            use=[("lib.rules", "lib.more")],
            op=[("lib.rules", "lib.more"), ("both(k(1))", "both(k(1))")],
        )
        | {
            "lib/more.py": "class Rule:\n    def keep(self, x):\n        return 7\n\n"
            "def keep(x):\n    return Rule().keep(x)\n"
        },
        {"removed lib.rules.LIMIT", "removed lib.rules.Rule", "removed lib.rules.log", "added lib.more.Rule"},
    ),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved")
    projects = [
        write(folder / str(number), files)
        for number, files in enumerate([LIB, *(files for files, _ in CASES.values())])
    ]
    first, *others = read_each(projects)
    return first, dict(zip(CASES, others, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_only_what_changed_counts(found, name):
    before, after = found[0], found[1][name]
    assert before.units, before.opaque
    assert after.units, after.opaque
    counted = {
        f"{change.kind} {change.name}" for change in compare(before, after) if change.kind not in ("moved", "gained")
    }
    assert before.digest != after.digest, "nothing moved"
    wanted = CASES[name][1]
    assert wanted <= counted
    assert bool(wanted) == bool(counted), counted


def fingerprint(**texts):
    named = {name.replace("__", "."): text for name, text in texts.items()}
    return CodeFingerprint({name: digest(text.encode()) for name, text in named.items()}, {}, sources=named)


USED = {"lib__a__LIMIT": "LIMIT = 3", "lib__b__LIMIT": "LIMIT = 5"}
KEEP = "def keep(x):\n    return x + LIMIT"


def test_a_function_that_finds_another_value_where_it_went_has_not_moved():
    before, after = fingerprint(**USED, lib__a__keep=KEEP), fingerprint(**USED, lib__b__keep=KEEP)
    assert {change.kind for change in compare(before, after)} == {"added", "removed"}
    imported = fingerprint(**USED, lib__b__keep=f"{KEEP}\n# LIMIT is lib.a.LIMIT")
    assert {change.kind for change in compare(before, imported)} == {"moved"}


def test_data_beside_code_is_compared_as_it_is():
    for then, now in (("one  # a", "one  # b"), ("# a is b", "# a is c"), ("one", "one ")):
        before, after = fingerprint(**{"lib/words.txt": then}), fingerprint(**{"lib/words.txt": now})
        assert {change.kind for change in compare(before, after)} == {"changed"}
        assert {change.kind for change in compare(before, fingerprint(**{"lib/text/words.txt": then}))} == {"moved"}
        assert {change.kind for change in compare(before, fingerprint(**{"lib/text/words.txt": now}))} != {"moved"}


def test_older_fingerprints_do_not_say_where_the_names_of_paths_lead():
    """Of those in a path that they followed. What else differs counts."""
    here = "def here():\n    return Path(__file__).parent"
    now = f"{here}\n# Path is pathlib.Path\n# keep is lib.rules.keep"
    assert compare(fingerprint(lib__here=f"{here}\n# keep is lib.rules.keep"), fingerprint(lib__here=now)) == ()
    for then in (now.replace("pathlib.Path", "lib.Path"), f"{here}\n# keep is lib.rules.drop", here):
        assert {change.kind for change in compare(fingerprint(lib__here=then), fingerprint(lib__here=now))} == {
            "changed"
        }


def test_code_that_says_where_it_stands_has_not_moved():
    before, after = (fingerprint(**{f"lib.{name}.keep": "def keep(x):\n    return __name__"}) for name in "ab")
    assert {change.kind for change in compare(before, after)} == {"added", "removed"}
