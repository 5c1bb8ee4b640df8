"""A step owns its values from its construction on: run() sees exactly the hashed values."""

from __future__ import annotations

import copy
import dataclasses
import enum
import pickle
import subprocess
import sys
from collections import ChainMap, Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from marin import Context, ExecutorStep, execution, value
from marin.errors import UnencodableValue
from marin.steps.value import FrozenDict
from tests.support.project import ROOT
from tests.support.toy import Blob, Color, Join, Write, run


class Keep(ExecutorStep[Blob], op="frozen-keep"):
    held: Any
    options: Any = execution(default=None)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", f"{self.held!r} {self.options!r}")
        return Blob(bytes=1)


@value("frozen-holder")
class Holder:
    held: Any = None


@value("frozen-normal")
class Normal:
    """A step that puts a plain dict into its own field, as a __post_init__ may."""

    held: Mapping[str, Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "held", {key.lower(): item for key, item in self.held.items()})


class HashableDict(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


def written(prefix: Path, step: ExecutorStep[Any]) -> str:
    result = run(str(prefix), end=step).results[step]
    assert result.record is not None
    return (prefix / result.record.attempt / "text.txt").read_text()


def test_a_loop_over_one_dict_gives_as_many_results_as_values(tmp_path: Path) -> None:
    config: dict[str, Any] = {"opt": {"lr": 0.0}}
    steps: list[Keep] = []
    for rate in (0.1, 0.2, 0.3):
        config["opt"]["lr"] = rate
        steps.append(Keep(held=config))
    assert len({step.identity for step in steps}) == 3
    for step, rate in zip(steps, ("0.1", "0.2", "0.3"), strict=True):
        assert rate in written(tmp_path / rate, step)


def nested(inner: dict[str, int]) -> dict[str, Any]:
    """Return every way to hide a mutable value in a field. Each holds ``inner``."""
    return {
        "dict": {"a": inner},
        "tuple": (1, (2, inner)),
        "ordered": OrderedDict(a=OrderedDict(inner)),
        "default": defaultdict(dict, a=inner),
        "counter": Counter(inner),
        "chain": ChainMap({"a": inner}, {}),
        "proxy": MappingProxyType(inner),
        "value": Holder({"a": inner}),
        "value in dict": {"a": (Holder((inner,)),)},
        "frozen by hand": FrozenDict({"a": inner}),
        "own post init": Normal({"A": inner}),
    }


@pytest.mark.parametrize("field", ["held", "options"])
@pytest.mark.parametrize("kind", sorted(nested({})))
def test_nothing_that_the_caller_holds_changes_a_step(kind: str, field: str, tmp_path: Path) -> None:
    inner = {"lr": 1}
    given = nested(inner)[kind]
    step, same = (Keep(**{"held": 0, field: nested({"lr": 1})[kind]}) for _ in range(2))
    mine = Keep(**{"held": 0, field: given})
    inner["lr"] = 2
    if isinstance(given, dict) and not isinstance(given, FrozenDict):
        given["b"] = 3
    assert getattr(mine, field) == getattr(step, field)
    assert mine.identity == step.identity == dataclasses.replace(mine, label="again").identity
    assert written(tmp_path / "a", mine) == written(tmp_path / "b", same)


def test_sets_and_what_is_in_them_are_frozen() -> None:
    inside = HashableDict(a=1)
    given: set[Any] = {1, frozenset({inside})}
    step = Keep(held={"s": given})
    given.add(2)
    inside["a"] = 2
    assert step.held["s"] == frozenset({1, frozenset({FrozenDict({"a": 1})})})
    assert step.identity == Keep(held={"s": frozenset({1, frozenset({HashableDict(a=1)})})}).identity
    with pytest.raises(TypeError, match="frozen"):
        step.held["s2"] = 1


def test_run_sees_one_order_of_two_dicts_that_are_one_identity(tmp_path: Path) -> None:
    steps = [Write(text=name, label=name) for name in "cab"]
    forwards = Keep(held={"z": 1, "aa": {3: 1, 1: 2}, "b": {step: 1 for step in steps}})
    backwards = Keep(held={"b": {step: 1 for step in reversed(steps)}, "aa": {1: 2, 3: 1}, "z": 1})
    assert forwards == backwards
    assert written(tmp_path / "a", forwards) == written(tmp_path / "b", backwards)
    assert [list(forwards.held), list(forwards.held["aa"])] == [["b", "z", "aa"], [1, 3]]


def test_what_an_execution_field_holds_is_not_shared() -> None:
    names, step = ["a"], Write(text="a")
    mine = Keep(held=1, options={"names": names, "of": (step, bytearray(b"x"))})
    names.append("b")
    assert mine.options["names"] == ["a"]
    assert mine.options["of"][0] is step


def test_a_value_that_sets_its_field_itself_is_frozen_all_the_same() -> None:
    with pytest.raises(TypeError, match="frozen"):
        Normal({"A": 1}).held["b"] = 2  # type: ignore[index]

    class Doubles(ExecutorStep[Blob], op="frozen-doubles"):
        count: int

        def __post_init__(self) -> None:
            super().__post_init__()
            object.__setattr__(self, "count", self.count * 2)

        def run(self, ctx: Context) -> Blob: ...

    assert Doubles(count=1).count == 2
    assert Doubles(count=2).identity == dataclasses.replace(Doubles(count=1)).identity  # replace() doubles 2 again


def test_a_value_inherits_the_checks_of_the_value_that_it_extends() -> None:
    @value("frozen-positive")
    class Positive:
        count: int

        def __post_init__(self) -> None:
            if self.count < 1:
                raise ValueError("not positive")

    @value("frozen-positive-named")
    class Named(Positive):
        name: str = ""

    with pytest.raises(ValueError, match="not positive"):
        Named(0)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda step: pickle.loads(pickle.dumps(step))])
