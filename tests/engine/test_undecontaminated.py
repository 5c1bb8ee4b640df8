"""Which training sources reached the tokenizer without decontamination, read off the graph."""

from experiments.exp1529_mantis import build
from marin.scale import Scale
from marin.undecontaminated import sentence, undecontaminated


def test_the_planted_fault_of_1529_is_found_in_its_arm_at_both_scales():
    for scale in Scale:
        trainings = [step for step in build(scale).steps() if step.work() is not None]
        found, sources = undecontaminated(trainings)
        assert found == {"all_math": ["bison"]}
        assert sources > 20
        said = sentence(found, sources)
        assert said.startswith("Not decontaminated: all_math (bison). It reached the tokenizer as it was; the other ")
        assert f"the other {sources - 1} sources" in said


def test_what_all_is_well_says():
    assert sentence({}, 3) == "All 3 sources that were trained on passed through decontamination."
    assert sentence({}, 0) == ""
