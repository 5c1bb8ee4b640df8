"""Find faults of a run from its metrics alone, and describe them in plain English with steps and nearby changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np

from marin.training.health import trends
from marin.training.health.curves import Curve, Rows, changes_of, curve
from marin.training.health.level_shift import Shift, shifts, size_at
from marin.training.health.order import waves
from marin.training.health.spikes import Fate, Spike, spikes

NEAR = 10  # steps before a finding; a change within them may be the cause
ONE = 60  # steps; the estimate of a shift's first step moves while the run goes on
DEEP = 0.2  # of the peak rate
MOST = 5  # spikes to report one by one
RATE = "learning rate: "  # begins a change that does not break the loss curve
CLIMBING = ("warmup", "rewarmup")  # phases
STANDS_STILL = "the held-out loss does not: the data of the training changed, or its order; not the weights"
UNCLEAR = "the held-out loss moves by {:+.3f} with a standard error of {:.3f}, which is too little to tell"
BY_ITS_BATCH = 3  # steps; a longer spike hurt the weights


class Kind(Enum):
    """The kinds of findings."""

    DIVERGED = "diverged"
    SPIKE = "spike"
    SHIFT = "level shift"
    RISE = "rising loss"
    ORDER = "data order"
    NORM = "norm growth"
    NORMALIZER = "log Z"
    AVERAGE = "EMA gap"
    SLOW = "throughput"
    LOADER = "loader"


OF_THE_LOSS = {Kind.DIVERGED, Kind.SPIKE, Kind.SHIFT, Kind.RISE, Kind.ORDER}


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A fault, or an event of note. ill: whether somebody should act; if not, it is over, or was planned."""

    kind: Kind
    step: int  # where it begins
    end: int  # its last step
    ill: bool
    text: str  # a sentence
    causes: tuple[str, ...] = ()  # changes nearby, and evidence for a reason

    def sentence(self) -> str:
        return f"{self.text}{f' — {"; ".join(self.causes)}' if self.causes else ''}"

    def is_like(self, other: Finding) -> bool:
        """Return whether the two are one finding, seen at different times."""
        alike = self.kind is other.kind or {self.kind, other.kind} <= OF_THE_LOSS
        return alike and other.step - ONE <= self.step <= other.end + ONE

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value}


def findings(rows: Rows) -> list[Finding]:
    """Return all findings of a run, in order of steps; none for a healthy run.

    rows: lines of metrics.jsonl, in order. Lines of older versions have fewer values, and allow fewer findings.
    """
    if not rows:
        return []
    run = _Run(rows)
    found = [
        *run.diverged(), *run.spikes(), *run.rises(), *run.shifts(), *run.order(), *run.norms(), *run.normalizer(),
        *run.average(), *run.speed(),
    ]  # fmt: skip
    return sorted(found, key=lambda each: each.step)


