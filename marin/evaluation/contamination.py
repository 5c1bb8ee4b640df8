"""Detectors of contamination: did this checkpoint see the test items, and in which prompt format?

Members are the test items of a task. Reference items come from the same source, and nobody trained on them. The member
gap is the bits per byte that the golds of members need less than the golds of reference items. A model that was trained
on one format shows a larger gap in that format (difference in differences over formats). It also gets worse at the
other formats: fragility. Fragility needs no reference items. If items have calculator tags, the tags alone show it.

The order of the data may say which members a run read. Then a sharper test asks: did the members that the run read get
cheaper than the other members? Both come from one source, and only chance decided which were read.

"Beyond" another checkpoint (the parent, the other arm) means: the number minus that checkpoint's number, item by item.
This removes the differences that the two sets of items have by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations
from types import MappingProxyType
from typing import Any

from marin.errors import CorruptOutput
from marin.evaluation.exposure import Reads
from marin.evaluation.formats import Format
from marin.evaluation.results import ItemResult, Results
from marin.evaluation.statistics import (
    Estimate,
    detectable_effect,
    errors_from_zero,
    mean,
    paired_difference,
    pooled_difference,
    unpaired_difference,
)

# A difference between two groups of items needs two items in each.
FEWEST = 2

# Clean n-gram models stay below |z| = 3; with the test items in their data they reach 20 to 30.
THRESHOLD = 5.0


NOTHING_COUNTED: Mapping[str, Reads] = MappingProxyType({})


@dataclass(frozen=True)
class Sets:
    """The task names under which the two sets of items were evaluated. reference: "" if there is none."""

    members: str
    reference: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.members, self.reference) if self.reference else (self.members,)

    def forms(self, *results: Results) -> list[str]:
        """Return the prompt forms in which all results have all of these items.

        Raises CorruptOutput for a set that was evaluated in no form."""
        for held in results:
            for task in self.names:
                if all(scored != task for scored, _ in held.items):
                    held.of(task, Format.LM_EVAL)
        forms = dict.fromkeys([*Format, *sorted(form for task, form in results[0].items if task in self.names)])
        return [form for form in forms if all((task, form) in held.items for held in results for task in self.names)]


class Sign(Enum):
    """The meaning of a flag: the run trained on test items, or one prompt format became strange to the model."""

    CONTAMINATION = "contamination"
    FRAGILITY = "format fragility"


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One measured sign of contamination or fragility.

    detectable: the effect that would be flagged 4 times in 5. unit: the unit of estimate and detectable."""

    sign: Sign
    name: str
    unit: str
    estimate: Estimate
    flagged: bool
    detectable: float

    @property
    def wording(self) -> str:
        e = self.estimate
        interval = f"95 % interval {e.low:+.3f} to {e.high:+.3f}, {errors_from_zero(e.z)}"
        measured = f"{e.value:+.3f} {self.unit} ({interval})"
        if self.flagged:
            return f"flagged: {self.name} {measured}"
        return (
            f"not shown at this size: {self.name} {measured}; "
            f"an effect of {self.detectable:.3f} would be flagged 4 times in 5"
        )

    def as_json(self) -> dict[str, Any]:
        e = self.estimate
        return {
            "sign": self.sign.value,
            "name": self.name,
            "unit": self.unit,
            "value": e.value,
            "se": e.se,
            "low": e.low,
            "high": e.high,
            "z": e.z if math.isfinite(e.z) else None,
            "items": e.n,
            "flagged": self.flagged,
            "detectable": self.detectable,
            "wording": self.wording,
        }


Measure = Callable[[ItemResult], float]
type Pair = tuple[str, str]


def gold(one: ItemResult) -> float:
    return one.bits_per_byte


def final(one: ItemResult) -> float:
    return one.final_bits_per_byte


