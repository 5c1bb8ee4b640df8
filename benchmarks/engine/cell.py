"""One tool at one size, once: a fresh folder, every phase, and proof that it did the work and only then."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.engine.measure import Ending, Measured, measured
from benchmarks.engine.peers import dag
from benchmarks.engine.tools import Answer, Phase, Tool

PEERS = Path(dag.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Sample:
    """ran: steps executed in this phase. problem: why the sample does not count; "" if it does."""

    tool: str
    steps: int
    phase: Phase
    seconds: float
    cpu: float
    peak: int
    ran: int
    problem: str = ""

    @property
    def counts(self) -> bool:
        return not self.problem


def samples(tool: Tool, bin_folder: Path, steps: int, folder: Path, timeout: float) -> Iterator[Sample]:
    """Run every phase in turn in a fresh folder; stop after the first phase that fails."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "home").mkdir(parents=True)
    (folder / dag.SEED).write_text(dag.SEED_VALUE)
    environment = _environment(tool, bin_folder, steps, folder)
    phases = {Phase.PREPARE: tool.prepare, Phase.COLD: tool.cold, Phase.CACHED: tool.cached, Phase.PLAN: tool.plan}
    for phase, command in phases.items():
        if not command:
            continue
        before = _executions(folder)
        filled = [_fill(part, bin_folder, steps, folder) for part in command]
        log = folder.with_suffix(f".{phase}.log")
        log.unlink(missing_ok=True)
        done = measured(filled, folder, environment, timeout, log)
        ran = _executions(folder) - before
        problem = _problem(tool, phase, steps, folder, done, ran, timeout)
        if phase is not Phase.PREPARE or problem:
            yield Sample(
                tool=tool.name,
                steps=steps,
                phase=phase,
                seconds=done.seconds,
                cpu=done.cpu,
                peak=done.peak,
                ran=ran,
                problem=problem,
            )
        if problem:
            return


def _problem(tool: Tool, phase: Phase, steps: int, folder: Path, done: Measured, ran: int, timeout: float) -> str:
    if done.ending is Ending.TIMEOUT:
        return f"did not finish in {timeout:.0f} s" + (f" ({ran} of {steps} steps ran)" if phase is Phase.COLD else "")
    if done.ending is Ending.FAILED:
        lines = [line.strip() for line in done.output.splitlines() if line.strip()]
        return f"failed: {lines[-1][:300] if lines else 'no output'}"
    expected = {Phase.PREPARE: 0, Phase.COLD: steps, Phase.CACHED: 0, Phase.PLAN: 0}[phase]
    if ran != expected:
        return f"ran {ran} steps where {expected} were right"
    if phase in (Phase.COLD, Phase.CACHED) and _answer(tool, steps, folder, done) != dag.expected_answer(steps):
        return "gave a wrong answer"
    return ""


def _executions(folder: Path) -> int:
    note = folder / dag.EXECUTIONS
    return note.stat().st_size if note.exists() else 0


def _answer(tool: Tool, steps: int, folder: Path, done: Measured) -> str:
    if tool.answer is Answer.FILES:
        return dag.answer_of_files(str(folder), steps)
    if tool.answer is Answer.PRINTED:
        said = re.findall(r"answer ([0-9a-f]{32})", done.output)
        return said[-1] if said else ""
    return _answer_of_store(steps, folder)


def _answer_of_store(steps: int, folder: Path) -> str:
    """Return the answer from the values of the last layer in this project's store."""
    from marin.store.inventory import Inventory
    from marin.store.store import open_store

    store = open_store(str(folder / "store"))
    last = [node.name for node in list(dag.layers(steps))[-1]]
    wanted, held = set(last), dict[str, str]()
    for record in Inventory(store).records.values():
        output = store.output(record)
        held |= {name: output.read_text(name) for name in output.listing() if name in wanted}
    return dag.answer([held[name] for name in last]) if held.keys() == wanted else ""


def _fill(text: str, bin_folder: Path, steps: int, folder: Path) -> str:
    return text.format(bin=bin_folder, peers=PEERS, folder=folder, steps=steps, jobs=os.cpu_count() or 1)


def _environment(tool: Tool, bin_folder: Path, steps: int, folder: Path) -> Mapping[str, str]:
    """Return this process's environment without variables that could affect another tool, plus the tool's own."""
    kept = {
        name: held
        for name, held in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "RAY_", "PREFECT_", "DAGSTER_", "METAFLOW_", "DVC_", "MARIN_"))
    }
    kept["PATH"] = f"{bin_folder}{os.pathsep}{kept.get('PATH', os.defpath)}"
    kept["PYTHONPATH"] = str(PEERS)
    return kept | {name: _fill(held, bin_folder, steps, folder) for name, held in tool.variables.items()}
