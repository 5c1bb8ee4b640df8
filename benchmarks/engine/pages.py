"""Measure the page of an experiment: seconds to write it, and its bytes. Each source is cleaned in four steps.

./py -m benchmarks.engine.pages 1000 10000
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from marin import Artifact, Context, ExecutorStep, Experiment
from marin.executor.backends.inline import InlineBackend
from marin.executor.scheduler import Scheduler
from marin.plan.plan import make_plan
from marin.report.page.write import page_name, write_page
from marin.steps.scale import Scale
from marin.store.store import Store

STAGES = ("download", "filter", "dedup", "tokenize")
REPEATS = 3


class Text(Artifact, kind="benchmark-text"):
    documents: int
    bytes: int


class Make(ExecutorStep[Text], op="benchmark-make"):
    number: int
    stage: int
    before: tuple[ExecutorStep[Text], ...] = ()

    def run(self, ctx: Context) -> Text:
        ctx.out.write_text("text.txt", str(self.number))
        return Text(documents=700 + self.number, bytes=1_900_000 + self.number)


def steps(count: int) -> dict[str, ExecutorStep[Text]]:
    """The last one reads the ends of all chains."""
    ends: list[ExecutorStep[Text]] = []
    for number in range((count - 1) // len(STAGES)):
        made: tuple[ExecutorStep[Text], ...] = ()
        for stage, name in enumerate(STAGES):
            made = (Make(number=number, stage=stage, before=made, label=f"cc/{number:05}/{name}"),)
        ends += made
    return {"all": Make(number=0, stage=len(STAGES), before=tuple(ends), label="all")}


def measure(count: int, folder: str) -> str:
    store = Store(f"{folder}/{count}")
    plan = make_plan(Experiment(issue=1, question="How large is it?", results=steps(count)), store)
    run = Scheduler(plan, InlineBackend(), _nothing).execute()
    name = page_name(f"{Path(__file__).stem}-{Scale.REHEARSAL.value}")
    taken: list[float] = []
    for _ in range(REPEATS):
        store.objects.remove([name])
        began = time.perf_counter()
        write_page(run, Path(__file__), Scale.REHEARSAL, "python experiment.py")
        taken.append(time.perf_counter() - began)
    size = len(store.objects.read(name) or b"")
    return f"{len(run.results):>7,} steps   {median(taken):6.2f} s   {size:>9,} bytes"


def _nothing(*_: object) -> None:
    pass


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").exists() else None) as folder:
        for count in map(int, sys.argv[1:] or ["1000", "10000"]):
            print(measure(count, folder), flush=True)


if __name__ == "__main__":
    main()
