"""Which training sources reached the tokenizer without decontamination, read off the graph."""

import dataclasses
from typing import Any

from experiments.exp1529_mantis import build
from marin import Pinned
from marin.data.mixture import Stages
from marin.plan.decontamination import Undecontaminated, undecontaminated
from marin.steps.scale import Scale


def test_the_planted_fault_of_1529_is_found_in_its_arm_at_both_scales():
    for scale in Scale:
        trainings = [step for step in build(scale).steps() if step.work() is not None]
        found = undecontaminated(trainings)
        assert found.runs == {"all_math": ["bison"]}
        assert found.sources > 20
        said = found.sentence()
        assert said.startswith("Not decontaminated: all_math (bison). It reached the tokenizer as it was; the other ")
        assert f"the other {found.sources - 1} sources" in said


def test_pinned_text_counts_as_it_is_and_a_pinned_tokenizer_is_no_text():
    trainings = [step for step in build(Scale.REHEARSAL).steps() if step.label == "mantis" and step.work() is not None]
    stages: Any = vars(trainings[0])["data"]
    tokens = next(iter(stages.sources))
    pin: Pinned[Any] = Pinned(at="a/b", digest="0" * 64, label="old")
    for field, found in (("documents", 1), ("tokenizer", 0)):
        changed = dataclasses.replace(tokens, **{field: pin}, label="pinned")
        mixture: Any = dataclasses.replace(next(iter(stages.at.values())), weights={changed: 1.0})
        training = dataclasses.replace(trainings[0], data=Stages({0: mixture}))
        assert len(undecontaminated([training]).runs) == found, field


def test_what_all_is_well_says():
    assert Undecontaminated({}, 3).sentence() == "All 3 sources that were trained on passed through decontamination."
    assert Undecontaminated({}, 0).sentence() == ""
