"""Test the graph on a page: boxes and lines, and the table of the steps that fold into one box."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.executor.run_results import Status
from marin.report.page import graph
from marin.report.page.model import StepRow
from tests.report import sample


def step(name: str, *inputs: str, status: Status = Status.RAN) -> StepRow:
    op = name.partition("/")[0]
    return StepRow(name=name, op=op, identity=name, status=status, inputs=inputs)


def sources(count: int) -> list[StepRow]:
    """A chain of four steps for each source; all tokenized with one tokenizer; one training step reads all."""
    made = [each for i in range(count) for each in (step(f"download/s{i}"), step(f"filter/s{i}", f"download/s{i}"))]
    made += [step(f"items/s{i}x") for i in range(count)]
    made.append(step("tokenizer/bpe", *(f"filter/s{i}" for i in range(count))))
    made += [step(f"tokenize/s{i}", f"filter/s{i}", "tokenizer/bpe") for i in range(count)]
    return [*made, step("train/all", *(f"tokenize/s{i}" for i in range(count)))]


def names(picture: graph.Picture) -> list[str]:
    return [f"{op} {text}" for op, text, *_ in picture.boxes["boxes"]]


def lines(picture: graph.Picture) -> set[tuple[str, str]]:
    found = names(picture)
    return {(found[start], found[end]) for start, end in picture.boxes["edges"]}


def rows(picture: graph.Picture) -> dict[str, list[int]]:
    return {
        name: [len(cell.steps) if cell is not None else 0 for cell in cells]
        for _, found in picture.groups
        for name, cells in found
    }


def test_many_steps_of_an_operator_share_a_box_and_stand_in_a_table_by_label() -> None:
    picture = graph.draw(sources(5))
    assert lines(picture) == {
        ("download 5 steps", "filter 5 steps"), ("filter 5 steps", "tokenizer bpe"),
        ("tokenizer bpe", "tokenize 5 steps"), ("tokenize 5 steps", "train all"),
    }  # fmt: skip
    assert list(picture.columns) == ["source", "filter", "tokenize"]
    assert rows(picture) == {f"s{i}": [1, 1, 1] for i in range(5)} | {f"s{i}x": [1, 0, 0] for i in range(5)}
    assert [readers for readers, _ in picture.groups] == ["", "tokenizer/bpe, train/all"]


def test_rows_of_the_sample_stand_with_what_reads_them() -> None:
    picture = graph.draw(sample.page().steps)
    assert list(picture.columns) == ["source", "filter", "dedup", "decontaminate", "tokenize", "evaluate"]
    of = {name: readers for readers, found in picture.groups for name, _ in found}
    assert of["dolmino_math"] == "anneal/bison"
    assert of["stackv2_edu_python"] == "anneal/mantis"
    assert "train anneal" not in names(picture)


def test_what_nearly_all_have_and_one_has_not_is_marked() -> None:
    steps = sources(12)
    steps = [each for each in steps if each.name != "filter/s7"]
    steps = [
        step(each.name, *("download/s7" if read == "filter/s7" else read for read in each.inputs)) for each in steps
    ]
    cells = {name: cells for _, found in graph.draw(steps).groups for name, cells in found}
    assert cells["s7"][1] == graph.Cell(steps=())
    assert cells["s7x"][1] is None


def test_an_implied_input_has_no_line() -> None:
    picture = graph.draw([step("a/x"), step("b/x", "a/x"), step("c/x", "a/x", "b/x")])
    assert picture.boxes["edges"] == [(0, 1), (1, 2)]


def test_steps_that_go_on_from_one_another_do_not_share_a_box() -> None:
    steps = [step("train/0")]
    for i in range(1, 9):
        steps += [step(f"train/{i}", f"train/{i - 1}"), step(f"evaluate/{i}", f"train/{i}")]
    assert ("train 2", "train 3") in lines(graph.draw(steps))
    assert "evaluate 8 steps" in names(graph.draw(steps))


def test_ten_thousand_sources_share_rows() -> None:
    picture = graph.draw(sources(2000))
    assert (picture.sources, len(names(picture))) == (4000, 6)
    assert rows(picture) == {"2,000 × s0 …": [2000, 2000, 2000], "2,000 × s0x …": [2000, 0, 0]}


def test_dark_is_what_took_long_beside_its_like() -> None:
    steps = [
        StepRow(name=f"get/{n}", op="get", identity="", status=Status.RAN, seconds=90 if n == 3 else 2)
        for n in range(9)
    ]
    steps += [StepRow(name="train/x", op="train", identity="", status=Status.RAN, seconds=900, inputs=["get/1"])]
    picture = graph.draw(steps)
    assert [is_long for *_, is_long in picture.boxes["boxes"]] == [0, 1]
    assert [name for _, found in picture.groups for name, [cell] in found if cell and cell.is_long] == ["3"]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 90), st.integers(0, 10_000), st.floats(0, 0.4), st.booleans())
def test_any_graph_is_drawn_in_full(size: int, seed: int, density: float, cyclic: bool) -> None:
    dice = random.Random(seed)
    steps: list[StepRow] = []
    for index in range(size):
        others = range(size) if cyclic else range(index)
        inputs = [f"{'abc'[i % 3]}/{i}" for i in others if dice.random() < density]
        steps.append(step(f"{'abc'[index % 3]}/{index}", *inputs, "gone/1", status=dice.choice(graph.ORDER)))
    picture = graph.draw(steps)
    boxes = picture.boxes["boxes"]
    assert len(boxes) <= graph.MOST_BOXES
    alone = sum(not text.endswith(" steps") for _, text, *_ in boxes)
    cells = [n for _, found in picture.groups for _, each in found for cell in each if cell for n in cell.steps]
    assert len(cells) == len(set(cells)) == size - alone
    assert all(start != end for start, end in picture.boxes["edges"])


@pytest.mark.parametrize("status", graph.ORDER)
def test_a_box_shows_its_worst(status: Status) -> None:
    same = [step(f"score/{i}", status=Status.CACHED) for i in range(9)] + [step("score/last", status=status)]
    worst = status if status is not Status.SKIPPED else Status.CACHED
    assert graph.worst(same) is worst
    assert graph.draw(same).boxes["boxes"][0][3] == worst.value
