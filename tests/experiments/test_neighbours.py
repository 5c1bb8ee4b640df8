"""Test that `marin diff` between neighbouring experiments lists the changes that the retrospective lists."""

from functools import cache

from marin.report.diff.describe import describe_experiment
from marin.report.diff.difference import FieldChange, compare_sides, compare_steps
from marin.report.diff.markdown import apart, document, report
from marin.report.diff.sides import DescribedExperiment
from tests.support.project import ROOT


@cache
def described(name: str) -> DescribedExperiment:
    return DescribedExperiment.model_validate(describe_experiment(str(ROOT / f"experiments/{name}.py"), "full", []))


def test_from_llama_to_qk_norm_only_the_attention_the_clip_and_a_rewarmup_change() -> None:
    difference = compare_sides(described("exp1295_llama"), described("exp1395_qwen3"))
    said = report("", difference).replace("\\", "")
    _, _, new = said.partition("train/32b-qwen3 continues train/32b-llama-74000, steps 80,000 to 160,000")
    changed = [line.strip(" -`") for line in new.partition("\n\n")[0].splitlines() if "→" in line or "+" in line]
    assert changed == [
        "model.architecture: LLAMA → QWEN3",
        'optimizer.clip_update_norm: null → {"sigma": 2.0, "window": 128}',
        'schedule.rewarmups: + {"at": 80000, "steps": 1000}',
    ]


def test_from_bison_to_mantis_only_the_mixture_and_the_shuffle_change() -> None:
    side = described("exp1529_mantis")
    trainings = {step.label: step for step in side.steps if step.work is not None}
    difference = compare_steps(trainings["bison"], trainings["mantis"], {})
    assert [each.place for each in difference.field_changes if isinstance(each, FieldChange)] == ["shuffle"]
    said = document("", apart(difference, every=True)).replace("\\", "")
    first, later = said.split("from step 174,000")
    assert "| all_math | 1.08 | – | −1.08 |" in first
    assert "| megamath/web | – | 5.57 | +5.57 |" in first
    # The stage that Bison does not have is set against Mantis' own before it.
    assert "| common_pile_stackv2_edu_filtered_python | – | 1.10 | +1.10 |" in later
    assert "nemotron_cc" not in later
    assert "shuffle: LINEAR → FEISTEL" in later
