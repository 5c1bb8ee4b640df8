"""The trainings of a run as its page reads them: curves, shared phases, plan and outcome."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import Any, NamedTuple, cast

from marin.data.mixture import Stages
from marin.executor.run_results import Run, StepResult
from marin.plan.cost.plan_cost import Sizes
from marin.plan.missing import describe_fields
from marin.report import words
from marin.report.health import findings_of
from marin.report.phases import Phase, TrainingRun, largest, phase_of
from marin.report.section import Bold, Cell, Column, Heading, Mark, Section, Table
from marin.report.section import Row as Cells
from marin.report.words import grouped
from marin.report.written import written_table
from marin.steps.resources import MFU, Size, training_cost
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, write_count, write_duration
from marin.store.record import Record
from marin.training.checkpoint import SAMPLES
from marin.training.metrics import METRICS, parse_metrics
from marin.training.spec import PROFILE

# Beginnings of planned changes, as metrics write them. The page draws these from the fields already.
PLANNED = ("batch: ", "data: ", "learning rate: ")
SHOWN = 2  # settings that changed at one step, before "more"
DIGEST = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24,}\b")
type Row = dict[str, Any]  # of metrics


class Stretch(NamedTuple):
    """A named stretch of a run: optimizer steps [first, end)."""

    first: int
    end: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training of a run: its fields, and the metrics and events that it left."""

    step: ExecutorStep[Any]
    record: Record | None
    arm: str  # "" if the arms share it
    phase: Phase | None  # None if the step does not say over which optimizer steps it trains
    rows: Sequence[Row]  # empty if it wrote none
    tokens: Mapping[str, int]  # of its inputs, by label
    events: Sequence[Mark] = ()  # changes and incidents: batch, mixture, a spike
    wrote: Sequence[Row] = ()  # lines of samples.jsonl
    findings: Sequence[tuple[bool, str]] = ()  # from its metrics: whether somebody should act, and a sentence
    profile: str = ""  # path or URL of the profile for Perfetto

    @property
    def name(self) -> str:
        return self.step.label

    def column(self, name: str) -> list[float]:
        """Return the value of each row; null is NaN or infinite. Empty if any row lacks it."""
        if not all(name in row for row in self.rows):
            return []
        return [math.nan if row[name] is None else row[name] for row in self.rows]

    @property
    def span(self) -> tuple[int, int]:
        """(first, end) optimizer steps."""
        return (self.phase.first, self.phase.end) if self.phase is not None else (0, 0)

    @property
    def stages(self) -> Sequence[tuple[int, Mapping[str, float]]]:
        """First step → share of each source; empty if the shares are not known yet."""
        found = self.phase.stages if self.phase is not None else []
        return found if all(shares for _, shares in found) else []


def training_of(run: Run, result: StepResult, arms: Sequence[str]) -> Training:
    step, store = result.step, run.plan.store
    facts = {read: record.facts for read in step.dependencies if (record := run.results[read].record)}
    tokens = {read: count for read, each in facts.items() if isinstance(count := each.get("tokens"), int)}

    def rows(name: str) -> list[Row]:
        path = f"{result.record.attempt}/{name}" if result.record is not None else ""
        content = store.objects.read(path) if path else None
        return [] if content is None else parse_metrics(content, f"{store.prefix}/{path}")

    made = Training(
        step=step,
        record=result.record,
        arm=step.label if step.label in arms else "",
        phase=phase_of(step, Sizes({read: Size(bytes=0, tokens=count) for read, count in tokens.items()})),
        rows=rows(METRICS),
        wrote=rows(SAMPLES),
        tokens={read.label: count for read, count in tokens.items()},
    )
    found, record = findings_of(made.rows), result.record
    return replace(
        made,
        events=[*_events(made), *(Mark(run=made.name, step=f.step, text=f.kind.value, bad=True) for f in found)],
        findings=[(each.ill, each.sentence()) for each in found],
        profile=f"{store.prefix}/{record.attempt}/{PROFILE}" if record and store.output(record).exists(PROFILE) else "",
    )


