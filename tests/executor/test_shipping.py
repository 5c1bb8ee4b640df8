"""The plan refuses steps that cannot be sent to a worker, and names the fault."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from marin import Context, ExecutorStep, execution, value
from marin.errors import BadField, ExperimentError
from marin.executor.backends.step_pickles import must_ship
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import Blob, Color, Count, Join, Write


@value("shipping-cached")
class Cached:
    """A value that keeps an object beside its fields that cannot travel."""

    size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "lock", threading.Lock())


class Holding(ExecutorStep[Blob], op="shipping-holding"):
    text: str = ""
    cached: Cached | None = None
    color: Color | None = None
    source: Join | None = None
    helper: object = execution(default=None)

    def run(self, ctx: Context) -> Blob:
        raise AssertionError("it is refused before it runs")


def local_class() -> ExecutorStep[Any]:
    class Local(ExecutorStep[Blob], op="shipping-local"):
        def run(self, ctx: Context) -> Blob:
            raise AssertionError("it is refused before it runs")

    return Local(label="here")


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: Holding(helper=threading.Lock()), BadField, r"Holding\.helper is <unlocked .*, which no worker"),
        (lambda: Holding(helper=sys._getframe()), BadField, r"Holding\.helper is <frame at .*inside run\(\)"),
        (lambda: Holding(helper=(i for i in ())), BadField, r"Holding\.helper is <generator .* a value that can"),
        (lambda: Holding(cached=Cached(1)), BadField, r"Holding\.cached is Cached\(size=1\), which no worker"),
        (lambda: Join(parts=(Holding(helper=threading.Lock(), label="it"),)), BadField, r"holding/it: Holding\.helper"),
        (local_class, ExperimentError, r"shipping-local/here: no worker can find its class local_class.<locals>.Local"),
    ],
    ids=["lock", "frame", "generator", "inside a value", "in what it reads", "local class"],
)  # fmt: skip
def test_it_is_refused_with_the_name_of_the_field(
    build: Callable[[], ExecutorStep[Any]], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        must_ship([build()])


def test_what_can_travel_is_let_through() -> None:
    join = Join(parts=(Write(text="a"), Write(text="b")))
    step = Holding(text="x", color=Color(red=1, names={"a": 1.0}), source=join, helper=lambda: 1)
    must_ship([step, join, Count(end=3).at(2)])


def test_a_deep_graph_is_no_deep_recursion() -> None:
    step = Join(parts=())
    for _ in range(3000):
        step = Join(parts=(step,))
    must_ship([step])


@pytest.mark.parametrize("backend", ["inline", "ray"])
def test_a_run_says_so_before_anything_starts(tmp_path: Path, backend: str) -> None:
    source = EXPERIMENT.replace("    text: str\n", "    text: str\n    lock: object = execution(default=None)\n")
    source = source.replace("import Context, ", "import execution, Context, ").replace(
        'text="hello"', 'text="hello", lock=__import__("threading").Lock()'
    )
    project = Project(tmp_path / "project", source)
    for dry in ((), ("--dry-run",)):
        said = project.run(*dry, backend=backend, expect=4)
        assert "BadField: say/say: Say.lock is <unlocked _thread.lock" in said
        assert "Traceback" not in said
    assert not project.store.exists()
