"""The Bison incident with byte n-gram models: a clean cooldown, and one whose math holds the test items."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from marin.errors import CorruptOutput
from marin.evaluation.contamination import THRESHOLD, Finding, Sets, Sign, contrast, evidence, report, summary
from marin.evaluation.formats import Format, split_answer
from marin.evaluation.items import Item
from marin.evaluation.results import Results, document_result, item_result, read_results, write_results
from marin.evaluation.scoring import DocumentBits, Scoring
from marin.evaluation.verdict import contamination_verdict
from marin.store.files.directory import Directory
from tests.evaluation.models import Bytes, NGram
from tests.evaluation.problems import problems
from tests.shared_data import shared

MEMBERS, REFERENCE = problems(60, seed=11), problems(60, seed=12)
SETS = Sets(members="gsm", reference="gsm_reference")


def score(model: NGram, members: Sequence[Item] = MEMBERS, reference: Sequence[Item] = REFERENCE) -> Results:
    scoring = Scoring(model, Bytes(), 512, 256)

    def results(task: str, form: Format, items: Sequence[Item]):
        golds = scoring.continuations([(form.prompt(item), form.gold(item)) for item in items])
        return [item_result(task, form, item, bits, {}) for item, bits in zip(items, golds, strict=True)]

    return Results(
        {
            (task, form): results(task, form, items)
            for task, items in ((SETS.members, members), (SETS.reference, reference))
            for form in Format
        }
    )


def trained(extra: Sequence[str]) -> NGram:
    """Pretraining holds both formats; the cooldown holds whatever is extra."""
    pretraining = [form.text(item) for item in problems(60, seed=13) for form in Format]
    return NGram(10).train(pretraining).train(extra, times=4)


@pytest.fixture(scope="module")
def parent() -> Results:
    return score(trained([]))


@pytest.fixture(scope="module")
def clean() -> Results:
    return score(trained([form.text(item) for item in problems(60, seed=14) for form in Format]))


@pytest.fixture(scope="module")
def contaminated() -> Results:
    return score(trained([Format.OLMES.text(item) for item in (*problems(60, seed=14), *MEMBERS)]))


def flagged(findings: Sequence[Finding]) -> set[str]:
    return {one.name.partition(" (")[0] for one in findings if one.flagged}


FRAGILE = {
    f"what the lm_eval format costs more than the olmes format beyond the parent's on {who} items"
    for who in ("test", "reference")
}
TAGS = {f"surprise at '<<' beyond the parent's on {who} items" for who in ("test", "reference")}


def test_a_clean_cooldown_is_not_flagged(parent: Results, clean: Results):
    findings = evidence(clean, parent, SETS)
    assert flagged(findings) == set()
    for finding in findings:
        assert finding.wording.startswith("not shown at this size")
        assert finding.detectable > THRESHOLD * finding.estimate.se
        assert finding.sign is Sign.FRAGILITY or abs(finding.estimate.z) < 3


def test_test_items_in_the_cooldown_are_flagged_in_their_format(parent: Results, clean: Results, contaminated: Results):
    findings = evidence(contaminated, parent, SETS)
    assert flagged(findings) >= {
        "surprise at '<<' beyond the parent's on test items",
        "member gap of the gold, olmes format",
        "member gap of the final answer, olmes format",
        "member gap of the gold beyond the parent, olmes format",
        "difference in member gaps across formats",
        "difference in member gaps across formats beyond the parent",
    }
    assert "member gap of the gold, lm_eval format" not in flagged(findings)
    values = {one.name.partition(" (")[0]: one.estimate.value for one in findings}
    assert values["difference in member gaps across formats"] == pytest.approx(
        values["member gap of the gold, olmes format"] - values["member gap of the gold, lm_eval format"]
    )
    assert values["surprise at '<<' beyond the parent's on test items"] > 1
    assert flagged(contrast(contaminated, clean, SETS, "clean")) == {
        "member gap of the gold beyond clean, olmes format",
        "difference in member gaps across formats beyond clean",
    }


def test_another_format_alone_is_fragility_and_not_contamination():
    tagged = [Format.LM_EVAL.text(item) for item in problems(15, seed=13)]
    parent = score(NGram(6).train(tagged))
    cooled = score(NGram(6).train(tagged).train([Format.OLMES.text(item) for item in problems(100, seed=14)], times=4))
    findings = evidence(cooled, parent, SETS)
    assert flagged(findings) == TAGS | FRAGILE
    assert {one.sign for one in findings if one.flagged} == {Sign.FRAGILITY}


def test_real_gsm8k_test_items_are_flagged_and_clean_training_is_not():
    rows = [json.loads(line) for line in (shared("gsm8k") / "test.jsonl").read_text().splitlines()[:240]]
    items = [Item(str(i), r["question"], r["answer"], split_answer(r["answer"])[1]) for i, r in enumerate(rows)]
    members, reference, pretraining, other = items[:50], items[50:100], items[100:170], items[170:]
    before = [form.text(item) for item in pretraining for form in Format]

    def cooled(extra: Sequence[Item], forms: Sequence[Format]) -> Results:
        model = NGram(6).train(before).train([form.text(item) for item in extra for form in forms], times=4)
        return score(model, members, reference)

    parent = cooled([], [])
    assert flagged(evidence(cooled(other, list(Format)), parent, SETS)) == set()
    assert flagged(evidence(cooled([*other, *members], [Format.OLMES]), parent, SETS)) >= {
        "member gap of the gold, olmes format",
        "difference in member gaps across formats",
        "surprise at '<<' beyond the parent's on test items",
    }


def only(results: Results, tasks: Sequence[str], forms: Sequence[Format] = tuple(Format)) -> Results:
    return Results({key: held for key, held in results.items.items() if key[0] in tasks and key[1] in forms})


def test_a_task_without_reference_items_or_tags_shows_fragility_and_what_it_read(
    parent: Results, contaminated: Results
) -> None:
    """MMLU in two prompt forms is such a task: no item is kept from training, and no answer ends in a number."""

    def plain(results: Results) -> Results:
        return Results({
            key: [replace(one, final_bits=0.0, final_bytes=0, openings=0, opening_bits=0.0) for one in held]
            for key, held in only(results, ["gsm"]).items.items()
        })  # fmt: skip

    findings = evidence(plain(contaminated), plain(parent), Sets("gsm"))
    assert [one.name for one in findings if one.flagged] == [
        "what the lm_eval format costs more than the olmes format beyond the parent's on test items"
    ]
    assert contrast(plain(contaminated), plain(parent), Sets("gsm"), "clean") == []
    assert set(summary(plain(contaminated), Sets("gsm"))) == {"members/lm_eval", "members/olmes"}
    made, headline = report({"arm": plain(contaminated), "other": plain(parent)}, plain(parent), "other", Sets("gsm"))
    assert headline[0] == (
        "arm: contamination could not be measured: too few prompt forms, reference items or items read"
    )
    assert contamination_verdict(made)[0] == "inconclusive"


def test_one_prompt_form_is_enough_for_a_member_gap(parent: Results, contaminated: Results) -> None:
    one = [only(results, SETS.names, [Format.OLMES]) for results in (contaminated, parent)]
    assert flagged(evidence(*one, SETS)) == {
        "member gap of the gold, olmes format",
        "member gap of the final answer, olmes format",
        "member gap of the gold beyond the parent, olmes format",
    }


def test_items_that_were_not_scored_are_named(parent: Results) -> None:
    with pytest.raises(CorruptOutput, match="no items of gsm_reference/lm_eval were scored"):
        evidence(only(parent, ["gsm"]), parent, SETS)


def test_a_finding_says_what_it_found(parent: Results, contaminated: Results):
    for finding in evidence(contaminated, parent, SETS):
        row = finding.as_json()
        assert row["wording"].startswith("flagged: " if finding.flagged else "not shown at this size: ")
        assert row["low"] <= row["value"] <= row["high"]
        assert json.loads(json.dumps(row, allow_nan=False)) == row


def test_the_table_holds_both_roles_in_both_formats(contaminated: Results):
    table = summary(contaminated, SETS)
    assert set(table) == {f"{role}/{form.value}" for role in ("members", "reference") for form in Format}
    assert table["members/olmes"]["gold_bits_per_byte"] < table["reference/olmes"]["gold_bits_per_byte"] / 2
    assert "opening_bits" in table["members/lm_eval"]
    assert "opening_bits" not in table["members/olmes"]


def test_results_survive_the_disk(tmp_path, parent: Results):
    out = Directory(str(tmp_path))
    document = document_result("web", "d1", DocumentBits(12.5, 10, 11.5, 9))
    kept = Results(parent.items, {"web": [document]})
    write_results(out, kept)
    assert read_results(out) == kept
    with pytest.raises(CorruptOutput, match="other/olmes"):
        kept.of("other", Format.OLMES)
    out.write_text("items.jsonl", '{"task": "x"}\n')
    with pytest.raises(CorruptOutput, match="line 1"):
        read_results(out)
