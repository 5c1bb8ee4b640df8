"""Test the names of a training's phases on a page."""

import pytest

from experiments import exp1395_qwen3, exp1529_mantis
from marin import Experiment, Scale
from marin.plan.cost.plan_cost import Sizes
from marin.report.page.trainings import Training, phases
from marin.report.phases import phase_of


def named(experiment: Experiment, arms: list[str]) -> dict[tuple[int, int], str]:
    trainings = [
        Training(step=step, record=None, arm="", phase=phase_of(step, Sizes()), rows=(), tokens={})
        for step in experiment.steps()
        if step.op == "train"
    ]
    return {(phase.first, phase.end): phase.name for phase in phases(trainings, arms)}


# The 32B's Llama ran on other machines, or with other guards, from these steps on; a rehearsal does not.
LLAMA = {
    Scale.REHEARSAL: {(0, 80): "32b-llama"},
    Scale.FULL: {
        (0, 18_500): "32b-llama",
        (18_500, 21_010): "32b-llama-18500",
        (21_010, 56_400): "32b-llama-21010",
        (56_400, 72_233): "32b-llama-56400",
        (72_233, 74_000): "32b-llama-72233",
        (74_000, 80_000): "32b-llama-74000",
    },
}


@pytest.mark.parametrize(("scale", "size"), [(Scale.REHEARSAL, 1), (Scale.FULL, 1000)])
def test_arms_cool_down_only_where_their_learning_rate_decays_all_the_way(scale: Scale, size: int) -> None:
    mantis = named(exp1529_mantis.build(scale), ["bison", "mantis"])
    assert mantis == {
        **LLAMA[scale],
        (80 * size, 160 * size): "32b-qwen3",
        (160 * size, 192 * size): "cooldown",
    }
    switch = named(exp1395_qwen3.build(scale), ["32b-llama-on", "32b-qwen3"])
    assert switch == {**LLAMA[scale], (80 * size, 160 * size): "arms"}