def evidence(results: Results, parent: Results, sets: Sets) -> list[Finding]:
    """Return every sign for one checkpoint. parent: the checkpoint that the training started from."""
    findings: list[Finding] = []
    forms = sets.forms(results, parent)
    for form in forms if sets.reference else ():
        findings.append(member_gap(results, sets, form, gold, "of the gold"))
        if all(one.final_bytes for task in sets.names for one in results.of(task, form)):
            findings.append(member_gap(results, sets, form, final, "of the final answer"))
        findings.append(member_gap(results, sets, form, gold, "of the gold beyond the parent", beyond=parent))
    findings += format_gaps(results, sets, forms, "across formats")
    findings += format_gaps(results, sets, forms, "across formats beyond the parent", beyond=parent)
    for task, who in zip(sets.names, ("test items", "reference items"), strict=False):
        findings += [fragility(results, parent, task, who, pair) for pair in combinations(forms, 2)]
        if (surprise := tag_surprise(results, parent, task, who)) is not None:
            findings.append(surprise)
    return findings


def contrast(results: Results, other: Results, sets: Sets, name: str) -> list[Finding]:
    """Return the signs of one arm beyond another arm, ``name``, that was trained alike."""
    if not sets.reference:
        return []
    forms = sets.forms(results, other)
    return [
        *(member_gap(results, sets, form, gold, f"of the gold beyond {name}", beyond=other) for form in forms),
        *format_gaps(results, sets, forms, f"across formats beyond {name}", beyond=other),
    ]


def member_gap(
    results: Results, sets: Sets, form: str, measure: Measure, what: str, beyond: Results | None = None
) -> Finding:
    """Return the bits per byte that members need less than reference items do."""
    members = _measured(results, sets.members, form, measure, beyond)
    reference = _measured(results, sets.reference, form, measure, beyond)
    estimate = unpaired_difference(list(reference.values()), list(members.values()))
    return _finding(f"member gap {what}, {form} format", "bits/byte", estimate)


def format_gaps(
    results: Results, sets: Sets, forms: Sequence[str], what: str, beyond: Results | None = None
) -> list[Finding]:
    """Return ``format_gap`` for each pair of these formats; an empty list without reference items."""
    pairs = list(combinations(forms, 2)) if sets.reference else []
    return [
        format_gap(results, sets, pair, what if len(pairs) == 1 else f"{what} ({_named(pair)})", beyond=beyond)
        for pair in pairs
    ]


def format_gap(results: Results, sets: Sets, pair: Pair, what: str, beyond: Results | None = None) -> Finding:
    """Return the member gap in the second format minus the member gap in the first, item by item."""
    spread = (_spread(results, task, pair, beyond) for task in (sets.members, sets.reference))
    return _finding(f"difference in member gaps {what}", "bits/byte", unpaired_difference(*spread))


def fragility(results: Results, parent: Results, task: str, who: str, pair: Pair) -> Finding:
    """Return how much more one format of the same items costs than the other, beyond the parent."""
    spread = _spread(results, task, pair, parent)
    worse, better = pair if sum(spread) >= 0 else pair[::-1]
    estimate = mean([one if worse is pair[0] else -one for one in spread])
    return Finding(
        sign=Sign.FRAGILITY,
        name=f"what the {worse} format costs more than the {better} format beyond the parent's on {who}",
        unit="bits/byte",
        estimate=estimate,
        flagged=estimate.z > THRESHOLD,
        detectable=detectable_effect(estimate.se, THRESHOLD),
    )


def tag_surprise(results: Results, parent: Results, task: str, who: str) -> Finding | None:
    """Return how many more bits a tag's ``<<`` costs than it cost the parent.

    None if fewer than FEWEST items have tags, or if a format was not evaluated.

    The sign is flagged only if the same solutions without tags got cheaper: a model that got worse at everything has
    no trouble with tags in particular. A cooldown in the other format does this to any model, with or without the
    test items. So the sign shows fragility, and by itself not contamination.
    """

    def opening(one: ItemResult) -> float:
        return one.opening_bits / one.openings

    def tagged(held: Results) -> dict[str, float]:
        return {one.id: opening(one) for one in held.of(task, Format.LM_EVAL) if one.openings}

    if any((task, form) not in held.items for form in Format for held in (results, parent)):
        return None
    if len(tagged(results).keys() & tagged(parent).keys()) < FEWEST:
        return None
    openings = _change(tagged(results), tagged(parent))
    plain = _change(
        _measured(results, task, Format.OLMES, gold, None), _measured(parent, task, Format.OLMES, gold, None)
    )
    return Finding(
        sign=Sign.FRAGILITY,
        name=f"surprise at '<<' beyond the parent's on {who} (without tags {plain.value:+.3f} bits/byte)",
        unit="bits",
        estimate=openings,
        flagged=openings.z > THRESHOLD and plain.z < -THRESHOLD,
        detectable=detectable_effect(openings.se, THRESHOLD),
    )