def _events(of: Training) -> Iterator[Mark]:
    """Yield planned changes, and settings that changed when the training resumed."""
    for step, size in of.phase.batches[1:] if of.phase is not None else []:
        yield Mark(run=of.name, step=step, text=f"batch {size}")
    for (_, before), (step, shares) in pairwise(of.stages):
        added = sorted(shares.keys() - before.keys())
        yield Mark(run=of.name, step=step, text=f"adds {', '.join(added)}" if added else "shares change")
    for row in of.rows[1:]:  # the first row compares with another run; the table of differences shows that
        if changed := [text for text in row.get("changed", ()) if not text.startswith(PLANNED)]:
            more = f", {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            text = DIGEST.sub(r"\1", "; ".join(changed[:SHOWN])) + more
            yield Mark(run=of.name, step=int(row["step"]), text=text)


def phases(trainings: Iterable[Training], arms: Sequence[str]) -> list[Stretch]:
    """Return the stretches of steps that runs share. A stretch is named for its runs, or for the work of the arms."""
    spans = sorted(grouped((each.span, each.step) for each in trainings).items())
    return [Stretch(first, end, _phase_name(runs, first, arms)) for (first, end), runs in spans]


def _phase_name(runs: list[ExecutorStep[Any]], first: int, arms: Sequence[str]) -> str:
    if not {run.label for run in runs} <= set(arms):
        return ", ".join(run.label for run in runs)
    decays = [run.schedule.decay if isinstance(run, TrainingRun) else None for run in runs]
    cooling = first > 0 and all(decay is not None and decay.start <= first for decay in decays)
    return "cooldown" if cooling else "arms"


# In this order. The plan fixes the first ones; it requests or estimates the rest.
FIXED = ("steps", "tokens", "batch", "learning rate", "data")
COLUMNS = (*FIXED, "machines", "tokens/s", "MFU", "time", "guards", "loss", "gradient norm before clipping")
LONG_CELLS = ("data", "guards")
NAMED = 3  # sources of a mixture
WHOLE = 2  # sequences by which a source may miss its share: one at each end of a stage
TURNS = 6  # values of a learning rate or a batch size, before "…"


def accounts(trainings: Iterable[Training]) -> Iterator[Table]:
    """Yield one table with two rows a training, without columns that are empty for every training."""
    found = [(each, *_account(each)) for each in trainings]
    named = {name for _, *both in found for cells in both for name in cells}
    columns = [name for name in COLUMNS if name in named]
    rows: list[Cells] = []
    for each, planned, happened in found:
        after = f", after {each.phase.after}" if each.phase is not None and each.phase.after else ""
        rows.append(Heading(f"{each.step.label}{after}", arm=each.arm))
        rows.append(["planned", *(planned.get(column, "") for column in columns)])
        rows.append(["actual", *(_happened_cell(planned, happened, column) for column in columns)])
    if columns:
        other = sum(isinstance(cell, Bold) for row in rows if not isinstance(row, Heading) for cell in row)
        yield Table(
            title=f"Plan and outcome: {counted(other, 'difference') if other else 'no difference'}",
            columns=[Column(name) for name in ("", *columns)],
            rows=rows,
            note="Loss in nats per token: at the first step → mean over the last 5 % of the steps. tokens/s and MFU: "
            "medians over steps; planned values are estimates. Time: the steps alone. Data: shares of sequences, "
            f"largest sources. Bold: differs from the plan; for a source, by more than {WHOLE} sequences.",
            folded=True,
        )


def _account(of: Training) -> tuple[dict[str, str], dict[str, str]]:
    """Return (planned, happened): cells by column, without unknown ones."""
    planned = {**(_planned(of.phase) if of.phase is not None else {}), **_machines(of.step)}
    happened = _happened(of.phase, of.rows) if of.rows else {}
    known, as_it_went = ({name: text for name, text in each.items() if text} for each in (planned, happened))
    return known, as_it_went


