"""Test lineage across rebuilds, aliases, pins and names, as text, Markdown and JSON."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from marin.errors import BadField, UnknownStep
from marin.report.claims import StoreClaims
from marin.report.lineage_tree import Direction, LineageTree, walk
from marin.steps.pinned import Pinned
from marin.store.layout import end_name
from marin.store.lineage import Output, read_lineage
from marin.store.lookup import bytes_named, outputs_named
from marin.store.record import Input, Record
from marin.store.revocation import revoke, revoked
from marin.store.store import Store
from marin.store.trust import TrustChecker
from tests.cli.test_cli import EXPERIMENT_ERROR, STORE_ERROR, Command
from tests.support.project import Project
from tests.support.toy import Blob, Count, Join, Write, run, runs_otherwise

A, B = Write(text="a", label="a"), Write(text="b", label="b")
AB = Join(parts=(A, B), label="ab")
END = Join(parts=(AB, A), label="end")


def of(prefix: str, step: Any) -> Record:
    record = Store(prefix).record(step.identity)
    assert record is not None
    return record


def output(record: Record) -> Output:
    return Output(record.identity, record.root)


def family(prefix: str, direction: Direction, name: str) -> LineageTree:
    store = Store(prefix)
    lineage = read_lineage(store)
    return LineageTree(
        direction, outputs_named(lineage, store, name), lineage, StoreClaims(store, lineage, revoked(store))
    )


def names(held: LineageTree) -> dict[str, int]:
    return {held.lineage.name_of(one): distance for one, distance in held.found.items()}


def test_up_and_down_name_everything_with_its_distance(prefix: str) -> None:
    run(prefix, end=END)
    assert names(family(prefix, Direction.UP, "end")) == {"toy-join/ab": 1, "toy-write/a": 1, "toy-write/b": 2}
    assert names(family(prefix, Direction.DOWN, "toy-write/a")) == {"toy-join/ab": 1, "toy-join/end": 1}
    assert names(family(prefix, Direction.DOWN, "b")) == {"toy-join/ab": 1, "toy-join/end": 2}
    assert family(prefix, Direction.UP, "a").found == {}


def test_an_output_is_found_by_any_of_its_names(prefix: str) -> None:
    run(prefix, end=END)
    record, store = of(prefix, AB), Store(prefix)
    lineage = read_lineage(store)
    for name in (
        "toy-join/ab", "ab", record.identity, record.identity[:6], record.attempt, f"{prefix}/{record.attempt}/",
        record.root, record.root[:8],
    ):  # fmt: skip
        assert outputs_named(lineage, store, name) == [output(record)], name
    assert len(outputs_named(lineage, store, "toy-join")) == 2
    with pytest.raises(UnknownStep, match="did you mean toy-join/ab"):
        outputs_named(lineage, store, "toy-join/abb")
    with pytest.raises(UnknownStep):
        outputs_named(lineage, store, record.root[:5])


def test_what_was_made_from_replaced_bytes_is_still_known(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run(prefix, end=END)
    before = of(prefix, A)
    runs_otherwise(monkeypatch, Write, lambda _, ctx: (ctx.out.write_text("text.txt", "other"), Blob(bytes=5))[1])
    run(prefix, rebuild=("a",), end=A)
    after = of(prefix, A)
    lineage = read_lineage(Store(prefix))
    assert set(lineage.down([output(before)])) == {output(of(prefix, AB)), output(of(prefix, END))}
    assert lineage.down([output(after)]) == {}
    assert lineage.is_superseded(output(before))
    found = family(prefix, Direction.DOWN, before.root[:12])
    (mark,) = found.claims[output(before)]
    assert mark.subject == "superseded"
    assert "asked for by --rebuild" in mark.text
    (mark,) = family(prefix, Direction.DOWN, after.identity).claims[output(after)]
    assert mark.subject == "made again"


def test_what_an_alias_of_the_same_bytes_fed_is_made_from_them_too(prefix: str) -> None:
    other = Write(text="a", encoding="ascii", label="other")
    run(prefix, end=AB, apart=Join(parts=(other, other), label="apart"))
    found = family(prefix, Direction.DOWN, "toy-write/a")
    assert set(names(found)) == {"toy-join/ab", "toy-join/apart"}
    assert len(found.starts) == 2


def test_aliases_stand_with_their_original(prefix: str) -> None:
    run(prefix, end=END)
    again = dataclasses.replace(A, encoding="ascii")
    renamed = Join(parts=(dataclasses.replace(AB, parts=(again, B)), again), label="renamed")
    run(prefix, end=renamed)
    found = family(prefix, Direction.DOWN, "toy-write/a")
    (root, other), further = found.tree(depth=9, every=False)
    assert further == 0
    assert other.children == []
    assert sorted(found.lineage.name_of(held.outputs[0]) for held in root.children) == ["toy-join/ab", "toy-join/end"]
    assert [found.lineage.name_of(held) for held in found.aliases[output(of(prefix, END))]] == ["toy-join/renamed"]
    assert len(found.found) == 4
    assert found.tally() == "2 outputs: 2 toy-blob"


def test_what_an_original_was_made_from_is_not_of_its_aliases(prefix: str) -> None:
    """A field of a source changed and its bytes stayed, so its dependents share the earlier outputs."""

    def chain(source: Write) -> Join:
        return Join(parts=(Join(parts=(source,), label="middle"),), separator="!", label="late")

    again = dataclasses.replace(A, encoding="ascii")
    run(prefix, end=chain(A))
    run(prefix, end=chain(again), more=Join(parts=(chain(again), B), label="more"))
    found = family(prefix, Direction.UP, "more")
    (root,), further = found.tree(depth=9, every=False)
    assert [(level, found.about(node).name) for level, node in walk([root])] == [
        (0, "toy-join/more"),
        (1, "toy-join/late"),
        (2, "toy-join/middle"),
        (3, "toy-write/a"),
        (1, "toy-write/b"),
    ]
    assert root.children[0].children[0].children[0].outputs == [output(of(prefix, again))]
    assert further == 0


def test_lineage_goes_through_pins(prefix: str) -> None:
    run(prefix, end=AB)
    record = of(prefix, AB)
    pinned = Pinned[Blob](at=record.attempt, digest=record.root, label="kept")
    run(prefix, end=Join(parts=(pinned,), label="later"))
    found = family(prefix, Direction.DOWN, "toy-write/b")
    assert names(found) == {"toy-join/ab": 1, "pinned/kept": 2, "toy-join/later": 3}
    (mark,) = found.claims[output(of(prefix, pinned))]
    assert (mark.subject, mark.text) == ("pinned", f"the bytes are those of {record.attempt}")


def test_a_milestone_was_made_from_what_its_run_read(prefix: str) -> None:
    class Train(Count, op="toy-train-on"):
        data: Write

    training = Train(end=3, data=A, label="t")
    run(prefix, late=training, early=training.at(1))
    assert names(family(prefix, Direction.DOWN, "toy-write/a")) == {"toy-train-on/t": 1, "toy-milestone/t@1": 1}


def test_like_outputs_are_one_line_and_deep_chains_are_cut(prefix: str) -> None:
    sources = tuple(Write(text=str(number), label=f"s{number}") for number in range(6))
    end = Join(parts=sources, label="j0")
    for number in range(1, 6):
        end = Join(parts=(end, end), separator=str(number), label=f"j{number}")
    run(prefix, end=end)
    found = family(prefix, Direction.UP, "j5")
    (root,), further = found.tree(depth=3, every=False)
    assert further == 8
    assert [len(root.children), len(root.children[0].outputs)] == [1, 1]
    (root,), further = found.tree(depth=9, every=False)
    assert further == 0
    for _ in range(6):
        (root,) = root.children
    assert len(root.outputs) == 6
    (root,), _ = found.tree(depth=9, every=True)
    for _ in range(5):
        (root,) = root.children
    assert len(root.children) == 6


def test_a_chain_of_thousands_needs_no_recursion(prefix: str) -> None:
    run(prefix, end=A)
    store, first = Store(prefix), of(prefix, A)
    before = first
    for number in range(3000):
        name = f"{number:064x}"
        inputs = [Input(name=before.name, identity=before.identity, root=before.root)]
        before = structs.replace(first, identity=name, root=name, content=name, label=f"n{number}", inputs=inputs)
        store.objects.write(end_name(name, before.token), before.to_bytes())
    revoke(store, first, "bad")
    found = family(prefix, Direction.UP, "n2999")
    assert len(found.found) == 3000
    assert found.tally().endswith("3000 not to be trusted")
    (root,), further = found.tree(depth=12, every=False)
    assert further == 3000 - 12
    assert found.claims[output(before)][0].text.startswith(
        f"made from toy-write/a {A.identity[:12]} (through 2996 more → toy-write/n2996 → "
    )
    assert root.outputs == [output(before)]
    bad = TrustChecker(store, {}, revoked(store)).untrusted(before)
    assert bad is not None
    assert bad.why.startswith(f"made from toy-write/a {A.identity[:12]}")


def test_bytes_are_named_or_the_candidates_are(prefix: str) -> None:
    run(prefix, end=END)
    store = Store(prefix)
    lineage = read_lineage(store)
    assert bytes_named(lineage, store, "a") == of(prefix, A)
    with pytest.raises(Exception, match="fits 2 ") as refused:
        bytes_named(lineage, store, "toy-write")
    assert of(prefix, A).attempt in str(refused.value)
    (Path(prefix) / end_name(B.identity, 1)).unlink()
    lineage = read_lineage(store)
    assert lineage.name_of(lineage.inputs(output(of(prefix, AB)))[1]) == "toy-write/b"
    with pytest.raises(BadField, match=r"record of .* is gone"):
        bytes_named(lineage, store, lineage.inputs(output(of(prefix, AB)))[1].root)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project")


@pytest.fixture
def marin(project: Project) -> Command:
    return Command(project)


def test_the_command_in_each_form(project: Project, marin: Command) -> None:
    marin.on("run", "--backend", "inline")
    where = ("--prefix", str(project.store))
    tree = marin("lineage", "say", "--down", *where)
    assert [line.split()[0] for line in tree.splitlines()] == ["say/say", "└──", "made"]
    assert "repeat/repeat" in tree
    markdown = marin("lineage", "repeat/repeat", "--markdown", *where).splitlines()
    assert markdown[0].startswith("- **repeat/repeat**")
    assert markdown[1].startswith("  - **say/say**")
    told = json.loads(marin("lineage", "repeat", "--json", *where))
    assert [(node["step"], node["distance"], node["kind"]) for node in told["outputs"]] == [("say/say", 1, "toy-blob")]
    assert told["starts"][0]["inputs"][0]["identity"] == told["outputs"][0]["identity"]
    listed = marin("lineage", "say", "--down", "--kind", "toy-blob", *where)
    assert "made from it: 1 toy-blob" in listed
    assert "did you mean toy-blob" in marin("lineage", "say", "--down", "--kind", "toy-blog", *where, expect=4)


def test_a_step_as_an_experiment_has_it(project: Project, marin: Command) -> None:
    where = ("--prefix", str(project.store), "--experiment", str(project.file))
    marin.on("run", "--backend", "inline")
    project.file.write_text(project.file.read_text().replace('text="hello"', 'text="hullo"'))
    assert "not in the store as this experiment defines it" in marin("lineage", "repeat", *where, expect=4)
    marin.on("run", "--backend", "inline")
    (told,) = json.loads(marin("lineage", "repeat", "--json", *where))["outputs"]
    assert len(json.loads(marin("lineage", "repeat", "--json", "--prefix", str(project.store)))["starts"]) == 2
    assert told["step"] == "say/say"


def test_bad_names_places_and_records(project: Project, marin: Command) -> None:
    assert "no store at" in marin("lineage", "x", "--prefix", str(project.store), expect=STORE_ERROR)
    marin.on("run", "--backend", "inline")
    where = ("--prefix", str(project.store))
    assert "did you mean say/say" in marin("lineage", "say/sya", *where, expect=EXPERIMENT_ERROR)
    say = marin.json("plan")["steps"][0]["identity"]
    (project.store / end_name(say, 1)).write_text("{")
    told = json.loads(marin("lineage", "repeat", "--json", *where))
    assert [(node["step"], node["marks"][0]["kind"]) for node in told["outputs"]] == [("say/say", "gone")]
    assert "is not a readable record" in told["unreadable"][0]
