"""Annotations count only where the reached code reads them, in any of the ways to ask for them."""

import pytest

from tests.fingerprint.project import changes, read_each
from tests.fingerprint.seen import Seen, edited_projects

SIZE = {"file": "op.py", "old": "x: int", "new": "x: float"}

CASES = [
    Seen(
        "singledispatchmethod",
        "return Show().show(1)",
        "from functools import singledispatchmethod\nclass Show:\n    @singledispatchmethod\n"
        "    def show(self, x): return 0\n    @show.register\n    def _(self, x: int): return 1",
        changes=("op.Show",),
        **SIZE,
    ),
    Seen(
        "a function registered by a call",
        "return show(1)",
        "import functools\n@functools.singledispatch\ndef show(x): ...\ndef of_int(x: int): return 1\n"
        "show.register(of_int)",
        changes=("op.of_int",),
        **SIZE,
    ),
    Seen(
        "annotations beside a dispatch",
        "return show(1), plain(1)",
        "from functools import singledispatch\n@singledispatch\ndef show(x): return plain(x)\n"
        "@show.register\ndef _(x: str): return 1\ndef plain(x: int): return x",
        changes=(),
        **SIZE,
    ),
    Seen(
        "a metaclass that looks them up by name",
        "return M.size",
        "class Meta(type):\n    def __new__(cls, name, bases, ns):\n        ns['size'] = str(ns['__annotations__'])\n"
        "        return type.__new__(cls, name, bases, ns)\nclass M(metaclass=Meta):\n    x: int = 3",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "a metaclass that asks for them",
        "return M.size",
        "class Meta(type):\n    def __new__(cls, name, bases, ns):\n"
        "        return type.__new__(cls, name, bases, {**ns, 'size': str(ns.get('__annotations__'))})\n"
        "class M(metaclass=Meta):\n    x: int = 3",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "__init_subclass__",
        "return M.size",
        "class Base:\n    def __init_subclass__(cls):\n        cls.size = str(vars(cls)['__annotations__'])\n"
        "class M(Base):\n    x: int = 3",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "__set_name__",
        "return M.size",
        "class Field:\n    def __set_name__(self, owner, name):\n"
        "        owner.size = str(getattr(owner, '__annotations__'))\nclass M:\n    x: int = Field()",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "a decorator",
        "return M().size",
        "import typing as t\nhints = t.get_type_hints\ndef sized(cls):\n    cls.size = str(hints(cls))\n"
        "    return cls\n@sized\nclass M:\n    x: int = 3",
        changes=("op.M",),
        **SIZE,
    ),
    Seen(
        "mapped over",
        "from inspect import signature as s\n        return list(map(s, [f]))",
        "def f(x: int): return x",
        changes=("op.f",),
        **SIZE,
    ),
    Seen(
        "the types of a dataclass's fields",
        "return [getattr(f, 'type') for f in fields(Point)]",
        "from dataclasses import dataclass, fields\n@dataclass\nclass Point:\n    x: int = 0\n",
        changes=("op.Point",),
        **SIZE,
    ),
    Seen(
        "the keys that a typed dict needs",
        "return D.__required_keys__",
        "from typing import NotRequired, TypedDict\nclass D(TypedDict):\n    x: int",
        file="op.py",
        old="x: int",
        new="x: NotRequired[int]",
        changes=("op.D",),
    ),
]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    read = read_each(edited_projects(CASES, tmp_path_factory.mktemp("annotations")))
    return dict(zip((case.name for case in CASES), zip(read[::2], read[1::2], strict=True), strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_counts_exactly_where_it_is_read(pairs, case):
    before, after = pairs[case.name]
    assert before.units, before.opaque
    assert changes(before, after) == {f"changed {name}" for name in case.changes}
