"""Test the differences between two experiments, on described steps: pairing, fields, mixtures, code, costs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin import Checkpoint, Context, ExecutorStep, execution
from marin.data.mixture import Mixture, Stages, mixture
from marin.report.diff.describe import describe_step
from marin.report.diff.difference import (
    NOTHING,
    Difference,
    FieldChange,
    MixtureChange,
    StepChange,
    StepDifference,
    compare_sides,
    to_run,
    trained_anew,
    training_sum,
)
from marin.report.diff.markdown import report
from marin.report.diff.sides import DescribedExperiment
from marin.steps.resources import Accelerator, Resources, Work
from tests.support.toy import Blob, Join, Write, experiment

CHIPS = Resources(accelerator=Accelerator(name="toy-chip", chips=4, hosts=1, peak_flops=1e12))


class Learn(ExecutorStep[Checkpoint], op="toy-learn"):
    data: Stages[ExecutorStep[Blob]]
    steps: int
    shape: Mapping[str, int]
    seeds: tuple[int, ...] = (0,)
    speed: int = execution(default=1)

    def work(self) -> Work:
        return Work(steps=self.steps, tokens=self.steps * 10, flops=self.steps * 1e15)

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("only described")


class Judge(ExecutorStep[Blob], op="toy-judge"):
    checkpoints: tuple[ExecutorStep[Checkpoint], ...]
    order: Stages[ExecutorStep[Blob]] | None = None
    strict: int = 0

    def run(self, ctx: Context) -> Blob:
        raise AssertionError("only described")


def side(codes: Mapping[str, str] | None = None, **results: ExecutorStep[Any]) -> DescribedExperiment:
    """codes: the digest of one unit ("lib.f"), by operator."""
    built = experiment(**results)
    units = {op: {"lib.f": digest} for op, digest in (codes or {}).items()}
    described = [describe_step(step, json.dumps(units.get(step.op, {}))) for step in built.steps()]
    return DescribedExperiment.model_validate(
        {
            "experiment": "exp1_toy",
            "issue": 1,
            "question": "?",
            "results": {name: step.identity for name, step in built.results.items()},
            "steps": described,
            "codes": {held["code"]: json.loads(held["code"]) for held in described},
        }
    )


def texts(**text: str) -> dict[str, Write]:
    return {label: Write(text=held, label=label) for label, held in text.items()}


def fates(difference: Difference) -> dict[str, str]:
    return {step.name: str(step.fate) for step in difference.steps}


def test_equal_sides_do_not_differ() -> None:
    made = Join(parts=tuple(texts(a="1", b="2").values()), label="j")
    difference = compare_sides(side(end=made), side(end=made))
    assert difference.is_empty
    assert report("t", difference) == "### t\n\n- no difference: the same 3 steps, fields and code\n"


def test_every_fate() -> None:
    """One text edited, one dropped, one added; the join's own separator stays."""
    old, new = texts(kept="k", edited="x", dropped="d"), texts(kept="k", edited="y", added="a")
    joined = Join(parts=tuple(old.values()), label="all")
    before = side(end=Join(parts=(joined,), label="top"))
    after = side(end=Join(parts=(Join(parts=tuple(new.values()), label="all"),), label="top"))
    difference = compare_sides(before, after)
    assert fates(difference) == {
        "toy-write/kept": "reused",
        "toy-write/edited": "changed",
        "toy-write/added": "new",
        "toy-join/all": "changed",
        "toy-join/top": "follows",
        "toy-write/dropped": "gone",
    }
    [edited] = [step for step in difference.steps if step.name == "toy-write/edited"]
    assert [vars(change) for change in changes(edited)] == [{"place": "text", "old": "x", "new": "y"}]
    [joined_now] = [step for step in difference.steps if step.name == "toy-join/all"]
    assert [(change.old, change.new) for change in changes(joined_now)] == [
        ("→ toy-write/dropped", "→ toy-write/added")
    ]


def changes(step: StepDifference) -> list[FieldChange]:
    return [change for change in step.field_changes if isinstance(change, FieldChange)]