def read_saving(results: Results, other: Results, sets: Sets, form: str, reads: Reads, name: str) -> Finding | None:
    """Return how many more bits per byte the read members saved than the unread members, beyond ``other``.

    A member is read if its answer was read, in whole or in part. Items with only the question read are in neither
    group. None if a group has fewer than FEWEST items. Raises CorruptOutput if the reads were counted for other items.
    """
    changes = _measured(results, sets.members, form, gold, other)
    if strange := sorted(set(changes) - set(reads.reads)):
        raise CorruptOutput(
            f"{len(strange)} items of {sets.members} were scored but not looked for in the data, the first is "
            f"{strange[0]!r}; give Exposure the items that are evaluated"
        )
    # Negative changes: a cheaper item has lost bits.
    read = [-change for id, change in changes.items() if id in reads.answers]
    unread = [-change for id, change in changes.items() if id in reads.unread]
    if min(len(read), len(unread)) < FEWEST:
        return None
    what = f"extra saving on the {len(read)} answers it read over the {len(unread)} test items it did not read"
    return _finding(f"{what}, beyond {name}, {form} format", "bits/byte", pooled_difference(read, unread))


def read_savings(results: Results, other: Results, sets: Sets, reads: Reads | None, name: str) -> list[Finding]:
    """Return ``read_saving`` in every format that has enough items."""
    if reads is None:
        return []
    forms = Sets(sets.members).forms(results, other)
    found = (read_saving(results, other, sets, form, reads, name) for form in forms)
    return [one for one in found if one is not None]


def exposure_line(arm: str, reads: Reads, findings: list[Finding]) -> str:
    """Return one sentence for people: the items that the arm read, and the effect on its scores."""
    if not findings:
        why = f"a test takes {FEWEST} answers read and {FEWEST} test items unread"
        return f"{arm} {reads.sentence}: nothing can be tested on them ({why}; {len(reads.answers)} answers were read)"
    most = max(findings, key=lambda one: abs(one.estimate.z))
    return f"{arm} {reads.sentence}; strongest of {len(findings)} tests on them {most.wording}"


def summary(results: Results, sets: Sets) -> dict[str, dict[str, float]]:
    """Return means for a table: "members/olmes" → gold and final bits per byte, and accuracy if there were choices."""
    table: dict[str, dict[str, float]] = {}
    for role, task in zip(("members", "reference"), sets.names, strict=False):
        for form in sets.forms(results):
            held = results.of(task, form)
            row = {"gold_bits_per_byte": sum(one.bits for one in held) / sum(one.bytes for one in held)}
            if final_bytes := sum(one.final_bytes for one in held):
                row["final_bits_per_byte"] = sum(one.final_bits for one in held) / final_bytes
            if openings := sum(one.openings for one in held):
                row["opening_bits"] = sum(one.opening_bits for one in held) / openings
            if offered := [one.correct for one in held if one.correct is not None]:
                row["accuracy"] = sum(offered) / len(offered)
            table[f"{role}/{form}"] = row
    return table


