"""Test the list of training sources that reached the tokenizer without decontamination, read off the graph."""

import dataclasses
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from experiments.exp1529_mantis import build
from marin import Context, ExecutorStep, Pinned, RawFiles, mixture
from marin.data.mixture import Stages
from marin.evaluation.harness_task import HarnessTask
from marin.report.audit import audit_plans
from marin.report.decontamination import Undecontaminated, undecontaminated
from marin.report.plan_table import print_plan
from marin.steps.scale import Scale
from marin.text.presets import PROSE
from operators.decontaminate import Decontaminate
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks
from operators.filter import Filter
from operators.read_suite import ReadSuite
from operators.start import WarmStart
from operators.tokenize import Tokenize
from operators.train import Train
from tests.operators.running import Given
from tests.operators.test_train import PRETRAIN
from tests.support.toy import experiment, planned
from tests.training.runs import SEQ_LEN


def test_the_planted_fault_of_1529_is_found_in_its_arm_at_both_scales():
    for scale in Scale:
        trainings = [step for step in build(scale).steps() if step.work() is not None]
        found = undecontaminated(trainings)
        assert found.runs == {"all_math": ["bison"]}
        assert found.sources > 20
        said = found.sentence()
        assert said.startswith("Not decontaminated: all_math (bison). This source reached the tokenizer without ")
        assert f"the other {found.sources - 1} training sources" in said


def test_pinned_text_counts_as_it_is_and_a_pinned_tokenizer_is_no_text():
    trainings = [step for step in build(Scale.REHEARSAL).steps() if step.label == "mantis" and step.work() is not None]
    stages: Any = vars(trainings[0])["data"]
    tokens = next(iter(stages.sources))
    pin: Pinned[Any] = Pinned(at="a/b", digest="0" * 64, label="old")
    for field, found in (("documents", 1), ("tokenizer", 0)):
        changed = dataclasses.replace(tokens, **{field: pin}, label="pinned")
        mixture: Any = dataclasses.replace(next(iter(stages.at.values())), weights={changed: 1.0})
        training = dataclasses.replace(trainings[0], data=Stages({0: mixture}), start=None, first_step=0)
        assert len(undecontaminated([training]).runs) == found, field


def test_what_all_is_well_says():
    found = Undecontaminated({}, 3, {}, evaluated=True)
    assert (found.sentence(), found.doubt) == ("All 3 training sources were decontaminated.", "")
    assert Undecontaminated({}, 0, {}).sentence() == ""


class Files(ExecutorStep[RawFiles], op="toy-files"):
    repo: str

    def run(self, ctx: Context) -> RawFiles:
        raise AssertionError("nothing runs here")


FILES, TOKENIZER = Files(repo="mmlu", label="cais"), Given(name_of_input="bpe")
GSM, MMLU = ReadSuite(files=Files(repo="gsm8k"), label="gsm8k"), ReadSuite(files=FILES, label="mmlu")


def trained_on(*against: tuple[ReadSuite, ...], name: str = "web") -> Train:
    """On text from which each of these in turn was taken out."""
    text: Any = Filter(documents=Given(), quality=PROSE)
    for suites in against:
        text = Decontaminate(documents=text, against=suites)
    web = Tokenize(documents=text, tokenizer=TOKENIZER, label=name)
    return dataclasses.replace(PRETRAIN, data=Stages({0: mixture({web: 1.0})}))


def on_mmlu(checkpoint: Train) -> list[ExecutorStep[Any]]:
    """Evaluated by its items, and by a task of the harness over the same files."""
    task = HarnessTask("mmlu", "mmlu/default", "cais/mmlu")
    asked: dict[str, Any] = {"checkpoint": checkpoint, "tokenizer": TOKENIZER}
    return [
        Evaluate(tasks={"mmlu": MMLU}, window=SEQ_LEN, stride=16, label="items", **asked),
        EvaluateTasks(tasks={"mmlu": task}, data={"cais/mmlu": FILES}, label="harness", **asked),
    ]


def found_in(*results: ExecutorStep[Any]) -> Undecontaminated:
    return undecontaminated(experiment(**{f"result-{number}": step for number, step in enumerate(results)}).steps())


def test_text_that_was_freed_of_other_items_than_those_that_are_asked_is_named():
    for scores in on_mmlu(trained_on((GSM,))):
        found = found_in(scores)
        assert (found.runs, list(found.missed.values())) == ({}, [["web"]])
        assert found.doubt == found.sentence()
        [test] = scores.evaluated_on()
        asked = f"did not search for every evaluation of the model: {test.label or test.name} (1 source: web)."
        assert asked in found.sentence()
        assert "add them to Decontaminate(against=…)" in found.sentence()


def test_whoever_looks_for_the_items_or_for_others_of_the_same_files_has_looked():
    for against in ([(GSM, MMLU)], [(GSM,), (MMLU,)], [(MMLU,), (GSM,)]):
        for scores in on_mmlu(trained_on(*against)):
            assert found_in(scores).missed == {}


def test_it_counts_for_all_that_the_checkpoint_comes_from_and_for_nobody_else():
    parent = trained_on((GSM,))
    child = dataclasses.replace(trained_on((GSM, MMLU), name="code"), start=WarmStart(parent), label="child")
    other = dataclasses.replace(trained_on((MMLU,), name="code"), label="other", seed=5)
    assert list(found_in(on_mmlu(child)[0]).missed.values()) == [["web"]]
    assert found_in(on_mmlu(other)[0], parent).missed == {}


def test_what_was_never_decontaminated_is_said_once():
    found = found_in(on_mmlu(trained_on())[0])
    assert (list(found.runs), found.missed) == (["web"], {})
    assert found.doubt.startswith("Not decontaminated: web")
    assert undecontaminated(experiment(end=trained_on()).steps()).doubt == ""


def test_the_plan_says_it_before_anything_runs_and_the_audit_of_the_scores(tmp_path: Path):
    plan = planned(str(tmp_path / "store"), end=on_mmlu(trained_on((GSM,)))[0])
    console = Console(record=True, width=200, file=io.StringIO())
    print_plan(console, plan)
    said = shown(console)
    assert "note: Decontamination did not search for every evaluation of the model: mmlu (1 source: web)" in said
    claims = [claim.text for claim in audit_plans(plan.store, [plan]).claims if claim.subject == "undecontaminated"]
    assert claims == ["the model read web; no step searched this text for mmlu"]


def shown(console: Console) -> str:
    return " ".join(console.export_text().split())
