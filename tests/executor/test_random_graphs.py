"""For any graph and any failures exactly the right steps run, judged by a small model of a store."""

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from marin import Context, ExecutorStep, execution
from tests.support import toy
from tests.support.toy import Blob, planned


class Node(ExecutorStep[Blob], op="toy-node"):
    """A step that writes its number in the journal on each run, and fails while its number lies in ``broken``."""

    number: int
    parents: tuple[ExecutorStep[Blob], ...]
    journal: str = execution(default="")
    broken: str = execution(default="")

    def run(self, ctx: Context) -> Blob:
        with open(self.journal, "a") as handle:
            handle.write(f"{self.number}\n")
        if (Path(self.broken) / str(self.number)).exists():
            raise RuntimeError(f"node {self.number} is broken")
        texts = [ctx[parent].directory.read_text("text.txt") for parent in self.parents]
        ctx.out.write_text("text.txt", f"({self.number}{''.join(texts)})")
        return Blob(bytes=1)


@dataclass
class Graph:
    """A graph of nodes. parents: each node's parents, all with smaller numbers."""

    parents: list[list[int]]

    def needed(self, ends: set[int]) -> list[int]:
        found: set[int] = set()
        for number in reversed(range(len(self.parents))):
            if number in ends or any(number in self.parents[child] for child in found):
                found.add(number)
        return sorted(found)

    def steps(self, folder: Path) -> list[Node]:
        made: list[Node] = []
        for number, parents in enumerate(self.parents):
            made.append(
                Node(
                    number=number,
                    parents=tuple(made[parent] for parent in parents),
                    journal=str(folder / "journal"),
                    broken=str(folder / "broken"),
                    label=str(number),
                )
            )
        return made


@dataclass
class Model:
    """A model of the store: the numbers of the committed nodes."""

    graph: Graph
    committed: set[int] = field(default_factory=set[int])

    def run(self, ends: set[int], broken: set[int], rebuild: int | None) -> tuple[list[int], dict[int, str]]:
        """Return (the nodes whose run() is called if each that can be made is, the status of each node)."""
        called: list[int] = []
        statuses: dict[int, str] = {}
        for number in self.graph.needed(ends):
            if any(statuses[parent] in ("failed", "skipped") for parent in self.graph.parents[number]):
                statuses[number] = "skipped"
            elif number in self.committed and number != rebuild:
                statuses[number] = "cached"
            else:
                called.append(number)
                statuses[number] = "failed" if number in broken else "ran"
        return called, statuses


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    size = draw(st.integers(1, 8) | st.just(8))
    return Graph([draw(st.lists(st.integers(0, max(0, n - 1)), unique=True, max_size=min(n, 3))) for n in range(size)])


numbers = st.sets(st.integers(0, 7), min_size=1, max_size=6)
rounds = st.lists(st.tuples(numbers, numbers, st.none() | st.integers(0, 7)), min_size=1, max_size=3)


@settings(max_examples=60, deadline=None)
@given(graphs(), rounds, st.booleans())
@example(Graph([[], [0], [], [], [], [2, 1]]), [({5}, {1, 2}, None)], False)  # 2 fails before 1 begins
@example(Graph([[], [], [1]]), [({0, 2}, {0}, None)], False)  # 0 fails before 2 begins, which does not need it
def test_every_run_calls_exactly_what_the_model_says(
    graph: Graph, rounds: list[tuple[set[int], set[int], int | None]], keep_going: bool
) -> None:
    """rounds: (results, broken nodes, node to rebuild), each by number modulo the size of the graph.

    Without keep_going a run may spare nodes, but none that a result needs which can still be made.
    """
    size, model = len(graph.parents), Model(graph)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        steps = graph.steps(folder)
        everything = (set(range(size)), set[int](), None)
        for ends, broken, rebuild in [*rounds, everything, everything]:
            ends = {number % size for number in ends}
            broken = {number % size for number in broken}
            if rebuild is not None:
                rebuild = rebuild % size if rebuild % size in graph.needed(ends) else None
            to_call, statuses = model.run(ends, broken, rebuild)
            called, found = execute(folder, steps, ends, broken, rebuild, keep_going)
            spared = set[int]() if keep_going else set(to_call) - set(called)
            possible = {end for end in ends if statuses[end] in ("ran", "cached")}
            assert spared.isdisjoint(graph.needed(possible))
            assert called == [number for number in to_call if number not in spared]
            assert found == statuses | dict.fromkeys(spared, "skipped")
            model.committed |= {number for number, status in found.items() if status == "ran"}
        assert to_call == []


def execute(
    folder: Path, steps: list[Node], ends: set[int], broken: set[int], rebuild: int | None, keep_going: bool
) -> tuple[list[int], dict[int, str]]:
    journal, flags = folder / "journal", folder / "broken"
    journal.write_text("")
    flags.mkdir(exist_ok=True)
    for flag in flags.iterdir():
        flag.unlink()
    for number in broken:
        (flags / str(number)).touch()
    results: dict[str, Any] = {f"result{number}": steps[number] for number in ends}
    names = () if rebuild is None else (f"toy-node/{rebuild}",)
    done = toy.execute(planned(str(folder / "store"), rebuild=names, **results), keep_going=keep_going)
    statuses = {cast(Node, result.step).number: str(result.status) for result in done.results.values()}
    return sorted(int(line) for line in journal.read_text().split()), statuses
