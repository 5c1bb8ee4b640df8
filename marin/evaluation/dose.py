"""The dose from which each detector sees contamination: how often a run must read a test item, over several seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from marin.evaluation.contamination import (
    THRESHOLD,
    Finding,
    Sets,
    Sign,
    format_gap,
    gold,
    member_gap,
    read_saving,
)
from marin.evaluation.exposure import Reads
from marin.evaluation.formats import Format
from marin.evaluation.metric_names import FORMATS
from marin.evaluation.results import Results
from marin.evaluation.statistics import detectable_effect, paired_difference
from marin.evaluation.verdict import FOUND, UNCLEAR


def dose_report(
    parent: Results, doses: Mapping[int, Sequence[Results]], exposure: Mapping[int, Sequence[Reads]], sets: Sets
) -> dict[str, Any]:
    """Return report.json: {"threshold", "doses", "seeds", "detectors", "counted", "finding", "verdict"}.

    doses: by the number of times that a run read the leaked items, the results of each seed; 0 for the clean runs.
    exposure: the counted reads of the other runs. The clean runs are tested on the items that the largest dose read: a
    flag there is a false alarm. detectors: name → {"unit", "z", "value" (both by dose and seed), "sees_from" (the least
    dose from which every seed is flagged, null for none), "false_alarms"}. counted: by dose, items and copies of each
    seed.
    """
    placebo = exposure[max(exposure)]
    tests: dict[str, dict[int, list[Finding]]] = {}
    for dose, runs in sorted(doses.items()):
        for seed, results in enumerate(runs):
            reads = exposure[dose][seed] if dose else placebo[seed % len(placebo)]
            for name, finding in _tests(results, parent, sets, reads):
                tests.setdefault(name, {}).setdefault(dose, []).append(finding)
    detectors = {name: _detector(by_dose) for name, by_dose in tests.items()}
    made: dict[str, Any] = {
        "threshold": THRESHOLD,
        "doses": sorted(doses),
        "seeds": {str(dose): len(runs) for dose, runs in sorted(doses.items())},
        "detectors": detectors,
        "counted": {
            str(dose): [{"items": len(each.read), "of": len(each.reads), "copies": each.copies} for each in runs]
            for dose, runs in sorted(exposure.items())
        },
    }
    made["finding"], made["verdict"] = _verdict(made)
    return made


def _tests(results: Results, parent: Results, sets: Sets, reads: Reads) -> Iterator[tuple[str, Finding]]:
    """Yield every detector on one run. Detectors that use the counted reads come first."""
    for form in Format:
        if (saving := read_saving(results, parent, sets, form, reads, "the parent")) is not None:
            yield f"items read against items unread ({FORMATS[form.value][0]})", saving
    for form in Format:
        gap = member_gap(results, sets, form, gold, "", beyond=parent)
        yield f"test items against items never published ({FORMATS[form.value][0]})", gap
    yield "the gap between prompt forms", format_gap(results, sets, (Format.LM_EVAL, Format.OLMES), "", beyond=parent)
    for form in Format:
        if (gained := _accuracy(results, parent, sets.members, form)) is not None:
            yield f"accuracy above the parent's ({FORMATS[form.value][0]})", gained


def _accuracy(results: Results, parent: Results, task: str, form: Format) -> Finding | None:
    """Return the gain in accuracy, as a table of scores shows it; None for items without choices."""
    before = {one.id: one.correct for one in parent.of(task, form)}
    pairs = [
        (float(one.correct), float(was))
        for one in results.of(task, form)
        if one.correct is not None and (was := before.get(one.id)) is not None
    ]
    if not pairs:
        return None
    estimate = paired_difference([now for now, _ in pairs], [was for _, was in pairs])
    flagged, least = estimate.z > THRESHOLD, detectable_effect(estimate.se, THRESHOLD)
    return Finding(
        sign=Sign.CONTAMINATION, name="accuracy", unit="share", estimate=estimate, flagged=flagged, detectable=least
    )


def _detector(by_dose: Mapping[int, Sequence[Finding]]) -> dict[str, Any]:
    flagged = {dose: [_is_flagged(one) for one in found] for dose, found in by_dose.items()}
    sees_from: int | None = None
    for dose in sorted((dose for dose in flagged if dose), reverse=True):
        if not all(flagged[dose]):
            break
        sees_from = dose
    return {
        "unit": next(iter(by_dose.values()))[0].unit,
        "z": {str(dose): [round(_z(one), 3) for one in found] for dose, found in by_dose.items()},
        "value": {str(dose): [round(one.estimate.value, 5) for one in found] for dose, found in by_dose.items()},
        "sees_from": sees_from,
        "false_alarms": sum(flagged.get(0, [])),
    }


def _is_flagged(one: Finding) -> bool:
    """Return whether the sign is flagged in the direction of contamination."""
    return one.flagged and one.estimate.value > 0


def _z(one: Finding) -> float:
    return max(-99.0, min(99.0, one.estimate.z))


def _verdict(made: dict[str, Any]) -> tuple[str, str]:
    detectors: dict[str, dict[str, Any]] = made["detectors"]
    clean, most = made["seeds"].get("0", 0), max(made["doses"])
    seen: dict[int, list[str]] = {}
    for name, each in detectors.items():
        if each["sees_from"] is not None:
            seen.setdefault(each["sees_from"], []).append(name)
    counted: dict[str, list[dict[str, int]]] = made["counted"]
    least, leaked = min(map(int, counted)), counted[str(most)][0]
    shown = f"scores show them from {_times(min(seen))} on" if seen else f"up to {_times(most)} no score shows them"
    sentences = [f"Counting what was read finds leaked test items from {_times(least)} on; {shown}."]
    sentences += [f"From {_times(dose)} on: {_listed(seen[dose], detectors)}." for dose in sorted(seen)]
    if blind := [name for name, each in detectors.items() if each["sees_from"] is None]:
        sentences.append(f"Not up to {_times(most)}: {_listed(blind, detectors)}.")
    sentences.append(f"{leaked['items']} of {leaked['of']} items were leaked.")
    alarms = sum(each["false_alarms"] for each in detectors.values())
    tests = clean * len(detectors)
    sentences.append(
        f"Of {tests} tests of runs that read none, {alarms or 'none'} gave a false alarm." if tests else ""
    )
    return FOUND if seen and not alarms else UNCLEAR, " ".join(filter(None, sentences))


def _times(dose: int) -> str:
    return "1 read of each" if dose == 1 else f"{dose} reads of each"


def _listed(names: Sequence[str], every: Iterable[str]) -> str:
    """Return the names in a list; leave out the prompt form of a test that is named in all its forms."""
    whole = {stem for name in names if (stem := stem_of(name)) and {n for n in every if stem_of(n) == stem} <= {*names}}
    return ", ".join(dict.fromkeys(stem_of(name) if stem_of(name) in whole else name for name in names))


def stem_of(name: str) -> str:
    """Return a detector's name without the prompt form."""
    return name.partition(" (")[0]