def mixtures(step: StepDifference) -> list[MixtureChange]:
    return [change for change in step.field_changes if isinstance(change, MixtureChange)]


def test_a_new_label_is_neither_new_nor_gone() -> None:
    old, new = Write(text="x", label="old"), Write(text="x", label="new")
    difference = compare_sides(side(end=Join(parts=(old,))), side(end=Join(parts=(new,))))
    assert fates(difference) == {"toy-write/new": "reused", difference.steps[1].name: "reused"}
    assert difference.steps[0].renamed == "toy-write/old"
    assert "toy-write/old → toy-write/new" in report("t", difference)


def test_unlabelled_steps_are_paired_by_what_they_have_in_common() -> None:
    old = [Join(parts=(Write(text=text, label=text),), separator="-") for text in "ab"]
    new = [Join(parts=(Write(text=text, label=text),), separator="+") for text in "ab"]
    difference = compare_sides(side(a=old[0], b=old[1]), side(a=new[0], b=new[1]))
    changed = difference.having(StepChange.CHANGED)
    assert len(changed) == 2
    assert not difference.having(StepChange.NEW, StepChange.GONE)
    for step in changed:
        assert step.old is not None
        assert step.new is not None
        assert step.old.fields["parts"] == step.new.fields["parts"]
        assert [change.place for change in changes(step)] == ["separator"]


def test_what_reads_a_renamed_and_changed_step_only_follows() -> None:
    old = Learn(data=stages({0: {"a": 1}}), steps=1, shape={"x": 1}, label="old name")
    new = Learn(data=stages({0: {"a": 1}}), steps=1, shape={"x": 2}, label="new name")
    difference = compare_sides(side(end=Judge(checkpoints=(old,))), side(end=Judge(checkpoints=(new,))))
    assert sorted(step.fate for step in difference.steps) == ["changed", "follows", "reused"]
    [changed] = difference.having(StepChange.CHANGED)
    assert changed.renamed == "toy-learn/old name"
    assert [(change.place, change.old, change.new) for change in changes(changed)] == [("shape.x", 1, 2)]


def stages(at: Mapping[int, Mapping[str, float]]) -> Stages[ExecutorStep[Blob]]:
    def mix(shares: Mapping[str, float]) -> Mixture[ExecutorStep[Blob]]:
        return mixture({Write(text=f"text of {name}", label=name): share for name, share in shares.items()})

    return Stages({step: mix(shares) for step, shares in at.items()})


def learn(at: Mapping[int, Mapping[str, float]], **fields: Any) -> Learn:
    return Learn(data=stages(at), **{"steps": 100, "shape": {}, "label": "arm", **fields})


