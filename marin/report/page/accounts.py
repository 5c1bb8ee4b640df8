"""What trainings planned against what happened, from their fields and the rows of their metrics; and their settings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import Any, cast

from marin.data.mixture import Stages
from marin.plan.missing import describe_fields
from marin.report import units
from marin.report.page.trainings import Row, Training
from marin.report.phases import Phase, largest
from marin.report.section import Bold, Cell, Column, Heading, Table
from marin.report.section import Row as Cells
from marin.steps.resources import MFU, training_cost
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, write_count, write_duration

# In this order. What a plan fixes; the rest it asks for, or estimates.
FIXED = ("steps", "tokens", "batch", "learning rate", "data")
COLUMNS = (*FIXED, "machines", "tokens/s", "MFU", "time", "guards", "loss", "gradient norm before clipping")
LONG_CELLS = ("data", "guards")
NAMED = 3  # sources of a mixture
WHOLE = 2  # sequences of a source by which what is drawn may miss its share: one at each end of a stage
TURNS = 6  # of a rate or a batch


def accounts(trainings: Iterable[Training]) -> Iterator[Table]:
    """One table: a training in two rows, without columns that nobody knows anything of."""
    found = [(each, *_account(each)) for each in trainings]
    named = {name for _, *both in found for cells in both for name in cells}
    columns = [name for name in COLUMNS if name in named]
    rows: list[Cells] = []
    for each, planned, happened in found:
        after = f", after {each.phase.after}" if each.phase is not None and each.phase.after else ""
        rows.append(Heading(f"{each.step.label}{after}", arm=each.arm))
        rows.append(["planned", *(planned.get(column, "") for column in columns)])
        rows.append(["happened", *(_happened_cell(planned, happened, column) for column in columns)])
    if columns:
        other = sum(isinstance(cell, Bold) for row in rows if not isinstance(row, Heading) for cell in row)
        yield Table(
            title=f"Planned, and what happened: {counted(other, 'cell') if other else 'nothing'} not as planned",
            columns=[Column(name) for name in ("", *columns)],
            rows=rows,
            note="Loss in nats per token, of the first step and the mean of the last twentieth of them. tokens/s and "
            "MFU: medians over steps; as planned, an estimate. Time: of the steps alone. Data: share of sequences, of "
            f"the largest sources. Bold: not as planned, of a source by more than {WHOLE} sequences.",
            folded=True,
        )


def _account(of: Training) -> tuple[dict[str, str], dict[str, str]]:
    """(planned, happened); cells by column, without those that nobody knows."""
    planned = {**(_planned(of.phase) if of.phase is not None else {}), **_machines(of.step)}
    happened = _happened(of.phase, of.rows) if of.rows else {}
    known, as_it_went = ({name: text for name, text in each.items() if text} for each in (planned, happened))
    return known, as_it_went


def _happened_cell(planned: Mapping[str, str], happened: Mapping[str, str], column: str) -> Cell:
    """Bold where a plan fixes it and it came otherwise; a long one says nothing twice."""
    text, before = happened.get(column, ""), planned.get(column)
    if column in FIXED and text and before is not None and before != text:
        return Bold(text)
    return "as planned" if column in LONG_CELLS and text and text == before else text


def settings(trainings: Iterable[Training]) -> Iterator[Table]:
    """Fields of the runs but their data, which the mixtures show: those in which they differ, then the rest."""
    found: dict[str, dict[str, str]] = {}
    steps = [each.step for each in trainings]
    runs = [step.label for step in steps]
    for step in steps:
        data = {name for name, value in vars(step).items() if isinstance(value, Stages)}
        for name, value in describe_fields(step).items():
            for part, text in _flat(name, value) if name not in data else ():
                found.setdefault(part, {})[step.label] = text
    whole = {name.rpartition(".")[0] for name in found}  # None in one run, with fields in another
    values = {name: of_runs for name, of_runs in found.items() if name not in whole}
    apart = {name: each for name, each in values.items() if len({each.get(run, "") for run in runs}) > 1}
    if apart:
        rows = [[name, *(each.get(run, "") or "—" for run in runs)] for name, each in apart.items()]
        yield Table(title="What the runs differ in", columns=[Column(name) for name in ("field", *runs)], rows=rows)
    if alike := {name: next(iter(each.values())) for name, each in values.items() if name not in apart}:
        yield Table(
            title=f"{counted(len(alike), 'field')} that {'they share' if apart else 'are set'}",
            columns=[Column("field"), Column("value")],
            rows=[[name, text or "—"] for name, text in alike.items()],
            folded=True,
        )


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, Any]", value).items():
            yield from _flat(f"{name}.{key}", each)
    else:
        text = "" if value is None else units.fact(value) if not isinstance(value, int) else str(value)
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
    """What it asks for; with an accelerator, how fast that should be."""
    accelerator, work = step.resources.accelerator, step.work()
    if accelerator is None or work is None:
        return {"machines": f"{step.resources.cpus:g} CPU"}
    seconds = training_cost(work.flops, accelerator) / accelerator.chips * 3600
    return {
        "machines": f"{accelerator}, {accelerator.chips:,} chips",
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
    found = {
        "steps": f"{min(by_step):,}–{max(by_step):,}",
        "batch": _then(f"{size:,}" for size, _ in groupby(sizes)),
        "learning rate": _then(f"{rate:.3g}" for rate in (rates[:1] + rates[-1:])),
        "machines": _ran_on(rows),
        "tokens/s": _rounded(median(speeds)) if speeds else "",
        "MFU": f"{median(utilisation):.1%}" if utilisation else "",
        "time": write_duration(seconds) if (seconds := math.fsum(_column(rows, "seconds"))) else "",
        "guards": _caught(rows),
        "loss": f"{units.fixed(losses[0], 3)} → {units.fixed(final_loss(losses), 3)}" if losses else "",
        "gradient norm before clipping": f"≤ {units.fixed(max(norms), 2)}" if norms else "",
    }
    if phase is None:
        return found
    if rates:  # where the plan turns, so that the two can be compared
        turns = [by_step[at]["learning_rate"] for at, _ in phase.rates if at in by_step]
        found["learning rate"] = _then(f"{rate:.3g}" for rate in turns)
    if sizes:
        found["tokens"] = write_count(sum(sizes) * phase.seq_len)
        found["data"] = "; ".join(_read(phase, rows))
    return found


def final_loss(losses: Sequence[float]) -> float:
    """The mean over the last twentieth of the steps."""
    return fmean(losses[-max(1, len(losses) // 20) :])


def _read(phase: Phase, rows: Sequence[Row]) -> Iterable[str]:
    """The shares that were read, stage by stage, of those sources that the plan names; the plan's, but for whole
    sequences."""
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
    """The devices of each process that made rows; the first by itself, later ones with the step they went on from."""
    begun = [(row["step"], row["process"]) for row in rows if "process" in row]
    devices = [(step, f"{process.get('devices', 1):,} × {process['device']}") for step, process in begun]
    if not devices:
        return ""
    (_, first), *later = devices
    resumed = [f"{step:,}{f' on {now}' if now != first else ''}" for step, now in later]
    return f"{first}, resumed at {', '.join(resumed)}" if resumed else first


def _caught(rows: Sequence[Row]) -> str:
    """What the guards that were on did."""
    there = [name for name in ("clipped", "skipped") if any(name in row for row in rows)]
    return ", ".join(f"{counted(sum(bool(row.get(name)) for row in rows), 'update')} {name}" for name in there)


def _then(texts: Iterable[str]) -> str:
    """One after the other, without what says the same again."""
    found = [text for text, _ in groupby(texts)]
    return " → ".join(found if len(found) <= TURNS else [*found[: TURNS - 2], "…", found[-1]])


def _rounded(number: float) -> str:
    return write_count(float(f"{number:.3g}"))


def _column(rows: Sequence[Row], name: str) -> list[float]:
    """What was measured; null is NaN or infinite."""
    return [row[name] for row in rows if row.get(name) is not None]
