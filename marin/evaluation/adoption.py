"""Verdicts on candidates for the training mixture: adopt, reject, equivalent or inconclusive, from task scores."""

# pyright: basic
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from marin.evaluation.answer import signed
from marin.evaluation.gains import MOST_SEEDS, MOST_TIMES, Gain, Measured, Values, gains
from marin.evaluation.metric_names import in_words
from marin.evaluation.statistics import CONFIDENCE, holm, mean
from marin.evaluation.two_parts import FEWEST

DISAGREE = "Loss and tasks disagree"
LEVEL = round(1 - CONFIDENCE, 9)  # rate of false claims, over all candidates and primary tasks together


class Verdict(StrEnum):
    """The verdict on a candidate.

    ADOPT: better on a primary task and worse on none. REJECT: worse on a primary task and better on none, or a guard
    lost more than it may. EQUIVALENT: closer to the control than the margin on every primary task. INCONCLUSIVE: none
    of these was shown, or a guard is not shown to be kept, or the scores cannot be trusted."""

    ADOPT = "adopt"
    REJECT = "reject"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskGain:
    """The gain of a candidate on one primary metric.

    level: the significance level that Holm's correction gives this metric. shown: the gain is significant there."""

    measured: Measured
    gain: Gain
    level: float
    shown: bool
    within: bool  # the whole interval lies within the margin
    guessed: bool  # no arm was above chance

    @property
    def better(self) -> bool:
        return self.shown and self.gain.value > 0

    @property
    def worse(self) -> bool:
        return self.shown and self.gain.value < 0

    @property
    def wording(self) -> str:
        """Return "gsm (OLMES prompts) (+0.012, −0.003 to +0.027)". More is better for every metric."""
        return _numbers(self.measured, self.gain, self.level)

    def as_json(self, candidate: str, control: str) -> dict[str, Any]:
        low, high = self.gain.interval(self.level)
        return {
            "metric": self.measured.metric,
            "unit": self.measured.unit,
            "higher_is_better": self.measured.higher_is_better,
            "control": [float(one) for one in self.measured.values(control)],
            "candidate": [float(one) for one in self.measured.values(candidate)],
            "gain": self.gain.value,
            "low": low,
            "high": high,
            "p": self.gain.p,
            "level": self.level,
            "shown": self.shown,
            "within_margin": self.within,
            "at_chance": self.guessed,
            "detectable": self.gain.detectable(self.level),
            "noise": self.gain.noise,
            "seeds": self.gain.seeds,
            "items": self.measured.texts,
            "groups": self.gain.texts if self.measured.groups else None,
            "grouped_by": self.measured.by,
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Guard:
    """A metric of a candidate that may lose no more than its margin.

    A guard is kept if its whole interval at LEVEL shows that it lost no more than that. A candidate is adopted only if
    all guards are kept. So each guard is tested at LEVEL itself: more guards make no false adoption likelier (Berger,
    Technometrics 24, 1982, p. 295).
    """

    measured: Measured
    gain: Gain
    margin: float
    guessed: bool  # no arm was above chance, so there is nothing to lose

    @property
    def kept(self) -> bool:
        return self.guessed or (self.gain.texts >= FEWEST and self.gain.interval(LEVEL)[0] > -self.margin)

    @property
    def broken(self) -> bool:
        return not self.guessed and not self.gain.too_few and self.gain.interval(LEVEL)[1] < -self.margin

    @property
    def wording(self) -> str:
        return f"{_numbers(self.measured, self.gain, LEVEL)}, which may lose {self.margin:g}"

    def as_json(self) -> dict[str, Any]:
        low, high = self.gain.interval(LEVEL)
        return {
            "metric": self.measured.metric,
            "unit": self.measured.unit,
            "gain": self.gain.value,
            "low": low,
            "high": high,
            "margin": self.margin,
            "kept": self.kept,
            "broken": self.broken,
            "at_chance": self.guessed,
        }


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The seeds and items with which an experiment would show a gain or loss 4 times in 5."""

    shows: str  # the claim to show, in words
    seeds: int | None  # None: no number of seeds suffices
    items: Mapping[str, int]  # by metric, where more items are needed than there are


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The verdict on one candidate.

    flags: why the candidate's scores cannot be trusted. of_control: why the control's scores cannot be trusted.
    would_be: the verdict without these doubts."""

    verdict: Verdict
    would_be: Verdict
    tasks: Sequence[TaskGain]
    guards: Sequence[Guard]
    margin: float
    flags: Sequence[str]
    of_control: Sequence[str]

    @property
    def judged(self) -> list[TaskGain]:
        return [task for task in self.tasks if not task.guessed]

    @property
    def is_trade(self) -> bool:
        return any(task.better for task in self.judged) and any(task.worse for task in self.judged)

    @property
    def seeds(self) -> int:
        return self.tasks[0].gain.seeds

    @property
    def because(self) -> str:
        """Return the reason for the verdict in one sentence."""
        shown = self._because()
        if self.verdict is self.would_be:
            return shown
        parts = "; ".join([*self.of_control, *self.flags])
        return f"it would be {self.would_be.upper()} ({shown}), but the scores cannot be trusted: {parts}"

    def _because(self) -> str:
        judged, margin = self.judged, f"{self.margin:g}"
        if not judged:
            names = ", ".join(in_words(task.measured.metric) for task in self.tasks)
            return f"no run of any arm is above chance on {names}, so they cannot decide"
        if self.seeds < 2:
            return "one seed cannot tell a difference from the luck of that seed"
        better, worse = [task for task in judged if task.better], [task for task in judged if task.worse]
        if broken := [guard for guard in self.guards if guard.broken]:
            though = f", though better on {_named(better)}" if better else ""
            return f"a guard lost more than it may: {_named(broken)}{though}"
        if self.is_trade:
            return f"a trade: better on {_named(better)}, worse on {_named(worse)}; more seeds cannot say which matters"
        if better or worse:
            others = [task for task in judged if not task.shown]
            rest = f"; nothing shown on {_named(others)}" if others else ""
            return f"{'better' if better else 'worse'} on {_named(better or worse)}{rest}{self._guarded(better)}"
        if all(task.within for task in judged):
            return f"closer to the control than {margin} on {_named(judged)}{self._guarded(judged)}"
        unclear = [task for task in judged if not task.within]
        if few := [task for task in unclear if task.gain.too_few and task.gain.p <= task.level]:
            return "; ".join(f"{task.gain.too_few}: {task.wording}" for task in few)
        return f"neither a difference nor equivalence is shown on {_named(unclear)}"

    def _guarded(self, of: Sequence[TaskGain]) -> str:
        """Return the end of a sentence that would otherwise adopt the candidate: the guards not shown to be kept."""
        unclear = [guard for guard in self.guards if not guard.kept]
        return f"; these guards are not shown to be kept: {_named(unclear)}" if of and unclear else ""

    @property
    def needs(self) -> Needs | None:
        """Return the seeds and items that the most demanding task or guard needs; None if more would settle nothing."""
        settled = any(task.shown for task in self.judged)
        unclear = [] if settled else [task for task in self.judged if not task.within]
        guards = [guard for guard in self.guards if not guard.kept] if self.judged else []
        if (
            self.verdict is not Verdict.INCONCLUSIVE
            or self.would_be is not self.verdict
            or self.is_trade
            or not (unclear or guards)
        ):
            return None
        words = [f"a difference of {self.margin:g}"] if unclear else []
        words += [f"that {in_words(guard.measured.metric)} lost no more than {guard.margin:g}" for guard in guards]
        shows = " and ".join(words)
        if self.seeds < 2 or not all(each.gain.spread_freedom for each in (*unclear, *guards)):
            return Needs(shows=shows, seeds=3, items={})  # with fewer, the spread of seeds is unknown
        asked = [(task, task.gain.needed(self.margin, task.level)) for task in unclear]
        asked += [(guard, guard.gain.needed(guard.margin, LEVEL)) for guard in guards]
        seeds = [needed[0] for _, needed in asked if needed is not None]
        return Needs(
            shows=shows,
            seeds=max(seeds) if len(seeds) == len(asked) else None,
            items={
                each.measured.metric: needed[1]
                for each, needed in asked
                if needed is not None and needed[1] > each.gain.texts
            },
        )


def decide(
    primary: Sequence[Measured],
    control: str,
    *,
    margin: float,
    flags: Mapping[str, Sequence[str]],
    family: Mapping[str, Sequence[Values]],
    guards: Sequence[tuple[Measured, float]] = (),
) -> dict[str, Decision]:
    """Return the decision on each candidate.

    The chance to adopt any candidate that changes nothing is at most 5 %: Dunnett's test corrects for the candidates
    within a task, Holm's for the tasks.

    margin: gains and losses smaller than this do not matter, in the unit of the metrics. flags: by arm, why its scores
    cannot be trusted; flags of the control count for every candidate. family: by metric, see ``gains``. guards: each
    metric with the most that it may lose.
    """
    kept = [
        (one, may_lose, at_chance(one), gains(one, control, family.get(one.metric, ()))) for one, may_lose in guards
    ]
    found = [(measured, gains(measured, control, family.get(measured.metric, ()))) for measured in primary]
    guessed = {measured.metric for measured in primary if at_chance(measured)}
    candidates = [arm for arm in primary[0].amounts if arm != control]
    made: dict[str, Decision] = {}
    for arm in candidates:
        judged = [(measured, of[arm]) for measured, of in found if measured.metric not in guessed]
        held = dict(zip((each.metric for each, _ in judged), _held([gain.p for _, gain in judged]), strict=True))
        tasks = [
            TaskGain(
                measured=measured,
                gain=of[arm],
                level=level,
                shown=shown and of[arm].seeds > 1 and not of[arm].too_few,
                within=of[arm].within(margin, level),
                guessed=measured.metric in guessed,
            )
            for measured, of in found
            for shown, level in [held.get(measured.metric, (False, LEVEL))]
        ]
        guarded = [
            Guard(measured=measured, gain=of[arm], margin=may_lose, guessed=guess)
            for measured, may_lose, guess, of in kept
        ]
        made[arm] = _decision(tasks, guarded, margin, flags.get(arm, ()), flags.get(control, ()))
    return made


def _held(chances: Sequence[float]) -> list[tuple[bool, float]]:
    """Return for each task whether Holm rejects "as the control", and a level at which p alone decides the same."""
    return [
        (adjusted <= LEVEL, LEVEL * p / adjusted if adjusted else LEVEL / len(chances))
        for p, adjusted in zip(chances, holm(chances), strict=True)
    ]


def at_chance(measured: Measured) -> bool:
    """Return whether no arm is above a guess, one-sided at 2.5 % over items."""
    if measured.chance is None:
        return False
    grouped = measured.grouped()
    lows = [mean((runs.mean(axis=0) / grouped.sizes).tolist()).low for runs in grouped.amounts.values()]
    return max(lows) <= measured.chance


def _decision(
    tasks: Sequence[TaskGain], guards: Sequence[Guard], margin: float, flags: Sequence[str], of_control: Sequence[str]
) -> Decision:
    judged = [task for task in tasks if not task.guessed]
    better, worse = any(task.better for task in judged), any(task.worse for task in judged)
    if not judged or judged[0].gain.seeds < 2:
        would_be = Verdict.INCONCLUSIVE
    elif any(guard.broken for guard in guards) or (worse and not better):
        would_be = Verdict.REJECT
    elif (better and worse) or not all(guard.kept for guard in guards):
        would_be = Verdict.INCONCLUSIVE
    elif better:
        would_be = Verdict.ADOPT
    else:
        would_be = Verdict.EQUIVALENT if all(task.within for task in judged) else Verdict.INCONCLUSIVE
    # Reading test items can only help a score: a candidate that is worse all the same is worse.
    spoilt = of_control or (flags and would_be is not Verdict.REJECT)
    return Decision(
        verdict=Verdict.INCONCLUSIVE if spoilt else would_be,
        would_be=would_be,
        tasks=tasks,
        guards=guards,
        margin=margin,
        flags=flags,
        of_control=of_control,
    )


def needs_in_words(needs: Needs, seeds: int) -> str:
    """Return the needs in one sentence, without tokens and chip-hours."""
    if needs.seeds is None:
        return (
            f"{needs.shows[0].upper()}{needs.shows[1:]} would not be shown by {MOST_SEEDS} seeds on {MOST_TIMES} times "
            "the items: take a larger margin, longer runs or a smoother metric."
        )
    more = needs.seeds - seeds
    parts = [f"{needs.seeds} seeds ({more} more an arm)"] if more > 0 else []
    parts += [f"{count:,} items of {in_words(metric)}" for metric, count in sorted(needs.items.items())]
    wanted = " and ".join(parts) or "as many seeds again"
    return f"To show {needs.shows} 4 times in 5 takes {wanted}."


def _named(tasks: Sequence[TaskGain] | Sequence[Guard]) -> str:
    return ", ".join(task.wording for task in tasks)


def _numbers(measured: Measured, gain: Gain, level: float) -> str:
    low, high = gain.interval(level)
    return f"{in_words(measured.metric)} ({signed(gain.value)}, {signed(low)} to {signed(high)})"


def disagreement(decision: Decision, loss: Mapping[str, tuple[Gain, float]]) -> str:
    """Return the sentence that says how loss and tasks disagree; "" if they agree.

    loss: by domain, the gain (positive for less loss) and its significance level.
    """
    shown = {name: gain.value for name, (gain, level) in loss.items() if gain.seeds > 1 and gain.p <= level}
    lower, higher = sorted(n for n in shown if shown[n] > 0), sorted(n for n in shown if shown[n] < 0)
    judged = [task for task in decision.tasks if not task.guessed and task.gain.seeds > 1]
    better, worse = any(task.better for task in judged), any(task.worse for task in judged)
    if lower and worse and not better:
        return (
            f"Loss and tasks disagree: loss is lower on {', '.join(lower)}, tasks are worse. The verdict goes by tasks."
        )
    if higher and better and not worse:
        return f"{DISAGREE}: loss is higher on {', '.join(higher)}, tasks are better. The verdict goes by tasks."
    if lower and not better:
        return f"Loss is lower on {', '.join(lower)}, and no task shows it."
    return ""