class TestMixtures:
    def test_shares_are_compared_by_source(self) -> None:
        before, after = learn({0: {"web": 3, "code": 1}}), learn({0: {"web": 2, "code": 1, "math": 1}})
        [changed] = compare_sides(side(end=before), side(end=after)).having(StepChange.CHANGED)
        assert changes(changed) == []
        [mix] = mixtures(changed)
        assert mix.rows() == [("web", 0.75, 0.5), ("math", 0.0, 0.25)]

    def test_a_source_that_was_made_again_is_the_same_source(self) -> None:
        web, again = (Write(text=text, label="web") for text in ("old", "new"))
        before, after = (
            Learn(data=Stages({0: mixture({held: 1.0})}), steps=1, shape={}, label="arm") for held in (web, again)
        )
        assert fates(compare_sides(side(end=before), side(end=after)))["toy-learn/arm"] == "follows"

    def test_a_stage_that_begins_at_another_step_has_moved(self) -> None:
        before = learn({0: {"a": 1}, 50: {"a": 1, "b": 1}})
        after = learn({0: {"a": 1}, 60: {"a": 1, "b": 3}})
        [changed] = compare_sides(side(end=before), side(end=after)).having(StepChange.CHANGED)
        assert [(change.place, change.old, change.new) for change in changes(changed)] == [
            ("data.at from step", 50, 60)
        ]
        [mix] = mixtures(changed)
        assert mix.place == "data.at.60.weights"
        assert mix.rows() == [("a", 0.5, 0.25), ("b", 0.5, 0.75)]

    def test_a_stage_that_is_new_shows_its_shares(self) -> None:
        before, after = learn({0: {"a": 1}}), learn({0: {"a": 1}, 60: {"a": 1, "b": 3}})
        [changed] = compare_sides(side(end=before), side(end=after)).having(StepChange.CHANGED)
        [mix] = mixtures(changed)
        assert (mix.old, mix.new) == ({}, {"a": 0.25, "b": 0.75})

    def test_the_same_mixture_elsewhere_is_told_once(self) -> None:
        def judged(at: Mapping[int, Mapping[str, float]], strict: int) -> DescribedExperiment:
            arm = learn(at)
            one = Judge(checkpoints=(arm,), order=stages(at), label="one")
            return side(one=one, two=Judge(checkpoints=(arm,), order=stages(at), label="two", strict=strict))

        lines = report("t", compare_sides(judged({0: {"a": 3, "b": 1}}, 1), judged({0: {"a": 1, "b": 1}}, 2))).split(
            "\n"
        )
        assert lines.count("| a | 75.00 | 50.00 | −25.00 |") == 1
        assert "- toy-learn/arm, toy-judge/one" in lines
        assert lines[lines.index("- toy-judge/two, and as toy-learn/arm") + 1] == "  - strict: 1 → 2"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"steps": 100}, {"steps": 200}, [("steps", 100, 200)]),
        ({"shape": {"d": 1}}, {"shape": {"d": 2, "h": 3}}, [("shape.d", 1, 2), ("shape.h", NOTHING, 3)]),
        ({"seeds": (0, 1)}, {"seeds": (0, 2)}, [("seeds[1]", 1, 2)]),
        ({"seeds": (0, 1)}, {"seeds": (0, 1, 2)}, [("seeds", NOTHING, 2)]),
        ({"seeds": (0, 1, 2)}, {"seeds": (1,)}, [("seeds", 0, NOTHING), ("seeds", 2, NOTHING)]),
        ({"seeds": (1, 1)}, {"seeds": (1,)}, [("seeds", [1, 1], [1])]),
    ],
)
def test_fields(old: dict[str, Any], new: dict[str, Any], said: list[Any]) -> None:
    before, after = (learn({0: {"a": 1}}, **fields) for fields in (old, new))
    [changed] = compare_sides(side(end=before), side(end=after)).having(StepChange.CHANGED)
    assert [(change.place, change.old, change.new) for change in changes(changed)] == said


def test_where_a_step_runs_is_told_apart() -> None:
    before, after = learn({0: {"a": 1}}), learn({0: {"a": 1}}, speed=2, resources=CHIPS)
    difference = compare_sides(side(end=before), side(end=after))
    assert set(fates(difference).values()) == {"reused"}
    assert not difference.is_empty
    [moved] = [step for step in difference.steps if step.execution_changes]
    assert {change.place for change in moved.execution_changes} == {"speed", "resources.accelerator"}
    assert "#### Not part of identity" in report("t", difference)


def test_other_code_at_one_identity_is_drift() -> None:
    a, b = texts(a="1", b="2").values()
    joined = Join(parts=(a, b), label="j")
    difference = compare_sides(
        side({"toy-write": "old", "toy-join": "same"}, end=joined),
        side({"toy-write": "new", "toy-join": "same"}, end=joined),
    )
    assert set(fates(difference).values()) == {"reused"}
    [change] = difference.code
    assert (change.unit, change.how) == ("lib.f", "changed")
    assert [step.name for step in change.drifts] == ["toy-write/a", "toy-write/b"]
    said = report("t", difference, "store", {a.identity}, {a.identity})
    assert "2 steps keep their identity although their code changed" in said
    assert "1 committed outputs were built by the earlier code" in said


