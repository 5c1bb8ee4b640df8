"""Test the values that enter an identity, the values that do not, and the values that marin refuses."""

import dataclasses
import enum
import pickle
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from marin import Artifact, Context, ExecutorStep, formerly, since, value
from marin.errors import BadField, CyclicSteps, LabelClash, UnencodableValue
from marin.steps.value import FrozenDict, encode
from tests.support.toy import Blob, Color, Join, Write, experiment


class Hold(ExecutorStep[Blob], op="toy-hold"):
    held: Any

    def run(self, ctx: Context) -> Blob:
        return Blob(bytes=0)


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=3), inner, max_size=4).map(FrozenDict)
        | st.frozensets(st.integers() | st.text(max_size=3), max_size=4)
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Return strict equality, the slow obvious reference: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, float):
        return a.hex() == b.hex()
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, frozenset):
        return len(a) == len(b) and {(type(x), x) for x in a} == {(type(x), x) for x in b}
    return a == b


@given(plain, plain)
def test_two_values_encode_alike_exactly_when_they_are_the_same(a: Any, b: Any) -> None:
    assert (encode(a, "a", []) == encode(b, "b", [])) == same(a, b)


@given(st.dictionaries(st.text(max_size=3), st.integers(), max_size=6))
def test_dict_order_does_not_matter(held: dict[str, int]) -> None:
    backwards = dict(reversed(held.items()))
    assert Hold(held=held).identity == Hold(held=backwards).identity


@pytest.mark.parametrize(
    ("a", "b"),
    [(1, 1.0), (1, True), (0, False), (0.0, -0.0), ("", None), ((), None), ("1", 1), (b"a", "a"), ((1, 2), ((1, 2),))],
)
def test_lookalikes_differ(a: Any, b: Any) -> None:
    assert Hold(held=a) != Hold(held=b)


def test_execution_fields_labels_and_resources_are_not_identity() -> None:
    assert Write(text="a", label="x", comment="one") == Write(text="a", label="y", comment="two")
    assert Write(text="a") != Write(text="b")


def identity(name: str, version: int = 1, **later: Any) -> str:
    """Return the identity of a step with the text "a". Its class has the given name and is gone afterwards."""
    space = {"__annotations__": {"text": "str", **dict.fromkeys(later, "str")}, "run": Write.run, **later}
    return type(name, (ExecutorStep,), space, op="toy-identity", version=version)(text="a").identity


def test_a_field_added_later_keeps_old_identities_at_its_default() -> None:
    assert identity("Old") == identity("New", encoding=since(2, default="utf-8"))
    assert identity("Old") != identity("New", encoding="utf-8")
    assert Write(text="a", encoding="latin-1").identity != Write(text="a").identity


def test_a_field_under_another_name_keeps_old_identities() -> None:
    before = identity("Old")
    space = {"__annotations__": {"words": "str"}, "run": Write.run, "words": formerly("text")}
    assert type("New", (ExecutorStep,), space, op="toy-identity")(words="a").identity == before


def test_the_class_may_be_renamed_and_the_version_may_not() -> None:
    assert identity("Scribe") == identity("Author")
    assert identity("Scribe") != identity("Scribe", version=2)


def test_dependencies_are_found_at_any_depth_and_count_by_their_identity() -> None:
    a, b = Write(text="a"), Write(text="b")
    nested = Hold(held=((a,), FrozenDict({"k": (b, a)}), Color(red=1, names={"x": 1.0})))
    assert set(nested.dependencies) == {a, b}
    assert Join(parts=(a, b)) == Join(parts=(Write(text="a", label="other"), b))
    assert Join(parts=(a, b)) != Join(parts=(b, a))


def test_identity_is_the_same_in_another_process_and_under_another_hash_seed() -> None:
    step = Hold(held=(frozenset({"a", "b", "c", "dd"}), 1.5, Color(red=1, names={"x": 1.0, "y": 2.0}), Write(text="ä")))
    script = (
        "from tests.steps.test_identity import *\n"
        "print(Hold(held=(frozenset({'dd','c','b','a'}), 1.5, Color(red=1, names={'y': 2.0, 'x': 1.0}),"
        " Write(text='ä'))).identity)"
    )
    for seed in ("0", "1234"):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        )
        assert done.stdout.strip() == step.identity


def test_a_step_survives_pickling_with_its_identity() -> None:
    step = Join(parts=(Write(text="a"), Write(text="b")))
    assert pickle.loads(pickle.dumps(step)) == step
    held = Hold(held={"a": 1.0})
    assert pickle.loads(pickle.dumps(held)).held == {"a": 1.0}


class Undeclared(enum.Enum):
    A = 1


@dataclasses.dataclass(frozen=True)
class Plain:
    a: int


@pytest.mark.parametrize(
    "held",
    [
        lambda: 1,
        [1],
        object(),
        float("nan"),
        "\udcff",
        Undeclared.A,
        Plain(1),
        int,
        print,
        {1: [2]},
        (1, (2, {"k": object()})),
    ],
)
def test_what_cannot_be_encoded_is_refused_at_construction_naming_the_field(held: Any) -> None:
    with pytest.raises(UnencodableValue, match=r"Hold\.held"):
        Hold(held=held)


def test_mappings_inside_a_step_cannot_change_after_construction() -> None:
    given_dict = {"a": 1}
    step = Hold(held=given_dict)
    given_dict["a"] = 2
    assert step.held == {"a": 1}
    with pytest.raises(TypeError, match="frozen"):
        step.held["a"] = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(step, "held", 1)


def test_unknown_and_missing_fields_are_named_with_a_near_miss() -> None:
    with pytest.raises(BadField, match="did you mean 'separator'"):
        Join(parts=(), seperator="")  # pyright: ignore[reportCallIssue]
    with pytest.raises(BadField, match="needs parts"):
        Join()  # pyright: ignore[reportCallIssue]


def test_a_forged_cycle_is_named() -> None:
    a = Hold(held=1, label="a")
    b = Hold(held=a, label="b")
    object.__setattr__(a, "dependencies", (b,))
    with pytest.raises(CyclicSteps, match=r"toy-hold/. → toy-hold/. → toy-hold/."):
        experiment(end=b)


def test_a_step_that_holds_itself_is_named() -> None:
    class Ouroboros(ExecutorStep[Blob], op="toy-ouroboros"):
        held: Any = None

        def __post_init__(self) -> None:
            object.__setattr__(self, "held", (self,))

        def run(self, ctx: Context) -> Blob:
            return Blob(bytes=0)

    with pytest.raises(CyclicSteps, match="steps depend on themselves: toy-ouroboros/tail → toy-ouroboros/tail"):
        Ouroboros(label="tail")


def test_two_different_steps_may_not_claim_one_label() -> None:
    with pytest.raises(LabelClash, match="text"):
        experiment(a=Write(text="a", label="x"), b=Write(text="b", label="x"))
    experiment(a=Write(text="a", label="x"), b=Write(text="a", label="x", comment="same step"))


def test_an_enum_counts_by_member_name_and_tag() -> None:
    def red(tag: str, held: object) -> Hold:
        return Hold(held=value(tag)(enum.Enum("Colour", {"RED": held}))["RED"])

    assert red("toy-hue", 1) == red("toy-hue", "another value")
    assert red("toy-hue", 1) != red("toy-tint", 1)


def test_an_operator_without_a_name_is_refused() -> None:
    with pytest.raises(Exception, match="needs a name"):

        class Nameless(ExecutorStep[Artifact]):  # pyright: ignore[reportUnusedClass]
            def run(self, ctx: Context) -> Artifact: ...
