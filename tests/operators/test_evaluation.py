"""Evaluate, ContaminationEvidence and Compare: directories in, scores and reports out."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.hardware import gpu, tpu
from marin.data.artifacts import Checkpoint, Items, Scores, Tokenizer
from marin.data.documents import Document
from marin.errors import BadField, NothingScored
from marin.evaluation.formats import Format
from marin.evaluation.items import write_items
from marin.evaluation.results import Results, item_result, read_results, write_results
from marin.evaluation.scoring import Scoring
from marin.store.files.directory import Directory
from marin.training.optimizer import Adam
from operators.compare import Compare
from operators.contamination_evidence import ContaminationEvidence
from operators.evaluate import Evaluate
from tests.evaluation.models import Bytes, NGram
from tests.evaluation.problems import problems
from tests.operators.running import Given, file_bytes, given_documents, run_step
from tests.operators.test_train import PRETRAIN, SEVENTY
from tests.training.runs import SEQ_LEN, random_checkpoint

BIG = replace(PRETRAIN, model=SEVENTY, optimizer=Adam(peak_lr=1e-2))
CHECKPOINT, TOKENIZER, WEB, EMPTY, TEST, REFERENCE = (
    Given(name_of_input=name) for name in ("checkpoint", "tokenizer", "web", "empty", "test", "reference")
)


def artifact(made: Any, where: Path) -> Any:
    return made.at(Directory(str(where)))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Any]:
    """A model of random weights, a small tokenizer, a domain of text, and items."""
    from marin.data.tokenizer import train_bpe
    from marin.training.model import Architecture, ModelShape

    root = tmp_path_factory.mktemp("inputs")
    texts = [f"The {word} is number {i}, and it is a {word}. \n" * 5 for i, word in enumerate(("cat", "dog", "elk"))]
    vocabulary, digest = train_bpe(Directory(str(root / "tokenizer")), texts, 300)
    shape = ModelShape(
        architecture=Architecture.LLAMA, hidden=32, intermediate=64, layers=1, heads=2, kv_heads=1, seq_len=128
    )
    facts = random_checkpoint(Directory(str(root / "checkpoint")), shape, vocabulary, seed=0)
    for name, seed in (("test", 21), ("reference", 22)):
        write_items(Directory(str(root / name)), problems(4, seed))
    return {
        CHECKPOINT: artifact(
            Checkpoint(step=0, tokens=0, parameters=facts.parameters, architecture="llama"), root / "checkpoint"
        ),
        TOKENIZER: artifact(Tokenizer(vocabulary=vocabulary, digest=digest), root / "tokenizer"),
        WEB: given_documents([Document(text) for text in texts], root / "web"),
        EMPTY: given_documents([], root / "empty"),
        TEST: artifact(Items(items=4), root / "test"),
        REFERENCE: artifact(Items(items=4), root / "reference"),
    }


@pytest.mark.slow
# Levanter's checkpoint reader and orbax warn about their own internals.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_evaluate_scores_domains_and_items_and_writes_the_same_bytes_again(inputs: Mapping[Any, Any], tmp_path: Path):
    step = Evaluate(
        checkpoint=CHECKPOINT,
        tokenizer=TOKENIZER,
        domains={"web": WEB},
        tasks={"gsm": TEST},
        references={"gsm_reference": REFERENCE},
        bytes_per_document=100,
        batch=8,
    )
    scores = run_step(step, inputs, tmp_path)
    assert set(scores.metrics) == {
        "bpb/web",
        "bpb_stripped/web",
        *(f"{over}{kind}_bpb" for over in ("macro", "micro") for kind in ("", "_stripped")),
    } | {
        f"{task}/{form.value}/{metric}"
        for form in Format
        for task, metrics in (
            ("gsm", ("bpb", "final_bpb", "accuracy", "choice_probability")),
            ("gsm_reference", ("bpb", "final_bpb")),
        )
        for metric in metrics
    }
    # Random weights: about log2(300) bits a token, a few bytes each.
    assert 1 < scores.metrics["bpb/web"] < 20
    results = read_results(scores.directory)
    assert [one.bytes for one in results.documents["web"]] == [100, 100, 100]
    assert len(results.of("gsm", Format.OLMES)) == 4
    written = json.loads(scores.directory.read_text("scores.json"))
    assert written["metrics"] == scores.metrics
    assert written["items"] == {"gsm": 4, "gsm_reference": 4}
    assert written["stderr"]["gsm/olmes/item_bpb"] > 0
    # With an accelerator: in a process of its own.
    again = run_step(step, inputs, tmp_path / "again", accelerator=gpu("h100").accelerator)
    assert file_bytes(again.directory) == file_bytes(scores.directory)

    with pytest.raises(NothingScored, match="domain void"):
        run_step(Evaluate(checkpoint=CHECKPOINT, tokenizer=TOKENIZER, domains={"void": EMPTY}), inputs, tmp_path)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "nothing to score"),
        ({"tasks": {"gsm": TEST}, "references": {"gsm": REFERENCE}}, "gsm is both"),
        ({"tasks": {"gsm": TEST}, "formats": ()}, "formats is empty"),
        ({"domains": {"web": WEB}, "stride": 128}, "stride 128 and window 128"),
        (
            {"domains": {"web": WEB}, "checkpoint": PRETRAIN.at(4), "window": SEQ_LEN + 1, "stride": 8},
            "window is 33 tokens, but Train 'pretrain' trains on sequences of 32; wanted at most as many",
        ),
        ({"domains": {"web": WEB}, "items_per_task": 0}, "items_per_task is 0"),
        (
            {"domains": {"web": WEB}, "checkpoint": BIG, "window": 32, "stride": 8, "resources": tpu("v4-8")},
            "Evaluate: its weights take 273.8 GB, which is 68.5 GB on each of the 4 chips of v4-8; one has 32 GB",
        ),
    ],
)
def test_evaluate_refuses_what_cannot_be_meant(fields: dict[str, Any], message: str):
    with pytest.raises(BadField, match=message):
        Evaluate(**{"checkpoint": CHECKPOINT, "tokenizer": TOKENIZER, **fields})


def test_which_fields_are_part_of_an_evaluations_identity():
    step = Evaluate(checkpoint=CHECKPOINT, tokenizer=TOKENIZER, domains={"web": WEB}, label="a")
    assert step == Evaluate(checkpoint=CHECKPOINT, tokenizer=TOKENIZER, domains={"web": WEB}, label="b")
    assert step != Evaluate(checkpoint=CHECKPOINT, tokenizer=TOKENIZER, domains={"net": WEB})
    assert set(step.dependencies) == {CHECKPOINT, TOKENIZER, WEB}


PARENT, BISON, MANTIS = (Given(name_of_input=name) for name in ("parent", "bison", "mantis"))
TEST_ITEMS, REFERENCE_ITEMS = problems(40, seed=31), problems(40, seed=32)


def scores_of(texts: list[str], where: Path) -> Any:
    """Scores of an n-gram model that was pretrained on both formats and cooled down on texts."""
    model = NGram(10).train([form.text(i) for i in problems(40, seed=33) for form in Format]).train(texts, times=4)
    scoring = Scoring(model, Bytes(), 512, 256)
    items = {
        (task, form): [
            item_result(task, form, item, bits, {})
            for item, bits in zip(
                held, scoring.continuations([(form.prompt(item), form.gold(item)) for item in held]), strict=True
            )
        ]
        for task, held in (("gsm", TEST_ITEMS), ("gsm_reference", REFERENCE_ITEMS))
        for form in Format
    }
    write_results(Directory(str(where)), Results(items))
    return artifact(Scores(metrics={}), where)


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Any, Any]:
    root = tmp_path_factory.mktemp("scores")
    return {
        PARENT: scores_of([], root / "parent"),
        BISON: scores_of([Format.OLMES.text(item) for item in TEST_ITEMS], root / "bison"),
        MANTIS: scores_of([form.text(i) for i in problems(40, seed=34) for form in Format], root / "mantis"),
    }


def test_the_contaminated_arm_is_flagged_and_the_clean_one_is_not(scores: Mapping[Any, Any], tmp_path: Path):
    step = ContaminationEvidence(parent=PARENT, arms={"bison": BISON, "mantis": MANTIS}, clean="mantis")
    report = run_step(step, scores, tmp_path)
    assert report.headline[0].startswith("bison: contamination flagged by ")
    assert report.headline[2].startswith("mantis: contamination not shown at this size; nearest: ")
    assert len(report.headline) == 4
    written = json.loads(report.directory.read_text("report.json"))
    assert written["arms"]["mantis"]["contrast"] == []
    assert written["arms"]["bison"]["table"]["members/olmes"]["gold_bits_per_byte"] < 0.5
    assert not any(one["flagged"] for one in written["arms"]["mantis"]["findings"])
    again = run_step(step, scores, tmp_path / "again")
    assert file_bytes(again.directory) == file_bytes(report.directory)

    compared = run_step(
        Compare(
            arms={"bison": BISON, "mantis": MANTIS},
            baseline="bison",
            evidence={"leak": step},
            published=("OLMo 2 32B Base",),
        ),
        {**scores, step: report},
        tmp_path,
    )
    # Bison remembers the test items; it is ahead on them, and that counts for nothing.
    assert written["vetoes"] == {"bison": ["gsm"]}
    assert "bison had read its test items*" in compared.headline[1]
    assert compared.headline[-1].startswith("* At gsm, bison was trained on its test items: ")
    assert f"leak: {written['verdict']}" in compared.headline
    assert written["finding"] == "found"
    made = json.loads(compared.directory.read_text("report.json"))
    assert made["published"]["OLMo 2 32B Base"]["scores"]["gsm8k"] == pytest.approx(0.7635)
    rows = {row["metric"]: row for row in made["rows"]}
    assert rows["gsm/olmes/bpb"]["differences"]["mantis"]["shown"]


def test_reports_refuse_arms_that_are_not_there():
    with pytest.raises(BadField, match="clean is 'mantas'"):
        ContaminationEvidence(parent=PARENT, arms={"mantis": MANTIS}, clean="mantas")
    with pytest.raises(BadField, match="both 'gsm'"):
        ContaminationEvidence(parent=PARENT, arms={"mantis": MANTIS}, clean="mantis", reference="gsm")
    with pytest.raises(BadField, match="baseline is 'none'"):
        Compare(arms={"mantis": MANTIS}, baseline="none")
    with pytest.raises(BadField, match="another arm"):
        Compare(arms={"mantis": MANTIS}, baseline="mantis")
    arms = {"mantis": MANTIS, "bison": BISON}
    with pytest.raises(BadField, match=r"published names 'OLMo 2 32B'.*did you mean 'OLMo 2 32B Base'"):
        Compare(arms=arms, baseline="bison", published=("OLMo 2 32B",))
