"""Test a plan's cost: bytes from records, else from fields, else the former size if only input bytes changed."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any, cast

import pytest
from rich.console import Console

from marin import Checkpoint, Context, ExecutorStep
from marin.plan.cost.plan_cost import Amount, by_operator, expected_sizes, in_all, plan_costs
from marin.plan.plan import Action, Plan
from marin.report.plan_table import print_shares
from marin.steps.resources import Accelerator, Resources, Work
from marin.store.numbers import write_bytes
from operators.split import Part, Split
from operators.text_files import TextFiles
from tests.support.toy import Blob, Count, Join, Write, planned, run

CHIP = Accelerator(name="toy-chip", chips=4, hosts=1, peak_flops=1e12)


class Learn(ExecutorStep[Checkpoint], op="toy-costs-learn"):
    data: ExecutorStep[Blob]
    steps: int

    def work(self) -> Work:
        return Work(steps=self.steps, tokens=self.steps * 10, flops=self.steps * 1e15)

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("only planned")


def written(store: str, **results: Any) -> dict[str, tuple[Amount, Amount]]:
    return {cost.name: (cost.reads, cost.writes) for cost in plan_costs(planned(store, **results))}


def test_bytes_are_known_estimated_or_unknown(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    a, b = Write(text="12345", label="a"), Write(text="678", label="b")
    joined = Join(parts=(a, b), label="join")
    assert written(store, end=joined) == {
        "toy-write/a": (Amount(), Amount(unknown=("toy-write/a",))),
        "toy-write/b": (Amount(), Amount(unknown=("toy-write/b",))),
        "toy-join/join": (Amount(unknown=("toy-write/a", "toy-write/b")), Amount(unknown=("toy-join/join",))),
    }
    run(store, end=joined)
    assert written(store, end=joined) == {}
    # Nobody knows the size after a changed field, nor the size of its dependents.
    longer = Write(text="123456789", label="a")
    assert written(store, end=Join(parts=(longer, b), label="join")) == {
        "toy-write/a": (Amount(), Amount(unknown=("toy-write/a",))),
        "toy-join/join": (Amount(3, unknown=("toy-write/a",)), Amount(unknown=("toy-join/join",))),
    }
    # Only its input changed, and the input exists: the estimate is the former size.
    run(store, longer=longer)
    assert written(store, end=Join(parts=(longer, b), label="join")) == {
        "toy-join/join": (Amount(12), Amount(9, estimated=9)),
    }
    # Under another name the plan has nothing to go by.
    other = Write(text="x", label="other")
    assert written(store, end=Join(parts=(other, b), label="new")) == {
        "toy-write/other": (Amount(), Amount(unknown=("toy-write/other",))),
        "toy-join/new": (Amount(3, unknown=("toy-write/other",)), Amount(unknown=("toy-join/new",))),
    }


def test_sums_by_operator_count_every_step_and_cost_only_what_runs(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    data = Write(text="12345", label="data")
    run(store, data=data)
    on_chips = Resources(accelerator=CHIP)
    long, short = (Learn(data=data, steps=steps, label=str(steps), resources=on_chips) for steps in (3, 1))
    plan = planned(store, long=long, short=short)
    costs = plan_costs(plan)
    sums = by_operator(plan, costs)
    assert sums["toy-write"].actions == {Action.CACHED: 1}
    assert sums["toy-write"].reads == Amount()
    learn, whole = sums["toy-costs-learn"], in_all(plan, costs)
    assert learn.actions == {Action.RUN: 2}
    assert learn.reads == Amount(10)
    assert learn.work == whole.work == Work(steps=4, tokens=40, flops=4e15)
    assert learn.chip_hours == pytest.approx(4e15 / (0.4 * 1e12) / 3600)
    assert whole.actions == {Action.CACHED: 1, Action.RUN: 2}


def test_a_milestone_that_its_run_publishes_reads_nothing(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    counting = Count(end=3, label="count")
    assert written(store, end=counting.at(2))["toy-milestone/count@2"][0] == Amount()
    run(store, end=counting)
    [(reads, _)] = written(store, end=counting.at(2)).values()
    assert reads == Amount(1)


def test_what_may_run_is_counted(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    source = Write(text="12345", label="a")
    run(store, end=Join(parts=(source,), label="join"))
    plan = planned(store, rebuild=("a",), end=Join(parts=(source,), label="join"))
    costs = plan_costs(plan)
    assert [cost.decision.action for cost in costs] == [Action.RUN, Action.RECHECK]
    assert costs[1].reads == Amount(5, estimated=5)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1_048_570, "1.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (3 << 80, "3,145,728.0 EiB"),
    ],
)
def test_bytes_for_people(count: int, said: str) -> None:
    assert write_bytes(count) == said


def test_a_plan_says_how_many_documents_each_part_of_a_split_gets(tmp_path: Path) -> None:
    """The plan can say it once the number of documents is known."""
    (tmp_path / "books").mkdir()
    for number in range(40):
        (tmp_path / f"books/{number}.txt").write_text(f"book {number}")
    text, store = TextFiles(path=str(tmp_path / "books"), label="books"), str(tmp_path / "store")
    parts = {part.value: Split(documents=text, part=part, holdout=0.1, label=part.value) for part in Part}
    assert "documents" not in shares(planned(store, **parts))
    run(store, text=text)
    said = shares(planned(store, **parts))
    assert "note: split/train gets about 36.0 of 40 documents" in said
    assert "note: split/held_out gets about 4.0 of 40 documents" in said
    run(store, **parts)
    assert shares(planned(store, **parts)) == ""


def shares(plan: Plan) -> str:
    console = Console(file=StringIO(), width=200)
    print_shares(console, plan, expected_sizes(plan))
    return cast(StringIO, console.file).getvalue()
