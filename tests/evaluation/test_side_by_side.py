"""Any models side by side, and the published ones."""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import pytest

from marin.errors import CorruptOutput
from marin.evaluation.formats import Format
from marin.evaluation.published_models import MODELS, published_model
from marin.evaluation.results import Results
from marin.evaluation.samples import common_samples, read_logged
from marin.evaluation.side_by_side import Side, side_by_side, standing
from marin.store.files.directory import Directory
from tests.evaluation.test_comparison import BASE, shifted

AVERAGES = {  # as the retrospectives print them
    "Marin 32B (Bison)": 63.0,
    "Marin 32B (Mantis)": 65.2,
    "OLMo 2 32B Base": 63.2,
    "Qwen 2.5 32B Base": 68.1,
    "Gemma 3 27B PT": 65.1,
    "Nemotron Nano 12B v2 Base": 68.6,
    "Marin 8B Base (Deeper Starling)": 66.6,
    "Llama 3.1 8B Base": 65.3,
    "OLMo 2 7B Base": 64.9,
    "MAP NEO 7B": 59.5,
}


def test_published_tables_have_the_averages_that_were_published_with_them() -> None:
    ours = {name: 100 * fmean(model.scores.values()) for name, model in MODELS.items()}
    assert ours.keys() == AVERAGES.keys()
    assert {name: abs(ours[name] - AVERAGES[name]) < 0.12 for name in ours} == dict.fromkeys(ours, True)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("olmo-2-32b", "OLMo 2 32B Base"),
        ("Qwen2.5 32B", "Qwen 2.5 32B Base"),
        ("llama-3.1-8b", "Llama 3.1 8B Base"),
        ("GEMMA 3 27B", "Gemma 3 27B PT"),
        ("mantis", "Marin 32B (Mantis)"),
        ("deeper starling", "Marin 8B Base (Deeper Starling)"),
    ],
)
def test_a_model_is_found_however_it_is_spelt(name: str, model: str) -> None:
    found = published_model(name)
    assert found is not None
    assert found.name == model


@pytest.mark.parametrize("name", ["olmo 2", "base", "", "OLMo 25 32B", "mantiss"])
def test_what_fits_none_or_several_is_no_model(name: str) -> None:
    assert published_model(name) is None


def test_the_retrospectives_finding_is_a_row_with_a_star() -> None:
    mantis, bison, olmo = (MODELS[name] for name in [*list(AVERAGES)[1::-1], "OLMo 2 32B Base"])
    sides = [Side(name=model.name, published=model.scores, read=model.read) for model in (mantis, bison, olmo)]
    rows = {row.metric: row for row in side_by_side(sides)}
    assert rows["gsm8k"].values == pytest.approx({mantis.name: 0.691, bison.name: 0.5471, olmo.name: 0.7635})
    assert rows["gsm8k"].contaminated == [bison.name]
    assert rows["mmlu"].contaminated == []
    assert standing(list(rows.values()), mantis.name, olmo.name) == (
        "Marin 32B (Mantis) is ahead of OLMo 2 32B Base at 14 of 19 tasks; on average 65.2 % against 63.2 %."
    )


def test_what_both_were_scored_on_has_an_interval_and_the_rest_only_values() -> None:
    fewer = Results({("gsm", Format.OLMES): BASE.items["gsm", Format.OLMES][:9]}, BASE.documents)
    metrics = {"gsm/olmes/bpb": 1.26, "bpb/web": 2.0}
    first = Side(name="a", metrics=[metrics], results=[BASE])
    better = Side(
        name="b", metrics=[{"gsm/olmes/bpb": 1.16, "bpb/web": 2.0}], results=[shifted(5)], read={"gsm": "some"}
    )
    other = Side(name="c", metrics=[metrics], results=[fewer])
    known = Side(name="d", metrics=[{"bpb/web": 1.9}])
    rows = {row.metric: row for row in side_by_side([first, better, other, known])}
    assert rows["gsm/olmes/bpb"].differences.keys() == {"b"}
    assert rows["gsm/olmes/bpb"].differences["b"].estimate.value == pytest.approx(-0.1, abs=0.005)
    assert rows["gsm/olmes/bpb"].differences["b"].contaminated == ("b",)
    assert rows["gsm/olmes/bpb"].contaminated == ["b"]
    assert rows["bpb/web"].differences.keys() == {"b", "c"}
    assert rows["bpb/web"].values == {"a": 2.0, "b": 2.0, "c": 2.0, "d": 1.9}
    assert (rows["bpb/web"].unit, rows["bpb/web"].higher_is_better) == ("bits/byte", False)


def test_an_arm_of_several_seeds_is_one_column_with_an_interval_over_seeds_and_items() -> None:
    def arm(name: str, *shifts: float) -> Side:
        metrics = [{"gsm/olmes/bpb": 1.26 - shift / 50} for shift in shifts]
        return Side(name=name, metrics=metrics, results=[shifted(shift) for shift in shifts])

    one, alike, apart = arm("one", 0), arm("alike", 4.9, 5.0, 5.1), arm("apart", 0.0, 5.0, 10.0)
    [row] = [row for row in side_by_side([one, alike, apart]) if row.metric == "gsm/olmes/bpb"]
    assert row.values == pytest.approx({"one": 1.26, "alike": 1.16, "apart": 1.16})
    assert row.runs.keys() == {"alike", "apart"}
    assert (row.differences["alike"].seeds, row.differences["alike"].shown) == (True, True)
    assert (row.differences["apart"].seeds, row.differences["apart"].shown) == (True, False)

    def logged_arm(name: str, *more: float) -> Side:
        shares = [{str(n): (n % 3) / 4 + each for n in range(60)} for each in more]
        return Side(name=name, metrics=[{"m/acc": fmean(share.values())} for share in shares],
                    items=[{"m/acc": share} for share in shares])  # fmt: skip

    base = logged_arm("base", 0.0, 0.01)
    [row] = side_by_side([base, logged_arm("alike", 0.1, 0.11), logged_arm("apart", -0.1, 0.31), Side(name="none")])
    assert row.values == pytest.approx({"base": 0.255, "alike": 0.355, "apart": 0.355})
    assert [row.differences[name].shown for name in ("alike", "apart")] == [True, False]