def _happened_cell(planned: Mapping[str, str], happened: Mapping[str, str], column: str) -> Cell:
    """Return the cell, bold if it differs from a value that the plan fixes. A long cell is not repeated."""
    text, before = happened.get(column, ""), planned.get(column)
    if column in FIXED and text and before is not None and before != text:
        return Bold(text)
    return "as planned" if column in LONG_CELLS and text and text == before else text


def settings(trainings: Iterable[Training]) -> Iterator[Table]:
    """Yield the fields in which the runs differ, then the fields that they share. Mixtures show the data."""
    found: dict[str, dict[str, str]] = {}
    steps = [each.step for each in trainings]
    runs = [step.label for step in steps]
    for step in steps:
        data = {name for name, value in vars(step).items() if isinstance(value, Stages)}
        for name, value in describe_fields(step).items():
            for part, text in _flat(name, value) if name not in data else ():
                found.setdefault(part, {})[step.label] = text
    whole = {name.rpartition(".")[0] for name in found}  # a value that is None in one run and has fields in another
    values = {name: of_runs for name, of_runs in found.items() if name not in whole}
    apart = {name: each for name, each in values.items() if len({each.get(run, "") for run in runs}) > 1}
    if apart:
        rows = [[name, *(each.get(run, "") or "—" for run in runs)] for name, each in apart.items()]
        yield Table(title="Fields that differ", columns=[Column(name) for name in ("field", *runs)], rows=rows)
    if alike := {name: next(iter(each.values())) for name, each in values.items() if name not in apart}:
        yield Table(
            title=f"Trainings: {counted(len(alike), 'field')} that {'they share' if apart else 'are set'}",
            columns=[Column("field"), Column("value")],
            rows=[[name, text or "—"] for name, text in alike.items()],
            folded=True,
        )


def what_they_write(trainings: Iterable[Training]) -> Iterator[Section]:
    """Yield a section of samples if any training has prompts."""
    tables = list[Table]()
    for each in trainings:
        if each.wrote:
            tables.append(written_table(each.name, each.wrote, folded=bool(tables)))
    if tables:
        yield Section(title="Samples", blocks=tables)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _flat(f"{name}.{key}", each)
    else:
        text = "" if value is None else words.fact(value) if not isinstance(value, int) else str(value)
        yield name.replace("_", " "), text.partition("#")[0]


def _planned(phase: Phase) -> dict[str, str]:
    return {
        "steps": f"{phase.first:,}–{phase.end - 1:,}",
        "tokens": write_count(phase.tokens),
        "learning rate": _then(f"{rate:.3g}" for _, rate in phase.rates),
        "batch": _then(f"{size:,}" for _, size in phase.batches),
        "data": "; ".join(_mixture(at, shares, list(shares), phase.first) for at, shares in phase.stages),
        "guards": ", ".join(phase.guards),
    }


def _machines(step: ExecutorStep[Any]) -> dict[str, str]:
    """Return the machines that the step requests. With an accelerator, also the expected speed."""
    accelerator, work = step.resources.accelerator, step.work()
    if accelerator is None or work is None:
        return {"machines": f"{step.resources.cpus:g} CPU"}
    machines, hours = f"{accelerator}, {accelerator.chips:,} chips", training_cost(work.flops, accelerator)
    if hours is None:
        return {"machines": machines}
    seconds = hours / accelerator.chips * 3600
    return {
        "machines": machines,
        "tokens/s": _rounded(work.tokens / seconds),
        "MFU": f"{MFU:.0%}",
        "time": write_duration(seconds),
    }


