"""Experiment 1321: its runs differ in their dose and seed alone."""

from dataclasses import replace

import pytest

from experiments.dosed import SIZES
from experiments.exp1321_detectors import DOSES, SEEDS, build
from marin.data.mixture import Stages
from marin.steps.scale import Scale
from operators.dose_response import DoseResponse
from operators.train import Train


@pytest.mark.parametrize("scale", Scale)
def test_every_run_reads_its_dose_and_is_else_the_same(scale: Scale) -> None:
    size, doses = SIZES[scale], build(scale).results["doses"]
    assert isinstance(doses, DoseResponse)
    assert {dose: len(runs) for dose, runs in doses.doses.items()} == dict.fromkeys(DOSES, len(SEEDS))
    alike: set[str] = set()
    for dose, runs in doses.doses.items():
        for seed, scored in zip(SEEDS, runs, strict=True):
            run = next(step for step in scored.dependencies if isinstance(step, Train))
            first, end = size.parent, size.parent + size.steps
            mixtures = run.data.known()
            leaked = {
                source.name: share for source, share in mixtures[first].weights.items() if "leaked" in source.name
            }
            drawn = sum(leaked.values()) * run.batch.sequences_before(end - first)
            assert drawn == pytest.approx(dose * size.sequences)
            assert run.seed == seed
            assert not any("leaked" in source.name for source in mixtures[0].weights)
            assert run.block == run.batch.sequences_before(end - first)  # so that the dose is exact
            rest = replace(run, data=Stages({0: mixtures[0]}), seed=0, label="")
            alike.add(rest.identity)
    assert len(alike) == 1
    assert {dose: len(runs) for dose, runs in doses.exposure.items()} == {d: len(SEEDS) for d in DOSES if d}
