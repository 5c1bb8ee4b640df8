"""The report of a microannealing: verdicts, gains by task, loss apart, noise, flags, and the seeds still needed."""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from marin.errors import BadField
from marin.evaluation.adoption import LEVEL, Decision, decide, disagreement, needs_in_words
from marin.evaluation.answer import signed
from marin.evaluation.contamination import Sets, Sign, contrast
from marin.evaluation.gains import Gain, Measured, gains
from marin.evaluation.groups import Grouping
from marin.evaluation.metric_names import fitting, in_words, measured_as
from marin.evaluation.run_values import NO_GROUPS, LoggedRuns, Runs, logged_tasks, losses, tasks

NOTHING_LOGGED: LoggedRuns = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The settings that the verdicts depend on."""

    control: str
    primary: Sequence[str]  # metrics by name or, ending in "/", by prefix
    margin: float  # see decide
    chances: Mapping[str, float]  # score of a guess: by task, or by metric for metrics that the harness logged
    references: Mapping[str, str]  # by task, items of the same source that nobody trains on
    evidence: Mapping[str, Sequence[str]]  # by arm, why its scores cannot be trusted
    tokens: int  # of one run
    guard: Mapping[str, float]  # how much metrics may lose, by name or prefix; loss may be a guard, too
    chip_hours: float | None = None  # of one run
    groups: Mapping[str, Grouping] = NO_GROUPS  # by task, for metrics that the harness logged


def report(
    runs: Runs, judged: Judged, earlier: Sequence[Runs] = (), logged: LoggedRuns = NOTHING_LOGGED
) -> tuple[dict[str, Any], list[str]]:
    """Return (report.json, headline: a line for each candidate, the noise floor if known, and the note).

    runs: for each arm one run for each seed, in the same order of seeds. earlier: runs of earlier microannealings of
    this family of checkpoints; they help to estimate the spread of seeds. logged: what lm-evaluation-harness logged of
    the same runs.
    Raises BadField for primary metrics or guards that were not measured, and for primary metrics that are loss.
    """
    measured = {one.metric: one for one in tasks(runs, judged.chances)}
    measured |= {one.metric: one for one in (logged_tasks(logged, judged.chances, judged.groups) if logged else ())}
    loss = losses(runs)
    primary = [measured[name] for name in _primary(judged.primary, list(measured), [one.metric for one in loss])]
    guards = _guards(judged, [*measured.values(), *loss], primary)
    before = [{one.metric: one.block() for one in tasks(each, judged.chances)} for each in earlier]
    family = {one.metric: [blocks[one.metric] for blocks in before if one.metric in blocks] for one in primary}
    flags = {arm: [*judged.evidence.get(arm, ()), *_flags(arm, runs, judged, measured, primary)] for arm in runs}
    decisions = decide(primary, judged.control, margin=judged.margin, flags=flags, family=family, guards=guards)
    of_loss = {one.metric.removeprefix("bpb/"): (one, gains(one, judged.control)) for one in loss}
    of_tasks = {name: (one, gains(one, judged.control)) for name, one in measured.items()}
    seeds = len(runs[judged.control])
    made = {
        "control": judged.control,
        "margin": judged.margin,
        "level": LEVEL,
        "seeds": seeds,
        "tokens": judged.tokens,
        "chip_hours": judged.chip_hours,
        "primary": [one.metric for one in primary],
        "guard": {one.metric: may_lose for one, may_lose in guards},
        "noise": {one.metric: next(iter(of_tasks[one.metric][1].values())).noise for one in primary},
        "note": " ".join([note(seeds, len(decisions), len(primary), len(earlier)), *_grouped(primary, guards)]),
        "candidates": {arm: _candidate(arm, one, judged, of_loss, of_tasks) for arm, one in decisions.items()},
        "values": {
            one.metric: {arm: [float(value) for value in one.values(arm)] for arm in runs}
            for one in (*measured.values(), *loss)
        },
    }
    made["noise_floor"] = noise_floor(made["noise"])
    sentences = (found["sentence"] for found in made["candidates"].values())
    return made, [*sentences, *filter(None, [made["noise_floor"]]), made["note"]]


def noise_floor(noise: Mapping[str, float | None]) -> str:
    """Return the noise floor in one sentence; "" if the spread of seeds is unknown."""
    known = [f"{value:.4f} on {in_words(metric)}" for metric, value in noise.items() if value is not None]
    return f"Noise floor: luck of seeds alone passes {', '.join(known)} once in twenty." if known else ""


def note(seeds: int, candidates: int, primary: int, earlier: int) -> str:
    """Return a sentence on the seeds, items and corrections behind the verdicts."""
    if seeds < 2:
        return "One seed an arm: intervals are over items alone, and no verdict is possible."
    spread = f", and from {earlier} earlier of this family" if earlier else ""
    return (
        f"{seeds} seeds an arm, each pair on the same order of data{spread}: intervals are over seeds and items, at "
        f"95 % for {candidates} {'candidates' if candidates > 1 else 'candidate'} (Dunnett) and {primary} primary "
        f"{'metrics' if primary > 1 else 'metric'} (Holm) together."
    )


def _grouped(primary: Sequence[Measured], guards: Sequence[tuple[Measured, float]]) -> list[str]:
    """Return a sentence for each metric whose items are counted in groups."""
    return [
        f"Items of {in_words(one.metric)} of one {one.by} count as one: {one.texts:,} in {len(set(one.groups)):,}."
        for one in dict.fromkeys([*primary, *(one for one, _ in guards)])
        if one.groups
    ]


def _candidate(
    arm: str,
    decision: Decision,
    judged: Judged,
    loss: Mapping[str, tuple[Measured, Mapping[str, Gain]]],
    of_tasks: Mapping[str, tuple[Measured, Mapping[str, Gain]]],
) -> dict[str, Any]:
    held = {task.measured.metric for task in decision.tasks}
    apart = disagreement(decision, {name: (found[arm], LEVEL) for name, (_, found) in loss.items()})
    needs = _needs(decision, judged)
    sentence = f"{arm}: {decision.verdict.upper()}. {decision.because[0].upper()}{decision.because[1:]}."
    return {
        "verdict": decision.verdict.value,
        "because": decision.because,
        "sentence": sentence,
        "flags": [*decision.flags, *decision.of_control],
        "needs": needs,
        "disagreement": apart,
        "tasks": [task.as_json(arm, judged.control) for task in decision.tasks],
        "guards": [guard.as_json() for guard in decision.guards],
        "others": [_row(one, found[arm]) for name, (one, found) in of_tasks.items() if name not in held],
        "loss": [_row(one, found[arm]) for one, found in loss.values()],
    }


def _row(measured: Measured, gain: Gain) -> dict[str, Any]:
    low, high = gain.interval(LEVEL)
    return {
        "metric": measured.metric,
        "unit": measured.unit,
        "gain": gain.value,
        "low": low,
        "high": high,
        "shown": gain.seeds > 1 and gain.p <= LEVEL and not gain.too_few,
    }


def _needs(decision: Decision, judged: Judged) -> dict[str, Any] | None:
    if (needs := decision.needs) is None:
        return None
    seeds = decision.seeds
    runs = 2 * (max(needs.seeds, seeds) - seeds) if needs.seeds is not None else None
    sentence = needs_in_words(needs, seeds)
    tokens = hours = None
    if runs:
        tokens = runs * judged.tokens
        hours = None if judged.chip_hours is None else runs * judged.chip_hours
        cost = f", {hours:,.1f} chip-hours" if hours is not None else ""
        sentence = f"{sentence[:-1]}: {runs} more runs with the control's, {tokens:,} tokens{cost}."
    return {
        "seeds": needs.seeds,
        "items": dict(needs.items),
        "runs": runs,
        "tokens": tokens,
        "chip_hours": hours,
        "sentence": sentence,
    }


def _primary(wanted: Sequence[str], there: list[str], loss: list[str]) -> list[str]:
    for name in wanted:
        if not fitting(name, there) and fitting(name, loss):
            raise BadField(f"Microanneal.primary names {name!r}, which is loss; a verdict goes by tasks")
    return list(dict.fromkeys(each for name in wanted for each in measured_as(name, there, "Microanneal.primary")))


def _guards(judged: Judged, there: Sequence[Measured], primary: Sequence[Measured]) -> list[tuple[Measured, float]]:
    """Return each guard with the most that it may lose: the smallest, if several entries name one metric.

    Primary metrics are left out. Raises BadField for a metric that is named in both."""
    by_name = {one.metric: one for one in there}
    deciding = {one.metric for one in primary}
    found: dict[str, float] = {}
    for name, may_lose in judged.guard.items():
        if name in deciding:
            raise BadField(
                f"Microanneal: {name!r} is primary and guard; drop the guard: a candidate that loses on a "
                "primary metric is not adopted anyway"
            )
        for each in measured_as(name, list(by_name), "Microanneal.guard"):
            found[each] = min(may_lose, found.get(each, may_lose))
    return [(by_name[name], may_lose) for name, may_lose in found.items() if name not in deciding]


def _flags(
    arm: str, runs: Runs, judged: Judged, measured: Mapping[str, Measured], primary: Sequence[Measured]
) -> list[str]:
    """Return why a candidate's scores cannot be trusted, judged from the scores themselves."""
    if arm == judged.control:
        return []
    found: list[str] = []
    for one in primary:
        if one.metric.count("/") != 2:
            continue
        task, _, metric = one.metric.split("/")
        mine = gains(one, judged.control)[arm]
        for other in measured.values():
            if other is one or other.metric.split("/")[::2] != [task, metric]:
                continue
            theirs = gains(other, judged.control)[arm]
            if mine.value > 0 > theirs.value and max(mine.p, theirs.p) <= LEVEL:
                found.append(
                    f"format fragility: better on {in_words(one.metric)} ({signed(mine.value)}), worse on the same "
                    f"items as {in_words(other.metric)} ({signed(theirs.value)})"
                )
    for task, reference in sorted(judged.references.items()):
        found += _member_gaps(arm, runs, judged.control, Sets(task, reference))
    return found


def _member_gaps(arm: str, runs: Runs, control: str, sets: Sets) -> list[str]:
    """Return signs of contamination: test items cost less than reference items do, by more than in the control."""
    pairs = zip(runs[arm], runs[control], strict=True)
    signs = [
        sign
        for mine, theirs in pairs
        if {sets.members, sets.reference} <= {task for task, _ in mine.items}
        for sign in contrast(mine, theirs, sets, control)
        if sign.sign is Sign.CONTAMINATION and sign.flagged and sign.estimate.value > 0
    ]
    if not signs:
        return []
    most = max(signs, key=lambda sign: sign.estimate.z)
    return [f"contamination: {most.name} of {sets.members} is {signed(most.estimate.value)} {most.unit}"]
