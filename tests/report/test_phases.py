"""What a page calls the stretches of a training."""

import pytest

from experiments import exp1395_qwen3, exp1529_mantis
from marin import Experiment, Scale
from marin.report.page.content import phases


def named(experiment: Experiment, arms: list[str]) -> dict[tuple[int, int], str]:
    trainings = [step for step in experiment.steps() if step.op == "train"]
    return {(phase.first, phase.end): phase.name for phase in phases(trainings, arms)}


@pytest.mark.parametrize(("scale", "size"), [(Scale.REHEARSAL, 1), (Scale.FULL, 1000)])
def test_arms_cool_down_only_where_their_learning_rate_decays_all_the_way(scale: Scale, size: int) -> None:
    mantis = named(exp1529_mantis.build(scale), ["bison", "mantis"])
    assert mantis == {
        (0, 80 * size): "32b-llama",
        (80 * size, 160 * size): "32b-qwen3",
        (160 * size, 192 * size): "cooldown",
    }
    switch = named(exp1395_qwen3.build(scale), ["32b-llama-on", "32b-qwen3"])
    assert switch == {(0, 80 * size): "32b-llama", (80 * size, 160 * size): "arms"}