def report(
    arms: Mapping[str, Results],
    parent: Results,
    clean: str,
    sets: Sets,
    exposure: Mapping[str, Reads] = NOTHING_COUNTED,
) -> tuple[dict[str, Any], list[str]]:
    """Return (report.json, headline: a line for each arm and sign, then a line for each arm with counted reads).

    clean: the arm that the others are compared with.

    {"threshold", "members", "reference", "parent": table, "arms": {name: {"table", "findings", "contrast"}},
    "vetoes", "exposure": {name: {"items", "of", "copies", "how", "reads", "parts"}}}; a table is as from ``summary``,
    contrast is empty for the clean arm. vetoes: by arm, the tasks whose metrics mean nothing because the arm was
    trained on their items. Counted reads are proof, even if scores do not show them. exposure: the members that each
    arm read, for arms whose reads were counted.
    """
    made: dict[str, Any] = {}
    vetoes: dict[str, list[str]] = {}
    headline: list[str] = []
    exposed: list[str] = []
    for name in sorted(arms):
        reads = exposure.get(name)
        after = read_savings(arms[name], parent, sets, reads, "the parent")
        against = [] if name == clean else read_savings(arms[name], arms[clean], sets, reads, clean)
        findings = [*evidence(arms[name], parent, sets), *after]
        beyond = [] if name == clean else [*contrast(arms[name], arms[clean], sets, clean), *against]
        made[name] = {
            "table": summary(arms[name], sets),
            "findings": [one.as_json() for one in findings],
            "contrast": [one.as_json() for one in beyond],
        }
        alarms = (one for one in (*findings, *against) if one.flagged and one.sign is Sign.CONTAMINATION)
        counted = reads is not None and any(reads.reads.values())
        if counted or any(one.estimate.value > 0 for one in alarms):
            vetoes[name] = [sets.members]
        if reads is not None:
            exposed.append(exposure_line(name, reads, [*after, *against]))
        headline += [f"{name}: {_verdict(sign, [*findings, *beyond])}" for sign in Sign]
    return {
        "threshold": THRESHOLD,
        "members": sets.members,
        "reference": sets.reference,
        "clean": clean,
        "parent": summary(parent, sets),
        "arms": made,
        "vetoes": vetoes,
        "exposure": {name: exposure[name].summary() for name in sorted(exposure)},
    }, [*headline, *exposed]


def _verdict(sign: Sign, findings: list[Finding]) -> str:
    """Return one line: the flagged signs, strongest first, or the largest effect and the size that would be flagged."""
    held = [one for one in findings if one.sign is sign]
    if not held:
        return f"{sign.value} could not be measured: too few prompt forms, reference items or items read"
    flags = sorted((one for one in held if one.flagged), key=lambda one: -abs(one.estimate.z))
    if flags:
        return f"{sign.value} flagged by {len(flags)} of {len(held)} signs, most by: {flags[0].wording[9:]}"
    nearest = max(held, key=lambda one: abs(one.estimate.z))
    return f"{sign.value} not shown at this size; nearest: {nearest.wording.partition(': ')[2]}"


def _spread(results: Results, task: str, pair: Pair, beyond: Results | None) -> list[float]:
    """Return for each item its bits per byte in the first format minus its bits per byte in the second."""
    first, second = (_measured(results, task, form, gold, beyond) for form in pair)
    return [first[id] - second[id] for id in first if id in second]


def _named(pair: Pair) -> str:
    return " and ".join(pair)


def _measured(results: Results, task: str, form: str, measure: Measure, beyond: Results | None) -> Mapping[str, float]:
    held = {one.id: measure(one) for one in results.of(task, form)}
    if beyond is None:
        return held
    other = {one.id: measure(one) for one in beyond.of(task, form)}
    return {id: mine - other[id] for id, mine in held.items() if id in other}


def _finding(name: str, unit: str, estimate: Estimate) -> Finding:
    return Finding(
        sign=Sign.CONTAMINATION,
        name=name,
        unit=unit,
        estimate=estimate,
        flagged=abs(estimate.z) > THRESHOLD,
        detectable=detectable_effect(estimate.se, THRESHOLD),
    )


def _change(now: Mapping[str, float], before: Mapping[str, float]) -> Estimate:
    shared = [id for id in now if id in before]
    return paired_difference([now[id] for id in shared], [before[id] for id in shared])
