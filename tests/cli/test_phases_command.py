"""Test ``marin plan --phases``, which lists the trainings of an experiment before anything runs."""

import json
import math
from typing import Any

import pytest
from click.testing import CliRunner

from marin.cli.plan import command
from marin.report.phases import drawn
from marin.report.running import BARS
from tests.support.project import ROOT

MANTIS = str(ROOT / "experiments/exp1529_mantis.py")


def shown(*options: str) -> str:
    done = CliRunner(env={"COLUMNS": "100"}).invoke(command, [MANTIS, "--phases", *options])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def phases() -> dict[str, dict[str, Any]]:
    found = json.loads(shown("--scale", "full", "--json"))["phases"]
    return {phase["name"]: phase for phase in found}


def test_tokens_are_those_of_the_retrospective(phases: dict[str, dict[str, Any]]) -> None:
    """Phase 1, QK-Norm and Mantis read 2.679, 2.684 and 1.074 trillion tokens, 6.437 in all."""
    llama = math.fsum(phase["tokens"] for name, phase in phases.items() if name.startswith("32b-llama"))
    parts = [llama, phases["32b-qwen3"]["tokens"], phases["mantis"]["tokens"]]
    assert [round(part / 1e12, 3) for part in parts] == [2.679, 2.684, 1.074]
    assert round(math.fsum(parts) / 1e12, 3) == 6.437


def test_each_phase_says_what_it_changes(phases: dict[str, dict[str, Any]]) -> None:
    calmer = phases["32b-llama-56400"]
    assert (calmer["after"], calmer["changed"]) == ("32b-llama-21010", ["optimizer.max_grad_norm: 1.0 → 0.2"])
    assert phases["32b-llama-18500"]["changed"] == []  # other machines, and the planned batch
    assert phases["32b-llama-18500"]["batches"] == [[18_500, 7680]]
    assert phases["32b-llama-18500"]["machines"] == "3 × v5p-512"
    assert "model.architecture: LLAMA → QWEN3" in phases["32b-qwen3"]["changed"]
    assert "shuffle: LINEAR → FEISTEL" in phases["mantis"]["changed"]
    assert phases["32b-qwen3"]["rates"] == [[80_000, pytest.approx(7e-5)], [81_000, 7e-4], [159_999, 7e-4]]
    assert [step for step, _ in phases["mantis"]["stages"]] == [160_000, 174_000]


def test_it_is_read_by_people_too() -> None:
    text = shown("--scale", "rehearsal")
    assert "rehearsal: 4 trainings" in text
    assert "32 → 30 → 32" in text
    assert "mantis from its beginning: 192 steps" in text
    assert max(map(len, text.splitlines())) <= 200


def test_rates_that_cycle_are_written_once() -> None:
    kestrel = str(ROOT / "experiments/exp600_kestrel.py")
    text = CliRunner(env={"COLUMNS": "100"}).invoke(command, [kestrel, "--phases", "--scale", "full"]).output
    assert "0 → (0.001 → 0.0001) × 66  1,024" in text


def test_rate_batch_tokens_and_mixture_are_drawn_over_the_steps_of_the_whole_run() -> None:
    lines = shown("--scale", "full").splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith("mantis from its beginning"))
    found = {line[60:].partition(",")[0]: line[2:58] for line in lines[begin + 1 : begin + 10]}
    assert list(found)[:3] == ["learning rate", "batch", "tokens"]
    assert found["learning rate"][-1] in BARS[:2]  # a tenth of the peak
    assert found["tokens"] == "".join(sorted(found["tokens"]))  # they only grow
    medium = found["nemotron_cc/medium"]
    assert set(medium[:46]) == {BARS[-1]}  # until 160,000 of 192,000 steps
    assert set(medium[48:]) == {BARS[int(0.7 * len(BARS))]}  # then .7 of full height
    assert "more sources" in lines[begin + 10]


def test_a_line_is_drawn_to_scale() -> None:
    ramp = drawn([(0, 0.0), (50, 1.0)], 100, 10)
    assert len(ramp) == 10
    assert ramp == "".join(sorted(ramp))
    assert set(ramp[5:]) == {BARS[-1]}
    assert drawn([(0, 0.0)], 10, 5) == BARS[0] * 5
    # The line keeps a spike that is narrower than a bar.
    assert drawn([(0, 0.0), (499, 0.0), (500, 1.0), (501, 0.0)], 1000, 10).count(BARS[-1]) >= 1


def test_what_each_training_draws_is_a_table_by_stage_and_in_all() -> None:
    """arXiv in Markdown has 2.74 B tokens by its card and a weight of 58.1 B, so Bison reads it 29 times."""
    found = {each["name"]: each["draws"] for each in json.loads(shown("--scale", "full", "--data", "--json"))["phases"]}
    mantis = found["mantis"]
    assert [(first, end) for first, end, _ in mantis["stages"]] == [(160_000, 174_000), (174_000, 192_000)]
    python = {row["name"]: row for row in mantis["stages"][1][2]}["common_pile_stackv2_edu_filtered_python"]
    assert (round(python["share"], 4), python["available"], round(python["per_block"], 1)) == (0.0110, None, 22.5)
    worn = {row["name"]: row["epochs"] for row in found["bison"]["total"]}["arxiv_markdownified"]
    assert round(worn, 1) == 29.0
    tokens = sum(row["drawn"] for row in mantis["total"])
    assert round(tokens / 1e12, 3) == 1.074
    text = shown("--scale", "full", "--data")
    assert "mantis draws from step 174,000 to 192,000" in text
    assert "not counted" in text
    assert "mantis draws in total" in text


def test_what_the_run_would_refuse_is_refused_with_source_number_and_remedy() -> None:
    options = [MANTIS, "--scale", "full", "--data", "--set", "bison.max_epochs=4.0"]
    done = CliRunner(env={"COLUMNS": "100"}).invoke(command, options)
    assert done.exit_code == 4
    assert "train/bison: arxiv_markdownified is read 29.00 times by step 192,000" in done.output
    assert "raise max_epochs to 29.0" in done.output
