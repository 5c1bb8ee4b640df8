import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.report.page import graph, lanes, layers
from marin.report.page.lanes import MOST_ROWS, fold, fold_by_operator
from marin.report.page.model import Status, StepRow
from tests.report import sample
from tests.report.reading import Reading


def step(name: str, *inputs: str, status: Status = Status.RAN) -> StepRow:
    op = name.partition("/")[0]
    return StepRow(name=name, op=op, identity=name, status=status, inputs=inputs)


def sources(count: int) -> list[StepRow]:
    """A chain of four steps for each source; all tokenized with one tokenizer; one training step reads all."""
    made = [step("tokenizer/bpe", *(f"filter/s{i}" for i in range(count)))]
    for i in range(count):
        made += [step(f"download/s{i}"), step(f"filter/s{i}", f"download/s{i}"), step(f"items/s{i}x")]
        made += [step(f"tokenize/s{i}", f"filter/s{i}", "tokenizer/bpe")]
    return [*made, step("train/all", *(f"tokenize/s{i}" for i in range(count)))]


def test_sources_become_lanes_and_the_rest_the_trunk() -> None:
    folded = fold(sources(5))
    assert folded.columns == (("download",), ("filter",), ("tokenize",))
    assert [lane.name for lane in folded.lanes] == [f"s{i}" for i in range(5)]
    assert [label for label, _ in folded.gathers] == ["bpe", "all"]
    assert all(lane.feeds == {0, 1} for lane in folded.lanes)
    assert folded.beside[-1] == ("tokenizer/bpe",)
    assert [names for box in folded.boxes for names in [[s.name for s in box.steps]]] == [
        [f"items/s{i}x" for i in range(5)], ["tokenizer/bpe"], ["train/all"],
    ]  # fmt: skip


def test_lanes_of_the_sample() -> None:
    folded = fold(sample.page().steps)
    assert folded.columns[1:] == (("extract",), ("filter",), ("dedup",), ("decontaminate",), ("tokenize",))
    assert set(folded.columns[0]) == {"download", "generate"}
    assert len(folded.lanes) == 25
    feeds = {lane.name: {folded.gathers[i][0] for i in lane.feeds} for lane in folded.lanes}
    assert feeds["dolmino_math"] == {"anneal/bison"}
    assert feeds["stackv2_edu_python"] == {"anneal/mantis"}


def test_a_bundle_of_sources_is_a_lane_with_its_sources_above() -> None:
    steps = sources(4)
    steps += [step("download/x1"), step("download/x2"), step("bundle/x", "download/x1", "download/x2")]
    steps += [step("filter/x", "bundle/x"), step("tokenize/x", "filter/x", "tokenizer/bpe")]
    folded = fold(steps)
    assert [lane.name for lane in folded.lanes][:3] == ["x1", "x2", "x"]
    bundle = folded.lanes[2]
    assert [lane.into for lane in folded.lanes[:3]] == [bundle.number, bundle.number, None]
    assert (
        folded.columns == (("download",), ("bundle",), ("filter",), ("tokenize",)) or folded.columns[0][0] == "download"
    )
    assert all(box.steps[0].op != "bundle" for box in folded.boxes)


def test_a_lone_source_stands_in_the_grid_when_grid_readers_read_it() -> None:
    steps = [*sources(4), step("download/held_out")]
    steps[-2] = step("train/all", *(f"tokenize/s{i}" for i in range(4)), "download/held_out")
    folded = fold(steps)
    assert "held_out" in [lane.name for lane in folded.lanes]


def test_two_chains_are_no_grid() -> None:
    folded = fold([step("a/1"), step("b/1", "a/1"), step("a/2"), step("b/2", "a/2")])
    assert not folded.lanes
    assert len(folded.boxes) == 4
    assert set(folded.edges) == {(0, 2), (1, 3)}


def test_an_implied_input_has_no_edge() -> None:
    folded = fold([step("a/x"), step("b/x", "a/x"), step("c/x", "a/x", "b/x")])
    assert set(folded.edges) == {(0, 1), (1, 2)}
    assert folded.column == (0, 1, 2)


def test_so_many_steps_that_implied_edges_stay_are_drawn_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "MOST_REDUCED", 2)
    folded = fold_by_operator([step("a/x"), step("b/x", "a/x"), step("c/x", "a/x", "b/x")])
    assert set(folded.edges) == {(0, 1), (1, 2), (0, 2)}
    assert folded.column == (0, 1, 2)


def test_many_sources_share_rows_and_lose_no_step() -> None:
    steps = sources(200)
    picture = graph.draw(steps)
    assert picture.sources == 200
    folded = fold(steps)
    assert len(folded.lanes) == 1 < MOST_ROWS
    assert drawn(picture) == set(range(len(steps)))


def drawn(picture: graph.Picture) -> set[int]:
    tags = Reading(picture.grid + picture.trunk).tags
    numbers = [int(n) for _, attributes in tags for n in attributes.get("data-steps", "").split()]
    assert len(numbers) == len(set(numbers))
    return set(numbers)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 40), st.integers(0, 10_000), st.floats(0, 0.4), st.booleans())
def test_any_graph_is_drawn_in_full(size: int, seed: int, density: float, cyclic: bool) -> None:
    dice = random.Random(seed)
    steps: list[StepRow] = []
    for index in range(size):
        others = range(size) if cyclic else range(index)
        inputs = [f"{'abc'[i % 3]}/{i}" for i in others if dice.random() < density]
        steps.append(step(f"{'abc'[index % 3]}/{index}", *inputs, "gone/1", status=dice.choice(list(Status))))
    assert drawn(graph.draw(steps)) == set(range(size))


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.integers(0, 10_000))
def test_boxes_of_a_column_do_not_overlap(size: int, seed: int) -> None:
    dice = random.Random(seed)
    column = sorted(dice.randrange(5) for _ in range(size))
    edges = [(a, b) for a in range(size) for b in range(size) if column[a] < column[b] and dice.random() < 0.2]
    rows, passing = layers.rows(column, edges)
    assert min(rows) >= 0
    for node in range(size):
        same = [rows[other] for other in range(size) if other != node and column[other] == column[node]]
        assert all(abs(rows[node] - row) >= 1 - 1e-9 for row in same)
    assert all(len(path) == column[b] - column[a] - 1 for (a, b), path in passing.items())


def test_hover_says_name_status_and_reason() -> None:
    one = StepRow(
        name="train/x", op="train", identity="0", status=Status.FAILED, reason="inputs changed", error="ValueError: <b>"
    )
    picture = graph.draw([one])
    assert "<title>train/x\nfailed\ninputs changed\nValueError: &lt;b&gt;</title>" in picture.trunk


@pytest.mark.parametrize("status", list(Status))
def test_a_bundle_shows_its_worst(status: Status) -> None:
    same = [step(f"score/{i}", status=Status.CACHED) for i in range(9)] + [step("score/last", status=status)]
    assert graph.worst(same) is (status if status is not Status.SKIPPED else Status.CACHED)
    assert f"s-{status.value}" in graph.draw(same).trunk
