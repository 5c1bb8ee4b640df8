"""What a training planned against what happened, by column: from its fields, and from the rows of its metrics."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import Any

from marin.report.page import units
from marin.report.page.model import Account
from marin.report.page.trainings import arm_of
from marin.report.phases import Phase, phase_of
from marin.steps.resources import MFU, training_cost
from marin.steps.step import ExecutorStep
from marin.store.numbers import write_count, write_duration

NAMED = 3  # sources of a mixture
TURNS = 6  # of a rate or a batch
type Row = dict[str, Any]


def account(step: ExecutorStep[Any], rows: Sequence[Row], arms: list[str]) -> Account:
    """Of one training; what happened has no cells where no metrics were written."""
    phase = phase_of(step)
    return Account(
        name=step.label,
        arm=arm_of(step, arms),
        after=phase.after if phase is not None else "",
        planned=_known({**(_planned(phase) if phase is not None else {}), **_machines(step)}),
        happened=_known(_happened(phase, rows)) if rows else {},
    )


def _planned(phase: Phase) -> dict[str, str]:
    return {
        "steps": _steps(phase.first, phase.end - 1),
        "tokens": write_count(phase.tokens),
        "learning rate": _then(_rate(rate) for _, rate in phase.rates),
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
        "steps": _steps(min(by_step), max(by_step)),
        "batch": _then(f"{size:,}" for size, _ in groupby(sizes)),
        "learning rate": _then(_rate(rate) for rate in (rates[:1] + rates[-1:])),
        "machines": _ran_on(rows),
        "tokens/s": _rounded(median(speeds)) if speeds else "",
        "MFU": f"{median(utilisation):.1%}" if utilisation else "",
        "time": write_duration(seconds) if (seconds := math.fsum(_column(rows, "seconds"))) else "",
        "guards": _caught(rows),
        "loss": f"{units.fixed(losses[0], 3)} → {units.fixed(final_loss(losses), 3)}" if losses else "",
        "gradient norm": f"≤ {units.fixed(max(norms), 2)}" if norms else "",
    }
    if phase is None:
        return found
    if rates:  # where the plan turns, so that the two can be compared
        turns = [by_step[at]["learning_rate"] for at, _ in phase.rates if at in by_step]
        found["learning rate"] = _then(_rate(rate) for rate in turns)
    if sizes:
        found["tokens"] = write_count(sum(sizes) * phase.seq_len)
        found["data"] = "; ".join(_read(phase, rows))
    return found


def final_loss(losses: Sequence[float]) -> float:
    """The mean over the last twentieth of the steps."""
    return fmean(losses[-max(1, len(losses) // 20) :])


def _read(phase: Phase, rows: Sequence[Row]) -> Iterable[str]:
    """The shares that were read, stage by stage, of those sources that the plan names."""
    for (at, shares), (end, _) in pairwise([*phase.stages, (phase.end, {})]):
        count = Counter[str]()
        for row in rows:
            if at <= row["step"] < end:
                count.update(row.get("sources", {}))
        if total := count.total():
            yield _mixture(at, {name: n / total for name, n in count.items()}, list(shares), phase.first)


def _mixture(at: int, shares: dict[str, float], names: list[str], first: int) -> str:
    named = ", ".join(f"{name} {shares.get(name, 0.0):.1%}" for name in names[:NAMED])
    more = f", {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{f'from {at:,}: ' if at > first else ''}{named}{more}"


def _ran_on(rows: Sequence[Row]) -> str:
    """The devices of each process that made rows; the first by itself, later ones with the step they went on from."""
    begun = [(row["step"], row["process"]) for row in rows if "process" in row]
    if not begun:
        return ""
    devices = [f"{process.get('devices', 1):,} × {process['device']}" for _, process in begun]
    resumed = [
        f"{step:,}{f' on {now}' if now != devices[0] else ''}" for (step, _), now in zip(begun, devices, strict=True)
    ]
    return devices[0] + (f", resumed at {', '.join(resumed[1:])}" if len(begun) > 1 else "")


def _caught(rows: Sequence[Row]) -> str:
    """What the guards that were on did."""
    there = [name for name in ("clipped", "skipped") if any(name in row for row in rows)]
    return ", ".join(f"{sum(bool(row.get(name)) for row in rows):,} {name}" for name in there)


def _steps(first: int, last: int) -> str:
    return f"{first:,}–{last:,}"


def _rate(rate: float) -> str:
    return f"{rate:.3g}"


def _then(texts: Iterable[str]) -> str:
    """One after the other, without what says the same again."""
    found = [text for text, _ in groupby(texts)]
    return " → ".join(found if len(found) <= TURNS else [*found[: TURNS - 2], "…", found[-1]])


def _rounded(number: float) -> str:
    return write_count(float(f"{number:.3g}"))


def _column(rows: Sequence[Row], name: str) -> list[float]:
    """What was measured; null is NaN or infinite."""
    return [row[name] for row in rows if row.get(name) is not None]


def _known(cells: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in cells.items() if text}