def test_less_of_a_score_of_errors_is_better() -> None:
    metric, items = "mmlu/brier_score", {"0": 0.5, "1": 0.4, "2": 0.6}
    ours = Side(name="ours", metrics=[{metric: 0.5}], items=[{metric: items}])
    theirs = Side(
        name="theirs", metrics=[{metric: 0.2}], items=[{metric: {key: each - 0.3 for key, each in items.items()}}]
    )
    [row] = side_by_side([ours, theirs])
    assert not row.higher_is_better
    assert row.differences["theirs"].is_better


def test_a_published_number_stands_beside_the_tasks_own_measure() -> None:
    ours = Side(name="ours", metrics=[{"gsm8k/bpb": 0.5, "gsm8k/exact_match,strict-match": 0.6, "arc_easy/acc": 0.7}])
    theirs = Side(name="theirs", published={"gsm8k": 0.69, "arc_easy": 0.8, "mmlu": 0.7})
    rows = {row.metric: row.values for row in side_by_side([ours, theirs])}
    assert rows["gsm8k/exact_match,strict-match"] == {"ours": 0.6, "theirs": 0.69}
    assert rows["arc_easy/acc"] == {"ours": 0.7, "theirs": 0.8}
    assert rows["mmlu"] == {"theirs": 0.7}
    lambada = side_by_side([Side(name="ours", metrics=[{"lambada_openai/perplexity": 3.2}])])[0]
    assert (lambada.unit, lambada.higher_is_better) == ("perplexity", False)
    assert standing(side_by_side([ours, theirs]), "ours", "theirs") is None  # of two tasks no average


def logged(prompt: str, text: str) -> str:
    arguments = {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}}
    return json.dumps({"doc_id": 0, "target": "4", "arguments": arguments, "resps": [[text]]}) + "\n"


def test_samples_are_matched_by_prompt_and_those_that_differ_come_first(tmp_path: Path) -> None:
    choice = {"target": 0, "arguments": {"gen_args_0": {"arg_0": "q", "arg_1": " a"}}, "resps": [[[-1.5, False]]]}
    for name, second in (("a", "3"), ("b", "4")):
        folder = Directory(str(tmp_path / name))
        folder.write_text("samples_gsm8k_2026-11-23T07-00-00.1.jsonl", logged("1+1=", "2") + logged("2+2=", second))
        folder.write_text("samples_arc_easy.jsonl", json.dumps(choice) + "\n")
    sides = {name: read_logged(Directory(str(tmp_path / name))).samples for name in ("a", "b")}
    common = common_samples(sides)
    assert [key for key in common] == [("gsm8k", "2+2="), ("gsm8k", "1+1=")]
    assert {name: one.text for name, one in common["gsm8k", "2+2="].items()} == {"a": "3", "b": "4"}
    Directory(str(tmp_path / "a")).write_text("samples_bad.jsonl", '{"doc_id": 1}\n')
    with pytest.raises(CorruptOutput, match=r"samples_bad.jsonl line 1 is no sample"):
        read_logged(Directory(str(tmp_path / "a")))


@pytest.mark.parametrize("share", [1, 2, 10])
def test_what_the_harness_logged_of_each_item_gives_an_interval(tmp_path: Path, share: int) -> None:
    """As ``EvaluateTasks`` writes it: a folder for each name; GSM8K's answers pass two filters. share: a passage."""

    def side(name: str, right: Sequence[bool]) -> Side:
        lines = [
            {"doc_id": number, "doc_hash": "x", "filter": way, "metrics": ["exact_match"], "target": "4",
             "exact_match": float(held), "arguments": {"gen_args_0": {"arg_0": "q"}}, "resps": [["4"]],
             "doc": {"question": str(number), "passage": f"passage {number // share}"}}
            for number, held in enumerate(right) for way in ("strict-match", "flexible-extract")
        ]  # fmt: skip
        folder = Directory(str(tmp_path / name))
        folder.write_text("gsm8k/samples_gsm8k_1970-01-01T00-00-00.jsonl", "".join(json.dumps(x) + "\n" for x in lines))
        metrics = {"gsm8k/exact_match,strict-match": fmean(right), "gsm8k/exact_match,flexible-extract": 0.9}
        logged = read_logged(folder)
        return Side(name=name, metrics=[metrics], items=[logged.scores], groups=logged.groups)

    first, second = side("a", [True] * 20 + [False] * 20), side("b", [True] * 36 + [False] * 4)
    rows = {row.metric: row for row in side_by_side([first, second, side("c", [True] * 9)])}
    strict = rows["gsm8k/exact_match,strict-match"].differences
    assert strict.keys() == {"b"}  # c has other items
    assert strict["b"].estimate.value == pytest.approx(0.4)
    assert strict["b"].estimate.n == 40 / share
    assert strict["b"].shown is (share < 10)
    assert not rows["gsm8k/exact_match,flexible-extract"].differences  # no mean of its items
