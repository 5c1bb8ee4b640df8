"""Test one experiment at two scales in one store: sizes of the rehearsal say nothing about the full run."""

from pathlib import Path
from typing import Any

import pytest

from marin.plan.cost.plan_cost import plan_costs
from marin.plan.plan import make_plan
from marin.steps.scale import Scale
from marin.store.store import Store
from tests.cli.test_cli import Command
from tests.support.project import Project
from tests.support.toy import Write, experiment, run

OVER = 6
FAR = ("--region", "gcp/us-central2", "--store-region", "aws/eu-west-1")
TERA = 10**12
EXPERIMENT = '''
"""Does it run?"""
from marin import Context, ExecutorStep, execution
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.resources import Size
from marin.steps.scale import Scale
from tests.support.toy import Blob


class Fetch(ExecutorStep[Blob], op="fetch"):
    url: str
    size: Size | None = execution(default=None)

    def expected_size(self, inputs):
        return self.size

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", self.url)
        return Blob(bytes=1)


class Encode(ExecutorStep[Blob], op="encode"):
    source: ExecutorStep[Blob]

    def expected_size(self, inputs):
        source = inputs.get(self.source)
        return None if source is None or source.tokens is None else Size(bytes=4 * source.tokens)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.source].directory.read_text("text.txt"))
        return Blob(bytes=1)


class Learn(ExecutorStep[Blob], op="learn"):
    data: ExecutorStep[Blob]
    batch: dict
    parameters: int

    def expected_size(self, inputs):
        return Size(bytes=16 * self.parameters)

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", str(self.parameters))
        return Blob(bytes=1)


class Judge(ExecutorStep[Blob], op="judge"):
    """Says nothing about its size; its only field is what it reads."""

    model: ExecutorStep[Blob]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.model].directory.read_text("text.txt"))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    full = scale is Scale.FULL
    counted = Size(bytes=14 * 10**12, tokens=7_500_000_000_000) if full else None
    fetch = Fetch(url="hub" if full else "here", size=counted, label="web")
    learn = Learn(
        data=Encode(source=fetch, label="web"), batch={0: 8192 if full else 32}, parameters=32 * 10**9 if full else 100,
        label="model",
    )
    return Experiment(issue=1, question=__doc__, results={"end": Judge(model=learn, label="model")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def rehearsed(tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", EXPERIMENT)
    project.run()
    return project


def steps(project: Project, *arguments: str) -> dict[str, Any]:
    told = Command(project).json("plan", *arguments)
    return {held["step"]: held for held in told["steps"]}


def amount(count: int) -> dict[str, Any]:
    return {"bytes": count, "estimated": count, "unknown": []}


def test_the_full_plan_takes_its_sizes_from_its_own_fields(rehearsed: Project) -> None:
    planned = steps(rehearsed, "--scale", "full")
    writes = {name: held["cost"]["writes"] for name, held in planned.items()}
    assert writes == {
        "fetch/web": amount(14 * TERA),
        "encode/web": amount(30 * TERA),
        "learn/model": amount(512 * 10**9),
        "judge/model": {"bytes": 0, "estimated": 0, "unknown": ["judge/model"]},
    }
    assert planned["learn/model"]["cost"]["reads"] == amount(30 * TERA)


def test_its_reasons_do_not_compare_it_with_the_rehearsal(rehearsed: Project) -> None:
    planned = steps(rehearsed, "--scale", "full")
    assert {(held["action"], held["reason"]) for held in planned.values()} == {("run", "never built at this scale")}
    # Within one scale, marin compares the sizes as usual.
    rehearsed.file.write_text(EXPERIMENT.replace("else 32}", "else 64}"))
    assert steps(rehearsed)["learn/model"]["reason"] == "batch.0: 32 → 64"


def test_the_gate_stops_the_full_run_that_the_rehearsal_let_pass(rehearsed: Project) -> None:
    marin = Command(rehearsed)
    said = marin.on("plan", "--scale", "full", *FAR, expect=OVER)
    for fact in ("TiB", "learn/model", "judge/model", "--egress-budget", "Nothing was started"):
        assert fact in said
    assert "Nothing was started" in marin.on("run", "--scale", "full", *FAR, "--dry-run", expect=OVER)


def test_a_local_rehearsal_says_nothing_of_sizes_that_do_not_matter(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    marin = Command(project)
    unknown = "is unknown"
    assert unknown not in marin.on("plan")
    assert unknown not in project.run("--dry-run")
    assert unknown in marin.on("plan", "--scale", "full")
    assert unknown in marin.on("plan", *FAR, "--allow-egress", "to see what it says")
    assert "fetch/web" in marin.json("plan")["steps"][0]["cost"]["writes"]["unknown"]


def test_what_nobody_can_know_needs_a_word_about_how_much_may_cross(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT)
    marin = Command(project)
    said = marin.on("plan", *FAR, expect=OVER)
    assert "The size of" in said
    assert "fetch/web" in said
    marin.on("plan", *FAR, "--egress-budget", "1GiB")
    marin.on("plan", *FAR, "--allow-egress", "a first look")
    marin.on("run", *FAR, "--egress-budget", "1GiB", "--backend", "inline")


def test_records_of_which_nobody_knows_the_scale_are_compared_with_none(tmp_path: Path) -> None:
    """Old records name no scale. Here the records come from plans that were told no scale."""
    store = str(tmp_path / "store")
    run(store, end=Write(text="12345", label="a"))
    changed = experiment(end=Write(text="other", label="a"))
    for scale in Scale:
        plan = make_plan(changed, Store(store), scale=scale)
        assert [decision.reason for decision in plan.decisions] == ["never built with these fields"]
        assert [cost.writes.unknown for cost in plan_costs(plan)] == [("toy-write/a",)]
    assert [decision.reason for decision in make_plan(changed, Store(store)).decisions] == ["text: 12345 → other"]


def test_what_was_measured_at_this_scale_counts_if_nothing_but_an_inputs_bytes_changed(rehearsed: Project) -> None:
    """Judge has no other source for its size."""
    [before] = [held["bytes"] for name, held in steps(rehearsed).items() if name == "judge/model"]
    rehearsed.file.write_text(EXPERIMENT.replace("else 100", "else 200"))
    judge = steps(rehearsed)["judge/model"]
    assert judge["cost"]["writes"] == amount(before)
    assert judge["reason"] == "runs only if other bytes come from learn/model"