def test_other_code_at_another_identity_is_no_drift() -> None:
    old, new = Write(text="x", label="a"), Write(text="y", label="a")
    [change] = compare_sides(side({"toy-write": "old"}, end=old), side({"toy-write": "new"}, end=new)).code
    assert [step.name for step in change.builds] == ["toy-write/a"]
    assert change.drifts == ()


def test_costs_before_after_and_of_what_is_trained_anew() -> None:
    kept, old = (learn({0: {"a": 1}}, label=label, resources=CHIPS) for label in ("kept", "arm"))
    new = learn({0: {"a": 1}}, label="arm", resources=CHIPS, steps=150)
    kept = learn({0: {"a": 1}}, label="kept", resources=CHIPS, shape={"d": 1})
    before, after = side(kept=kept, end=old), side(kept=kept, end=new)
    assert (training_sum(before.steps).steps, training_sum(after.steps).steps) == (200, 250)
    difference = compare_sides(before, after)
    assert [step.name for step in trained_anew(difference)] == ["toy-learn/arm"]
    hours = training_sum(trained_anew(difference)).chip_hours
    assert hours == pytest.approx(150e15 / (0.4 * 1e12) / 3600)
    said = report("t", difference)
    assert "| steps | 200 | 250 | +50 |" in said
    assert "| tokens | 2K | 2.5K | +25.0% |" in said


def test_what_lies_behind_a_committed_output_is_not_to_run() -> None:
    a, b = texts(a="1", b="2").values()
    middle, top = Join(parts=(a,), label="middle"), Join(parts=(b,), label="top")
    end = Join(parts=(middle, top), label="end")
    left = to_run(side(end=end), {middle.identity})
    assert left.to_run == [b.identity, top.identity, end.identity]
    assert left.committed == 1
    assert to_run(side(end=end), {end.identity}).to_run == []


def test_two_hundred_followers_are_one_line() -> None:
    def chain(text: str) -> Join:
        step = Join(parts=(Write(text=text, label="first"),), label="0")
        for number in range(1, 200):
            step = Join(parts=(step,), label=str(number))
        return step

    said = report("t", compare_sides(side(end=chain("old")), side(end=chain("new"))))
    assert len(said.splitlines()) <= 12
    assert said.endswith("\n- toy-join × 200\n")


LABELS = st.sampled_from("abcd")
GRAPHS = st.lists(
    st.tuples(LABELS, st.sampled_from(["", "-", "+"]), st.sets(st.integers(0, 5), max_size=2)), min_size=1, max_size=6
)


def graph(shape: list[tuple[str, str, set[int]]]) -> dict[str, ExecutorStep[Any]]:
    """Joins over earlier joins; labels are made unique."""
    steps: list[ExecutorStep[Any]] = []
    for number, (label, separator, reads) in enumerate(shape):
        parts = tuple(steps[index] for index in sorted(reads) if index < number)
        steps.append(Join(parts=parts, separator=separator, label=f"{label}{number}" if number % 3 else ""))
    return {f"r{number}": step for number, step in enumerate(steps)}


@settings(max_examples=60, deadline=None)
@given(GRAPHS, GRAPHS)
def test_any_two_graphs(one: list[Any], other: list[Any]) -> None:
    """Reused is exactly what both have; everything of each side appears once; turned round, new is gone."""
    before, after = side(**graph(one)), side(**graph(other))
    difference = compare_sides(before, after)
    old, new = ({step.identity for step in held.steps} for held in (before, after))
    assert {step.new.identity for step in difference.having(StepChange.REUSED) if step.new} == old & new
    assert sorted(step.new.identity for step in difference.steps if step.new) == sorted(new)
    assert sorted(step.old.identity for step in difference.steps if step.old) == sorted(old)
    for step in difference.having(StepChange.CHANGED):
        assert step.field_changes
    assert compare_sides(before, before).is_empty
    backwards = compare_sides(after, before)
    counts = [
        len(held.having(fate)) for held, fate in ((difference, StepChange.REUSED), (backwards, StepChange.REUSED))
    ]
    assert counts[0] == counts[1]
    report("t", difference)
