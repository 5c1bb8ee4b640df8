"""Count the requests to S3 and to GCS: of each cold step of a chain, and of a plan of cached steps.

    ./py -m benchmarks.engine.requests [--kinds s3,gs] [--short 10] [--long 100] [--names]

The servers are the emulators of the tests, and each command is a real process. Two chains run, a short one and a long
one. The difference tells the requests of a step, and the rest are the requests of a run.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from rich.table import Table

from benchmarks.engine.report import wide_console
from tests.support.servers import Kind, StoreServer

ROOT = Path(__file__).resolve().parents[2]
OF_A_STEP = re.compile(r"[0-9a-f]{12,}|\d+")  # parts of a name that differ from step to step
COMMANDS = {
    "empty plan": ["plan"],
    "cold run": ["run", "--backend", "inline"],
    "cached plan": ["plan"],
}
EXPERIMENT = """
from marin import Artifact, Context, ExecutorStep, Experiment, Scale, executor_main


class Text(Artifact, kind="chain-text"):
    \"\"\"One small file.\"\"\"


class Link(ExecutorStep[Text], op="chain-link", version=1):
    place: int
    before: tuple[ExecutorStep[Text], ...] = ()

    def run(self, ctx: Context) -> Text:
        read = [ctx[step].directory.read_text("text")[:20] for step in self.before]  # else it doubles with each step
        ctx.out.write_text("text", f"{self.place} {read}")
        return Text()


def build(scale: Scale) -> Experiment:
    steps: list[Link] = []
    for place in range(STEPS):
        steps.append(Link(place=place, before=tuple(steps[-1:]), label=f"link-{place}"))
    return Experiment(issue=3, question="How many requests?", results={"last": steps[-1]})


if __name__ == "__main__":
    executor_main(build)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kinds", default="s3,gs", help="kinds of stores")
    parser.add_argument("--short", type=int, default=10, help="steps of the short chain")
    parser.add_argument("--long", type=int, default=100, help="steps of the long chain")
    parser.add_argument("--names", action="store_true", help="also show which objects each cold step asks for")
    given = parser.parse_args()
    table = Table(title="requests", header_style="bold")
    for heading in ("store", "command", "requests", "of each kind"):
        table.add_column(heading, justify="left" if heading == "of each kind" else "right", no_wrap=True)
    for kind in map(Kind, given.kinds.split(",")):
        with StoreServer(kind) as server:
            counted = {steps: commands(server, steps) for steps in (given.short, given.long)}
        more = counted[given.long]["cold run"].copy()
        more.subtract(counted[given.short]["cold run"])
        row(table, kind, "a cold step", more, given.long - given.short)
        for steps, by_command in counted.items():
            for command, calls in by_command.items():
                row(table, kind, f"{command}, {steps} steps", calls)
        if given.names:
            for (operation, name), count in more.most_common():
                print(f"{kind}  {count / (given.long - given.short):6.2f}  {operation:6} {name}")
    wide_console().print(table)


def commands(server: StoreServer, steps: int) -> dict[str, Counter[tuple[str, str]]]:
    """Count the requests of each command over one new store, by operation and by object: one name for all steps."""
    prefix, found = server.new_prefix(), dict[str, Counter[tuple[str, str]]]()
    with tempfile.TemporaryDirectory(prefix="marin-requests-") as folder:
        path = Path(folder) / "experiment.py"
        path.write_text(EXPERIMENT.replace("STEPS", str(steps)))
        for name, command in COMMANDS.items():
            server.obey()
            done = subprocess.run(
                [sys.executable, "-m", "marin", *command, str(path), "--prefix", prefix],
                env={**os.environ, **server.environment, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
            start = len(prefix.split("/", 3)[3]) + 1
            found[name] = Counter(
                (operation.value, OF_A_STEP.sub("…", asked[start:])) for operation, asked, _ in server.calls()
            )
    return found


def row(table: Table, kind: Kind, what: str, calls: Counter[tuple[str, str]], steps: int = 1) -> None:
    by_operation: Counter[str] = Counter()
    for (operation, _), count in calls.items():
        by_operation[operation] += count
    shown = ", ".join(f"{count / steps:.4g} {operation}" for operation, count in sorted(by_operation.items()))
    table.add_row(kind.value, what, f"{by_operation.total() / steps:.4g}", shown)


if __name__ == "__main__":
    main()
