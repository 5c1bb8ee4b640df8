"""Regions never change an identity. marin counts egress, and refuses a run above its budget before it starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from marin import Context, ExecutorStep
from marin.errors import BadField, EgressOverBudget, UnknownRegion
from marin.plan.cost.egress import (
    BUDGET,
    Allowance,
    Amount,
    Egress,
    Regions,
    Route,
    exceeds,
    must_be_allowed,
    parse_size,
)
from marin.plan.cost.plan_cost import in_all, plan_costs
from marin.plan.plan import Plan
from marin.steps.resources import Resources
from marin.store.region import Region, bucket_region, is_amazon, parse_region
from operators.download import FsspecFiles
from tests.cli.test_cli import Command
from tests.support.project import Project
from tests.support.servers import Act, Kind, Operation, Rule, StoreServer
from tests.support.toy import Blob, Count, Join, Write, planned, ran, run

OVER = 6
CENTRAL, EAST, EUROPE = Region("gcp", "us-central2"), Region("gcp", "us-east5"), Region("gcp", "europe-west4")
VIRGINIA = Region("aws", "us-east-1")
TEN = Amount(10)


def regions(plan: Plan, declared: Region | None, store: Region | None = CENTRAL) -> Regions:
    return Regions(plan.store.prefix, declared, store)


def moved(plan: Plan, where: Regions) -> dict[str, dict[str, Amount] | None]:
    """Return the amounts that cross regions, by step and by the ``str`` of each route."""
    return {
        cost.name: None if cost.egress is None else {str(way): held for way, held in cost.egress.by_route.items()}
        for cost in plan_costs(plan, where)
    }


def joined(text: str = "12345", separator: str = " ", **more: Any) -> Join:
    return Join(parts=(Write(text=text, label="a"),), separator=separator, label="join", **more)


@pytest.mark.parametrize("text", ["gcp/us-central2", "aws/us-east-1", "local", "gcp/us", "gcp/us-east1+us-west1"])
def test_a_region_is_written_as_it_is_read(text: str) -> None:
    assert str(parse_region(text)) == text
    assert parse_region(f" {text.upper()} ") == parse_region(text)


@pytest.mark.parametrize("text", ["", "us-central2", "gcp/", "gcp", "gcp/us central", "/us-central2", "local/x/y"])
def test_what_is_no_region_is_refused(text: str) -> None:
    with pytest.raises(BadField, match="gcp/us-central2"):
        parse_region(text)
    with pytest.raises(BadField, match="gcp/us-central2"):
        Resources(region=text or "?")


def test_a_bucket_in_two_regions_is_in_both_and_one_on_a_continent_in_none() -> None:
    pair, own = Region("gcp", "nam4"), Region("gcp", "us-east5+us-central2")
    assert pair.is_where(Region("gcp", "us-central1"))
    assert not pair.is_where(CENTRAL)
    assert own.is_where(CENTRAL)
    assert EAST.is_where(own)
    assert not Region("gcp", "us").is_where(CENTRAL)
    assert not Region("aws", "us-east5").is_where(EAST)


@pytest.mark.parametrize(
    ("text", "size"), [("0", 0), ("500GiB", 500 << 30), ("1.5 tib", 3 << 39), ("10MB", 10_000_000), ("4096", 4096)]
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "ten", "-1GiB", "1 GiB more", "GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(BadField, match="500GiB"):
        parse_size(text)


def test_identity_is_the_same_in_every_region_and_nothing_runs_again(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    there = [joined(resources=Resources(region=region)) for region in ("", "gcp/us-central2", "aws/eu-west-1")]
    assert len({step.identity for step in there}) == 1
    assert ran(run(store, end=there[0])) == {"toy-write/a", "toy-join/join"}
    for step in there:
        assert ran(run(store, end=step)) == set()


def test_inputs_and_outputs_cross_where_the_step_is_not_where_the_store_is(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    run(store, end=joined())
    far = joined(resources=Resources(region=str(EUROPE)))
    plan = planned(store, rebuild=("join",), end=far)
    once = {"gcp/us-central2 → gcp/europe-west4": Amount(5), "gcp/europe-west4 → gcp/us-central2": Amount(5, 5)}
    assert moved(plan, regions(plan, CENTRAL)) == {"toy-join/join": once}
    assert moved(plan, regions(plan, None)) == {"toy-join/join": once}
    assert moved(plan, regions(plan, CENTRAL, EUROPE)) == {"toy-join/join": {}}
    assert moved(planned(store, end=joined()), regions(plan, EUROPE)) == {}, "nothing runs"
    new = planned(store, end=joined("a new one"))
    assert moved(new, regions(new, None)) == {"toy-write/a": None, "toy-join/join": None}, "nobody says where"
    sums = in_all(plan, plan_costs(plan, regions(plan, CENTRAL)))
    assert sums.egress is not None
    assert sums.egress.amount.bytes == 10


def test_what_nobody_can_know_yet_is_said_and_not_counted(tmp_path: Path) -> None:
    plan = planned(str(tmp_path / "store"), end=joined())
    found = moved(plan, regions(plan, EAST))
    assert found["toy-write/a"] == {"gcp/us-east5 → gcp/us-central2": Amount(unknown=("toy-write/a",))}
    unknown = Amount(unknown=("x",))
    assert [exceeds(unknown, Allowance(stated=stated)) for stated in (None, 0, 1)] == [True, True, False]
    assert not exceeds(Amount(1), Allowance())


def test_a_milestone_is_written_where_its_training_run_is(tmp_path: Path) -> None:
    counting = Count(end=3, label="count", resources=Resources(region=str(EUROPE)))
    plan = planned(str(tmp_path / "store"), early=counting.at(2), end=counting)
    there = {"gcp/europe-west4 → gcp/us-central2"}
    found = moved(plan, regions(plan, CENTRAL))
    assert {name: set(held or ()) for name, held in found.items()} == {
        "toy-count/count": there,
        "toy-milestone/count@2": there,
    }


def test_the_budget_may_be_met_and_not_exceeded(tmp_path: Path) -> None:
    where = Regions(str(tmp_path / "store"), EAST, CENTRAL)
    ten = [("toy/a", Egress({Route(CENTRAL, EAST): TEN}))]
    must_be_allowed(ten, Allowance(stated=10), where)
    must_be_allowed(ten, Allowance(stated=0, because="once"), where)
    must_be_allowed([("toy/a", Egress())], Allowance(stated=0), where)
    with pytest.raises(EgressOverBudget) as refused:
        must_be_allowed([*ten, ("toy/b", Egress({Route(EAST, CENTRAL): Amount(1)}))], Allowance(stated=10), where)
    for said in ("11 B", "10 B", "toy/a", "marin mirror", "--egress-budget", "--allow-egress", "gcp/us-central2"):
        assert said in str(refused.value)
    assert Allowance().budget == BUDGET == 10 << 30


class Elsewhere(ExecutorStep[Blob], op="toy-elsewhere"):
    """Read a file of another bucket."""

    url: str

    def outside_bytes(self) -> dict[str, int]:
        return {self.url: 7}

    def run(self, ctx: Context) -> Blob:
        raise AssertionError("only planned")


def test_outside_data_crosses_too_and_each_bucket_is_asked_once(tmp_path: Path) -> None:
    plan = planned(str(tmp_path / "store"), end=Elsewhere(url="gs://open/data"))
    asked: list[str] = []

    def ask(url: str) -> Region | None:
        asked.append(url)
        return EUROPE if url.startswith("gs://") else None

    where = Regions(plan.store.prefix, EAST, ask=ask)
    [found] = moved(plan, where).values()
    assert found == {"gcp/europe-west4 → gcp/us-east5": Amount(7)}
    moved(plan, where)
    assert sorted(asked) == sorted([plan.store.prefix, "gs://open/data"])


def test_outside_data_of_a_bucket_that_refuses_to_say_where_it_is_is_named(server: StoreServer, tmp_path: Path) -> None:
    plan = planned(str(tmp_path / "store"), end=Elsewhere(url=server.new_bucket("us-east1")))
    server.obey(Rule(Act.ANSWER, operations=[Operation.OTHER], status=403))
    where = Regions(plan.store.prefix, EAST)
    assert moved(plan, where) == {plan.decisions[0].step.name: {}}
    assert "403" in "".join(where.unchecked.values())


def test_buckets_are_asked_once_and_only_where_a_region_is_known(server: StoreServer) -> None:
    name = {Kind.GS: "europe-west4", Kind.S3: "eu-west-1"}[server.kind]
    prefix = server.new_bucket(name)
    there = Region({Kind.GS: "gcp", Kind.S3: "aws"}[server.kind], name)
    run(prefix, end=joined())
    plan = planned(prefix, rebuild=("join",), end=joined())
    server.obey()
    assert list(moved(plan, Regions(prefix)).values()) == [None]
    assert Operation.OTHER not in {operation for operation, _, _ in server.calls()}
    where = Regions(prefix, CENTRAL)
    [found] = moved(plan, where).values()
    assert found == {f"{there} → gcp/us-central2": Amount(5), f"gcp/us-central2 → {there}": Amount(5, 5)}
    asked = sum(operation is Operation.OTHER for operation, _, _ in server.calls())
    moved(plan, where)
    assert asked == sum(operation is Operation.OTHER for operation, _, _ in server.calls())
    assert list(moved(plan, Regions(prefix, there)).values()) == [{}]
    # Outside data of a real operator, in a bucket of its own.
    files = FsspecFiles(urls=(f"{prefix}/toy-write/**",), label="files")
    size = sum(files.outside_bytes().values())
    assert size >= 5
    outside = planned(server.new_bucket(name), end=files)
    [crossed] = moved(outside, Regions(outside.store.prefix, CENTRAL)).values()
    assert (crossed or {})[f"{there} → gcp/us-central2"] == Amount(size)


@pytest.mark.parametrize(
    ("server", "amazon"),
    [
        ("https://s3.us-east-1.amazonaws.com", True),
        ("https://s3.cn-north-1.amazonaws.com.cn", True),
        ("http://127.0.0.1:5000", True),
        ("https://object.lab.example", False),
        ("https://amazonaws.com.example", False),
    ],
)
def test_servers_that_speak_s3_and_are_not_amazons_are_told_apart(server: str, amazon: bool) -> None:
    assert is_amazon(server) is amazon


def test_a_bucket_that_refuses_to_say_where_it_is_is_no_silence(server: StoreServer, remote_prefix: str) -> None:
    server.obey(Rule(Act.ANSWER, operations=[Operation.OTHER], status=403))
    with pytest.raises(UnknownRegion, match="--store-region"):
        Regions(remote_prefix, CENTRAL).store()
    assert Regions(remote_prefix, CENTRAL, EAST).store() == EAST
    server.obey()
    assert bucket_region(remote_prefix) in (Region("gcp", "us"), VIRGINIA)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


def test_a_run_over_the_budget_stops_before_anything_starts(project: Project) -> None:
    marin = Command(project)
    far = ("--region", "gcp/us-central2", "--store-region", "aws/eu-west-1", "--egress-budget", "0")
    said = marin.on("run", *far, "--backend", "inline", expect=OVER)
    assert all(line in said for line in ("say/say", "aws/eu-west-1", "gcp/us-central2", "--allow-egress"))
    assert "Nothing was started" in marin.on("run", *far, "--dry-run", expect=OVER)
    assert "Nothing was started" in marin.on("plan", *far, expect=OVER)
    assert not project.store.exists()
    assert "no egress" in marin.on("plan", "--region", "aws/eu-west-1", *far[2:])
    # With a reason it runs, and the reason is kept.
    marin.on("run", *far, "--backend", "inline", "--allow-egress", "the chips are there")
    told = json.loads(marin("status", "latest", "--prefix", str(project.store), "--json"))
    [egress] = [event for event in told["events"] if event["event"] == "egress"]
    assert egress["allowed"] == "the chips are there"
    assert {way["from"] for way in egress["routes"]} == {"aws/eu-west-1", "gcp/us-central2"}
    # Committed outputs move no bytes.
    marin.on("run", *far, "--backend", "inline")


def test_a_first_run_stops_reading_where_its_inputs_turn_out_to_be_too_large(project: Project) -> None:
    """The first plan knows no size. The committed outputs stay, and the next plan knows their sizes."""
    marin = Command(project)
    far = ("--region", "gcp/us-central2", "--store-region", "aws/eu-west-1", "--egress-budget")
    said = marin.on("run", *far, "10B", "--backend", "inline", expect=1)  # writing took 7 B of the 10
    assert "EgressOverBudget: repeat/repeat would read 7 B" in said
    assert project.ran() == ["say/say"]
    marin.on("run", *far, "6B", "--backend", "inline", expect=OVER)
    marin.on("run", *far, "7B", "--backend", "inline")
    assert project.ran() == ["repeat/repeat"]


def test_a_plan_on_a_bucket_says_that_it_does_not_know_where_steps_run(
    project: Project, request: pytest.FixtureRequest
) -> None:
    server: StoreServer = request.getfixturevalue("_s3")
    server.obey()
    where = ("--prefix", server.new_bucket("eu-west-1"))
    marin, file = Command(project), str(project.file)
    assert "region unknown: egress not checked" in marin("plan", file, *where)
    assert "aws/eu-west-1 → local" in marin("plan", file, *where, "--region", "local", "--egress-budget", "1MiB")


@pytest.mark.parametrize("given", [("--region", "nowhere"), ("--egress-budget", "some"), ("--store-region", "")])
def test_what_is_no_region_or_size_is_a_wrong_command_line(project: Project, given: tuple[str, str]) -> None:
    said = Command(project).on("plan", *given, expect=2)
    assert given[0] in said