def _happened(phase: Phase | None, rows: Sequence[Row]) -> dict[str, str]:
    by_step = {int(row["step"]): row for row in rows}
    losses = _column(rows, "loss")
    speeds, utilisation, norms = (_column(rows, name) for name in ("tokens_per_second", "mfu", "grad_norm"))
    sizes = [sum(row["sources"].values()) for row in rows if "sources" in row]
    rates = [row["learning_rate"] for row in rows if "learning_rate" in row]
    last = losses[-max(1, len(losses) // 20) :]  # twentieth of the steps
    found = {
        "steps": f"{min(by_step):,}–{max(by_step):,}",
        "batch": _then(f"{size:,}" for size, _ in groupby(sizes)),
        "learning rate": _then(f"{rate:.3g}" for rate in (rates[:1] + rates[-1:])),
        "machines": _ran_on(rows),
        "tokens/s": _rounded(median(speeds)) if speeds else "",
        "MFU": f"{median(utilisation):.1%}" if utilisation else "",
        "time": write_duration(seconds) if (seconds := math.fsum(_column(rows, "seconds"))) else "",
        "guards": _caught(rows),
        "loss": f"{words.fixed(losses[0], 3)} → {words.fixed(fmean(last), 3)}" if losses else "",
        "gradient norm before clipping": f"≤ {words.fixed(max(norms), 2)}" if norms else "",
    }
    if phase is None:
        return found
    if rates:  # at the turns of the plan, so that the two can be compared
        turns = [by_step[at]["learning_rate"] for at, _ in phase.rates if at in by_step]
        found["learning rate"] = _then(f"{rate:.3g}" for rate in turns)
    if sizes:
        found["tokens"] = write_count(sum(sizes) * phase.seq_len)
        found["data"] = "; ".join(_read(phase, rows))
    return found


def _read(phase: Phase, rows: Sequence[Row]) -> Iterable[str]:
    """Yield the shares that were read, by stage, of the sources that the plan names.

    Shares that differ from the plan by whole sequences only are given as planned.
    """
    for (at, shares), (end, _) in pairwise([*phase.stages, (phase.end, {})]):
        count = Counter[str]()
        for row in rows:
            if at <= row["step"] < end:
                count.update(row.get("sources", {}))
        if total := count.total():
            apart = (abs(count[name] - shares.get(name, 0.0) * total) for name in {**shares, **count})
            read = shares if max(apart) <= WHOLE else {name: n / total for name, n in count.items()}
            yield _mixture(at, read, list(shares), phase.first)


def _mixture(at: int, shares: dict[str, float], names: list[str], first: int) -> str:
    return f"{f'from {at:,}: ' if at > first else ''}{largest(shares, names, NAMED)}"


def _ran_on(rows: Sequence[Row]) -> str:
    """Return the devices of the first process, then the steps at which others resumed, with devices that changed."""
    begun = [(row["step"], row["process"]) for row in rows if "process" in row]
    devices = [(step, f"{process.get('devices', 1):,} × {process['device']}") for step, process in begun]
    if not devices:
        return ""
    (_, first), *later = devices
    resumed = [f"{step:,}{f' on {now}' if now != first else ''}" for step, now in later]
    return f"{first}, resumed at {', '.join(resumed)}" if resumed else first


def _caught(rows: Sequence[Row]) -> str:
    """Return how many updates each active guard changed."""
    there = [name for name in ("clipped", "skipped") if any(name in row for row in rows)]
    return ", ".join(f"{counted(sum(bool(row.get(name)) for row in rows), 'update')} {name}" for name in there)


def _then(texts: Iterable[str]) -> str:
    """Join texts by arrows, without repeating one that follows itself."""
    found = [text for text, _ in groupby(texts)]
    return " → ".join(found if len(found) <= TURNS else [*found[: TURNS - 2], "…", found[-1]])


def _rounded(number: float) -> str:
    return write_count(float(f"{number:.3g}"))


def _column(rows: Sequence[Row], name: str) -> list[float]:
    """Return the measured values, without null (NaN or infinite)."""
    return [row[name] for row in rows if row.get(name) is not None]