class _Run:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._by_step = {row["step"]: row for row in rows}
        self._changes = changes_of(rows)
        self._loss = curve(rows, "loss")
        self._held_out = curve(rows, "held_out/macro_loss")
        self._held_out = Curve(self._held_out.step + 1, self._held_out.value)  # of the weights after that step
        self._breaks = [at for at, texts in self._changes.items() if any(not each.startswith(RATE) for each in texts)]
        self._spikes = spikes(self._loss, curve(rows, "grad_norm"), sorted(self._changes), self._breaks)
        self._rate = curve(rows, "learning_rate")
        self._lasting = [each.start for each in self._spikes if each.became is not Fate.RECOVERED]
        self._quiet = self._loss.without([(each.start - 1, each.end + 20) for each in self._spikes])
        self._climbs = [*self._rising(self._quiet)]

    def diverged(self) -> list[Finding]:
        """Return a finding if rows have values that are not finite."""
        bad = [row for row in self._rows if row.get("non_finite")]
        if not bad:
            return []
        first = bad[0]
        what = ", ".join(f"{name} is {held}" for name, held in first["non_finite"].items())
        text = f"Step {first['step']:,}: {what}."
        return [self._found(Kind.DIVERGED, first["step"], bad[-1]["step"], True, text, self._unguarded(first["step"]))]

    def spikes(self) -> list[Finding]:
        real = [each for each in self._spikes if not self._is_meant(each)]
        worst = sorted(real, key=lambda each: (each.became is Fate.RECOVERED, -each.height))[:MOST]
        found = [self._spike(each) for each in sorted(worst, key=lambda each: each.start)]
        if rest := [each for each in real if each not in worst]:
            text = (
                f"{len(rest)} more spikes between steps {rest[0].start:,} and {rest[-1].end:,}, all lower or recovered."
            )
            found.append(self._found(Kind.SPIKE, rest[0].start, rest[-1].end, False, text))
        recovered = [each for each in real if each.became is Fate.RECOVERED]
        if len(real) >= MOST and recovered:
            text = f"{len(real)} spikes in {len(self._rows):,} steps: this run is unstable, even where one recovered."
            found.append(
                self._found(Kind.SPIKE, real[0].start, real[-1].end, True, text, self._unguarded(real[0].start))
            )
        return found

    def rises(self) -> list[Finding]:
        """Find slow climbs of the training loss, with or without the held-out loss, and of the held-out loss alone."""
        found = [self._rise(each) for each in self._climbs]
        for each in self._rising(self._held_out):
            if any(one.step <= each.end and each.step <= one.end for one in self._climbs):
                continue
            text = (
                f"The held-out loss rises by {each.after - each.before:.3f} between steps {each.step:,} and "
                f"{each.end:,}, and the training loss does not."
            )
            causes = ["the run learns its own text by heart, or its data has moved away from the held-out text"]
            found.append(self._found(Kind.RISE, each.step, each.end, True, text, causes))
        return found

    def _rising(self, held: Curve) -> Iterable[trends.Growth]:
        """Yield slow climbs of a loss, except while the learning rate climbs: a rise is expected then."""
        for part in self._parts(held, self._lasting):
            each = trends.rises(part)
            if each is not None and self._by_step.get(each.step, {}).get("phase") not in CLIMBING:
                yield each

    def _rise(self, each: trends.Growth) -> Finding:
        span, size = f"between steps {each.step:,} and {each.end:,}", each.after - each.before
        text = f"The training loss rises by {size:.3f} {span}"
        beside = trends.change(self._held_out.between(-np.inf, each.end + 2), each.step)
        if beside is None:
            causes = ["no held-out loss was measured (Watch), so the cause stays open"]
        elif (seen := trends.is_shared(*beside, size)) is None:
            causes = [UNCLEAR.format(*beside)]
        elif seen:
            text += f", and the held-out loss with it, by {beside[0]:.3f}"
            causes = ["the weights, or what updates them: look at the norms and log Z", *self._went(each.step)]
        else:
            causes = [STANDS_STILL]
        return self._found(Kind.RISE, each.step, each.end, True, f"{text}.", causes)

    def shifts(self) -> list[Finding]:
        """Find level shifts of the training loss, between planned changes, and of the held-out loss."""
        found = [
            self._shift(shift, part)
            for part, shift in self._shifts()
            if not any(
                abs(shift.step - each.start) <= 40 or each.start <= shift.step <= each.end for each in self._spikes
            )
        ]
        known = [each.step for each in found] + [each.start for each in self._spikes] + sorted(self._changes)
        for step, size in trends.jumps(self._held_out):
            if not any(abs(step - each) <= 60 for each in known):
                text = f"The held-out loss moves by {size:+.3f} at step {step:,}, and the training loss does not."
                causes = ["the weights or the text that is held out changed, not the order of the data"]
                found.append(self._found(Kind.SHIFT, step, step, size > 0, text, causes))
        return found

    def order(self) -> list[Finding]:
        """Find batch losses that depend on each other. The held-out loss tells the data order from the weights."""
        known = [*self._lasting, *(shift.step for _, shift in self._shifts()), *(each.step for each in self._climbs)]
        for part in self._parts(self._quiet, known):
            if (wave := waves(part, self._rate)) is None:
                continue
            looked = self._held_out.between(part.step[0], part.step[-1] + 2)
            alone = (
                len(looked) >= trends.LEAST and waves(looked) is None and waves(part, self._rate, looked) is not None
            )
            first, last = int(part.step[0]), int(part.step[-1])
            text = (
                f"The losses of steps {first:,} to {last:,} depend on each other (correlation "
                f"{wave.correlation:+.2f} over {wave.lag} step{'s' if wave.lag > 1 else ''}, z {wave.z:.0f}): "
                f"the batches are not drawn independently, {wave.pattern}."
            )
            if alone:
                causes = ["the held-out loss does not move so: it is the order of the data, not the weights"]
            else:
                causes = ["the order of the data, or weights that swing; held-out rows (Watch) would tell which"]
            return [Finding(kind=Kind.ORDER, step=first, end=last, ill=True, text=text, causes=tuple(causes))]
        return []

    def norms(self) -> list[Finding]:
        found: list[Finding] = []
        for name in [name for name in self._names() if name.startswith("norm/")]:
            if (growth := trends.outgrows(curve(self._rows, name), self._rate)) is not None:
                what = {
                    "norm/lm_head": "the head",
                    "norm/model": "all weights",
                    "norm/embeddings": "the embeddings",
                }.get(name, name.removeprefix("norm/").replace("/", " "))
                text = (
                    f"The norm of {what} grows from {growth.before:.4g} to {growth.after:.4g} from step "
                    f"{growth.step:,} on, {growth.times:.0f} times faster for its learning rate than before."
                )
                found.append(self._found(Kind.NORM, growth.step, growth.end, True, text, self._unguarded(growth.step)))
        updates = trends.relative(curve(self._rows, "update_norm"), self._rate)
        for name, norm in (
            ("grad norm", curve(self._rows, "grad_norm")), ("update norm, relative to the learning rate,", updates),
        ):  # fmt: skip
            if (growth := trends.multiplies(norm)) is not None:
                text = (
                    f"The {name} rises from {growth.before:.3g} to {growth.after:.3g} between steps "
                    f"{growth.step:,} and {growth.end:,}."
                )
                found.append(self._found(Kind.NORM, growth.step, growth.end, True, text, self._unguarded(growth.step)))
        return found

    def normalizer(self) -> list[Finding]:
        if (drift := trends.drifts_away(curve(self._rows, "held_out/log_z"))) is None:
            return self._deep_without_z_loss()
        text = (
            f"log Z drifts from {drift.before:.2f} to {drift.after:.2f} between steps {drift.step:,} and "
            f"{drift.end:,}: the logits lose their scale."
        )
        return [self._found(Kind.NORMALIZER, drift.step, drift.end, True, text, self._unguarded(drift.step))]

    def _deep_without_z_loss(self) -> list[Finding]:
        """Warn of a deep decay without z-loss: heads have exploded there, although this run's head has not."""
        known = [row["guards"] for row in self._rows if "guards" in row]
        guards: Mapping[str, Any] = known[-1] if known else {}
        rate = self._rate
        decays = rate.between(min(self._steps_of("decay"), default=np.inf), np.inf)
        if guards.get("z_loss", 1) or not len(decays) or decays.value.min() > DEEP * rate.value.max():
            return []
        first, last = int(decays.step[0]), int(decays.step[-1])
        text = (
            f"z-loss is off while the learning rate falls to {decays.value.min() / rate.value.max():.0%} of its peak."
        )
        seen = tuple(self._went(first))
        return [Finding(kind=Kind.NORMALIZER, step=first, end=last, ill=False, text=text, causes=seen)]

    def _went(self, first: int) -> list[str]:
        """Describe the course of the head's norm and of log Z from this step on."""
        return [
            f"{words} went from {part.value[0]:.4g} to {part.value[-1]:.4g}"
            for name, words in (("norm/lm_head", "the norm of the head"), ("held_out/log_z", "log Z"))
            if len(part := curve(self._rows, name).between(first, np.inf))
        ]

    def _steps_of(self, phase: str) -> list[int]:
        return [row["step"] for row in self._rows if row.get("phase") == phase]

    def average(self) -> list[Finding]:
        """Find a jump of the gap between the weights and their average, away from planned changes."""
        averaged = curve(self._rows, "held_out_ema/macro_loss")
        if len(averaged) != len(self._held_out):
            return []
        gap = Curve(self._held_out.step, self._held_out.value - averaged.value)
        known = [each.start for each in self._spikes] + sorted(self._changes)
        return [
            self._found(
                Kind.AVERAGE, step, step, True,
                f"The gap between the weights and their moving average changes by {size:+.3f} at step {step:,}, in the "
                "held-out loss: the weights moved and their average has not followed.",
            )
            for step, size in trends.jumps(gap)
            if not any(abs(step - each) <= 60 for each in known)
        ][:1]  # fmt: skip

    def speed(self) -> list[Finding]:
        found: list[Finding] = []
        for slow in trends.slow_stretches(self._rows):
            first, last = slow.step, slow.end
            span = f"Step {first:,} takes" if first == last else f"Steps {first:,} to {last:,} take"
            text = f"{span} {slow.seconds:.3g} s each where {slow.usual:.3g} s are usual"
            if slow.waiting:
                text += f"; {slow.waiting:.0%} of it is waiting for batches: the data loader is too slow."
                causes = ["the storage of the token stores, or other work on this host"]
            else:
                text += ", and batches are there in time: the machine is slower, or shared."
                causes = []
            ends = last >= self._rows[-1]["step"] - 2
            found.append(self._found(Kind.LOADER if slow.waiting else Kind.SLOW, first, last, ends, text, causes))
        return found

    def _spike(self, each: Spike) -> Finding:
        alone = f"Step {each.start:,}: the loss spikes" if each.start == each.end else (
            f"Steps {each.start:,} to {each.end:,}: the loss spikes"
        )  # fmt: skip
        level = f", on a level {each.shift:+.3f} from the level before" if each.became is Fate.PLATEAU else ""
        most = f" at step {each.peak:,}" if each.start < each.end else ""
        text = f"{alone} by {each.height:.3g}{most}: {each.became.value}{level}."
        causes: list[str] = []
        short = each.end - each.start < BY_ITS_BATCH
        if left_out := [at for at in range(each.start, each.end + 1) if self._by_step.get(at, {}).get("skipped")]:
            causes.append(f"{len(left_out)} of its updates were left out (skip_bad_steps)")
        if each.lead:
            causes.append(f"the gradient norm rose {each.lead} steps before it: the weights, not the batch")
        elif short and each.became is Fate.RECOVERED:
            sources = self._by_step.get(each.peak, {}).get("sources", {})
            drawn = ", ".join(f"{count} of {name}" for name, count in sources.items())
            causes.append(
                "no norm rose before and the next losses are as before: that batch is unlike the others, look at its "
                + (f"data ({drawn})" if drawn else "data")
            )
        if (hurt := trends.bump(self._held_out, each.start, each.end)) is not None:
            causes.append(f"the held-out loss rose with it, by {hurt:.3f}: the weights were hurt")
        if not short or each.became is not Fate.RECOVERED:
            causes += self._unguarded(each.start)
        ill = each.became in (Fate.PLATEAU, Fate.DIVERGED)
        return self._found(
            Kind.DIVERGED if each.became is Fate.DIVERGED else Kind.SPIKE, each.start, each.end, ill, text, causes
        )

    def _shifts(self) -> Iterable[tuple[Curve, Shift]]:
        """Yield the shifts of the training loss outside of slow climbs, each with the part of the curve around it."""
        for part in self._parts(self._quiet, [each.step for each in self._climbs]):
            for shift in shifts(part, self._rate):
                if not any(each.step - ONE <= shift.step <= each.end for each in self._climbs):
                    yield part, shift

    def _shift(self, shift: Shift, part: Curve) -> Finding:
        text = (
            f"The training loss moves to another level at step {shift.step:,}, by {shift.size:+.3f} (t {shift.t:+.1f})"
        )
        looked = self._held_out.between(part.step[0], part.step[-1] + 2)
        beside = size_at(looked, shift.step + 1, self._rate)
        if beside is None:
            return self._found(Kind.SHIFT, shift.step, shift.step, True, f"{text}.", [
                "no held-out loss was measured (Watch), so the cause stays open"
            ])  # fmt: skip
        seen = trends.is_shared(*beside, shift.size)
        if seen is False:
            return self._found(Kind.ORDER, shift.step, shift.step, True, f"{text}.", [STANDS_STILL])
        if seen:
            causes = [f"the held-out loss moves with it, by {beside[0]:+.3f}: the weights, or what updates them"]
        else:
            causes = [UNCLEAR.format(*beside)]
        return self._found(Kind.SHIFT, shift.step, shift.step, shift.size > 0, f"{text}.", causes)

    def _is_meant(self, each: Spike) -> bool:
        """Return whether a spike is expected: the learning rate climbs, or a planned change breaks the curve there."""
        climbs = self._by_step.get(each.start, {}).get("phase") in CLIMBING
        return each.became is not Fate.DIVERGED and (climbs or any(0 <= each.start - at <= 1 for at in self._breaks))

    def _unguarded(self, step: int) -> list[str]:
        """Name the guards that are off at this step."""
        known = [row["guards"] for row in self._rows if "guards" in row and row["step"] <= step]
        if not known:
            return []
        names = {
            "max_grad_norm": "gradient clipping", "clip_update_norm": "update clipping", "skip_bad_steps": "skipping",
            "z_loss": "z-loss",
        }  # fmt: skip
        off = [words for name, words in names.items() if name in known[-1] and not known[-1][name]]
        return [f"off in this run: {', '.join(off)}"] if off else []

    def _found(self, kind: Kind, step: int, end: int, ill: bool, text: str, causes: list[str] | None = None) -> Finding:
        changed = [
            f"at step {at:,} changed: {', '.join(self._changes[at])}"
            for at in range(step - NEAR, step + 1)
            if at in self._changes
        ]
        return Finding(
            kind=kind, step=step, end=end, ill=ill, text=text,
            causes=(*changed, *self._resumed(step), *(causes or [])),
        )  # fmt: skip

    def _resumed(self, step: int) -> list[str]:
        """If the run was resumed shortly before, name the differences between the two processes."""
        processes = [(row["step"], row["process"]) for row in self._rows if "process" in row and row["step"] <= step]
        if len(processes) < 2 or processes[-1][0] < step - NEAR:
            return []
        (_, before), (at, now) = processes[-2:]
        other = [name for name in now if now[name] != before.get(name)]
        return [
            f"the run was resumed at step {at:,}" + (f" with another {', '.join(other)}" if other else ", as it was")
        ]

    def _parts(self, held: Curve, more: Iterable[int] = ()) -> list[Curve]:
        """Split a curve at the steps of planned changes, and at ``more``."""
        edges = [-np.inf, *sorted({*self._changes, *more}), np.inf]
        return [held.between(first, end) for first, end in pairwise(edges)]

    def _names(self) -> list[str]:
        return sorted({name for row in (self._rows[0], self._rows[-1]) for name in row})