def test_copies_of_a_step_are_the_step(again: Callable[[Any], Any]) -> None:
    held = {"b": {"c": {1, 2}, "a": Color(red=1, names={"y": 1.0, "x": 2.0})}, "a": (Write(text="a"),)}
    step = Join(parts=(Keep(held=held, options={"list": [1]}, label="keep"),), label="join")
    copied = again(step)
    [keep], [before] = copied.parts, step.parts
    assert copied == step
    assert keep.held == before.held
    assert repr(keep.held) == repr(before.held)
    assert (keep.label, keep.options, type(keep.held["b"])) == ("keep", {"list": [1]}, FrozenDict)
    assert dataclasses.replace(copied, label="").identity == step.identity
    assert keep.dependencies == before.dependencies
    with pytest.raises(TypeError, match="frozen"):
        keep.held["b"]["c"] = 1


def test_sets_are_read_alike_in_every_process() -> None:
    """Python's order of iteration differs between processes. The members and the identity stay the same."""
    code = (
        "from tests.steps.test_frozen_fields import Keep\n"
        "step = Keep(held={'s': {'a', 'b', 'c', 'dd'}, 'd': {'k': {1, 2}}})\n"
        "print(step.identity, sorted(step.held['s']), list(step.held))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(said) == 1


class Number(int):
    """An int that might hold more than its value."""


Point = namedtuple("Point", "x y")


class Mode(enum.Flag):
    A = 1
    B = 2


value("frozen-mode")(Mode)


def cyclic() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["self"] = {"again": held}
    return held


def deep(times: int, wrap: Callable[[Any], Any]) -> Any:
    held: Any = 1
    for _ in range(times):
        held = wrap(held)
    return held


def cyclic_value() -> Holder:
    holder = Holder()
    object.__setattr__(holder, "held", (holder,))
    return holder


@pytest.mark.parametrize(
    ("held", "says"),
    [
        (bytearray(b"x"), r"write bytes"),
        (Number(1), r"Number is a kind of int .*write int"),
        (Point(1, 2), r"Point is a kind of tuple .*write tuple"),
        ({"a": [1]}, r"Keep\.held\['a'\]: a list can change"),
        (Mode(0), r"<Mode: 0> has no name.*Mode a member for it"),
        (10**5000, r"an integer of \d+ bits"),
        (cyclic(), r"Keep\.held.*nested more than 100 levels deep, or it holds itself"),
        (cyclic_value(), r"Keep\.held.*nested more than 100 levels"),
        (deep(100_000, lambda held: (held,)), r"Keep\.held.*nested more than 100 levels"),
        (deep(101, lambda held: {"a": held}), r"Keep\.held.*nested more than 100 levels"),
        (deep(150, lambda held: Holder(held)), r"Keep\.held.*nested more than 100 levels"),
        (frozenset({HashableDict(a=[1])}), r"Keep\.held: unhashable"),
    ],
    ids=["bytearray", "int subclass", "namedtuple", "list", "flag", "huge", "cycle", "value cycle", "tuples", "dicts",
         "values", "unhashable"],
)  # fmt: skip
def test_what_cannot_be_frozen_or_named_is_refused_with_its_place(held: Any, says: str) -> None:
    with pytest.raises(UnencodableValue, match=says) as refused:
        Keep(held=held)
    assert len(str(refused.value)) < 400


def test_values_of_a_sensible_depth_pass_whatever_they_are_made_of() -> None:
    assert Keep(held=deep(90, lambda held: (held,))).identity
    assert Keep(held=deep(90, lambda held: {"a": held})).identity
    assert Keep(held=deep(90, lambda held: Holder(held))).identity


def test_a_flag_with_a_name_counts_by_it(tmp_path: Path) -> None:
    assert Keep(held=Mode.A | Mode.B).identity == Keep(held=Mode.B | Mode.A).identity
    assert "Mode.A|B" in written(tmp_path, Keep(held=Mode.A | Mode.B))  # kept by the enum: no change of code
    assert Keep(held=Mode.A).identity != Keep(held=Mode.B).identity


def test_scalars_of_numpy_are_refused_with_what_to_write() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(UnencodableValue, match=r"float64 is a kind of float .*write float"):
        Keep(held=numpy.float64(0.1))
    with pytest.raises(UnencodableValue, match=r"int64 has no canonical encoding"):
        Keep(held=numpy.int64(1))
