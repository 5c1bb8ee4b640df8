"""Comparison of arms with a baseline, metric by metric, on the same documents and items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any

from marin.errors import CorruptOutput
from marin.evaluation.answer import SHARE, Read, chosen, decisions, guards, note, star
from marin.evaluation.difference import Difference, Row
from marin.evaluation.groups import Grouping
from marin.evaluation.metric_names import is_better_lower, task_of
from marin.evaluation.results import DocumentResult, ItemResult, Results
from marin.evaluation.statistics import holm, over_seeds, paired_rate_difference, seed_spread


@dataclass(frozen=True)
class _Metric:
    """A metric over texts: a rate (sum of ``amount`` by sum of ``size``) or a share (mean of ``amount``; size is 1)."""

    name: str
    unit: str
    higher_is_better: bool
    amount: Callable[[Any], float]
    size: Callable[[Any], int]


END = "/"  # ends the id of a text; a number after it tells texts with the same id apart


def _one(_: Any) -> int:
    return 1


def compare(arms: Mapping[str, Sequence[Results]], baseline: str, read: Read) -> list[Row]:
    """Return a row for each metric: domains, then tasks and formats, then metrics that lm-evaluation-harness logged.

    Domains have bits per byte. Tasks have bits per byte, bits per byte of final answers, and accuracy or choice
    probability.

    arms: the results of each run of an arm; the runs differ in their seed. read: how many of a task's test items an arm
    was trained on. Raises CorruptOutput if a run was not scored on the same texts as the baseline.
    """
    rows: list[Row] = []
    groups = arms[baseline][0].groups
    for domain in sorted(arms[baseline][0].documents):
        documents = {arm: [run.documents.get(domain, []) for run in runs] for arm, runs in arms.items()}
        scored = _by_text(documents, baseline, domain)
        rows.append(
            _row(
                _Metric(f"bpb/{domain}", "bits/byte", False, attrgetter("bits"), attrgetter("bytes")),
                scored,
                baseline,
                groups.get(f"bpb/{domain}"),
            )
        )
    for task, form in sorted(arms[baseline][0].items):
        name = f"{task}/{form}"
        items = {arm: [run.items.get((task, form), []) for run in runs] for arm, runs in arms.items()}
        scored = _by_text(items, baseline, name)
        every = [one for runs in scored.values() for run in runs for one in run.values()]
        metrics = [_Metric(f"{name}/bpb", "bits/byte", False, attrgetter("bits"), attrgetter("bytes"))]
        if all(one.final_bytes for one in every):
            final = attrgetter("final_bits"), attrgetter("final_bytes")
            metrics.append(_Metric(f"{name}/final_bpb", "bits/byte", False, *final))
        if all(one.correct is not None for one in every):
            metrics.append(_Metric(f"{name}/accuracy", SHARE, True, attrgetter("correct"), _one))
        elif all(one.choice_probability is not None for one in every):
            metrics.append(_Metric(f"{name}/choice_probability", SHARE, True, attrgetter("choice_probability"), _one))
        readers = [arm for arm in sorted(arms) if task in read.get(arm, ())]
        rows += [_starred(_row(metric, scored, baseline, groups.get(task)), baseline, readers) for metric in metrics]
    for name in sorted(arms[baseline][0].logged):
        scored = {arm: [run.logged.get(name, {}) for run in runs] for arm, runs in arms.items()}
        _must_be_alike(scored, baseline, name)
        metric = _Metric(name, SHARE, not is_better_lower(name), float, _one)
        readers = [arm for arm in sorted(arms) if task_of(name) in read.get(arm, ())]
        rows.append(_starred(_row(metric, scored, baseline, groups.get(task_of(name))), baseline, readers))
    return rows


def report(
    arms: Mapping[str, Sequence[Results]],
    baseline: str,
    evidence: Mapping[str, str],
    read: Read,
    primary: Sequence[str] = (),
    guard: Sequence[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """Return (report.json, headline).

    {"baseline", "arms", "runs", "answer", "note", "star", "rows", "primary", "guard", "evidence": {name: verdict}}

    arms: the results of each run of an arm. runs: the number of runs of each arm.

    answer: for each arm sentences on the primary metrics (all metrics if none is named) and one on the guards. Their
    differences are corrected for the number of primary metrics, or of guards. star: the meaning of an asterisk.
    headline: the answer, a line for each piece of evidence, and the notes.
    Raises BadField for primary or guard metrics that were not measured.
    """
    rows = compare(arms, baseline, read)
    deciding = {row.metric for row in chosen(rows, primary, "Compare.primary") or rows}
    suffering = {row.metric for row in chosen(rows, guard, "Compare.guard")}
    rows = _corrected(_corrected(rows, deciding), suffering)
    judged = [row for row in rows if row.metric in deciding]
    guarded = [row for row in rows if row.metric in suffering]
    answer: list[str] = []
    for arm in sorted(arms.keys() - {baseline}):
        answer += decisions(judged, arm, baseline, read)
        if guarded:
            answer.append(guards(guarded, arm))
    runs = {arm: len(results) for arm, results in sorted(arms.items())}
    covered = " ".join([note(runs), *(of.in_words(name) for name, of in sorted(arms[baseline][0].groups.items()))])
    made = {
        "baseline": baseline,
        "arms": sorted(arms),
        "runs": runs,
        "answer": answer,
        "primary": [row.metric for row in judged] if primary else [],
        "guard": [row.metric for row in guarded],
        "note": covered,
        "star": (stars := star(read)),
        "rows": [row.as_json() for row in rows],
        "evidence": dict(sorted(evidence.items())),
    }
    verdicts = [f"{name}: {verdict}" for name, verdict in sorted(evidence.items())]
    return made, [*answer, *verdicts, covered, *filter(None, [stars])]


type _Scored = Mapping[str, Sequence[Mapping[str, Any]]]  # the result of each text, by arm and run


def _by_text(
    results: Mapping[str, Sequence[Sequence[DocumentResult]]] | Mapping[str, Sequence[Sequence[ItemResult]]],
    baseline: str,
    what: str,
) -> _Scored:
    # Two documents may hold the same text; their order tells them apart.
    scored = {
        arm: [{f"{one.id}{END}{index}": one for index, one in enumerate(run)} for run in runs]
        for arm, runs in results.items()
    }
    _must_be_alike(scored, baseline, what)
    return scored


def _must_be_alike(scored: _Scored, baseline: str, what: str) -> None:
    """Raise CorruptOutput if a run was scored on other texts than the baseline's first run."""
    texts = scored[baseline][0].keys()
    for arm, runs in scored.items():
        for run in runs:
            if not run:
                raise CorruptOutput(f"arm {arm} was not scored on {what}, the baseline was; evaluate all arms alike")
            if run.keys() != texts:
                raise CorruptOutput(
                    f"{what}: arm {arm} and baseline {baseline} were scored on different texts "
                    f"({len(run)} and {len(texts)}); evaluate both with the same fields"
                )


def _starred(row: Row, baseline: str, readers: Sequence[str]) -> Row:
    differences = {
        arm: replace(one, contaminated=tuple(each for each in readers if each in (arm, baseline)))
        for arm, one in row.differences.items()
    }
    return replace(row, differences=differences, contaminated=readers)


def _corrected(rows: Sequence[Row], family: Collection[str]) -> list[Row]:
    """Return rows with p-values corrected for this family of metrics, arm by arm.

    A metric of two families keeps the larger of its corrected p-values.
    """
    held = {row.metric: row for row in rows}
    together = [row for row in rows if row.metric in family]
    for arm in together[0].differences if together else ():
        for row, p in zip(together, holm([row.differences[arm].estimate.p for row in together]), strict=True):
            now = held[row.metric]
            one = now.differences[arm]
            later = replace(one, corrected=max(p, one.corrected or 0.0), family=max(len(together), one.family))
            held[row.metric] = replace(now, differences={**now.differences, arm: later})
    return list(held.values())


def _row(metric: _Metric, scored: _Scored, baseline: str, grouping: Grouping | None) -> Row:
    groups = grouping.groups(text.rpartition(END)[0] for text in scored[baseline][0]) if grouping is not None else ()
    size = {text: metric.size(one) for text, one in scored[baseline][0].items()}
    total = sum(size.values())
    values = {arm: [sum(map(metric.amount, run.values())) / total for run in runs] for arm, runs in scored.items()}
    mean = {
        arm: {text: fmean(metric.amount(run[text]) for run in runs) for text in size} for arm, runs in scored.items()
    }
    differences: dict[str, Difference] = {}
    for arm in sorted(scored.keys() - {baseline}):
        mine, theirs = ([mean[each][text] for text in size] for each in (arm, baseline))
        estimate = paired_rate_difference(mine, theirs, list(size.values()), groups)
        spread = seed_spread(values[arm], values[baseline], values.values())
        if spread is not None:
            estimate = over_seeds(estimate, spread)
        differences[arm] = Difference(estimate, metric.higher_is_better, seeds=spread is not None)
    return Row(
        metric.name,
        metric.unit,
        metric.higher_is_better,
        {arm: fmean(runs) for arm, runs in sorted(values.items())},
        differences,
        {arm: runs for arm, runs in sorted(values.items()) if len(runs) > 1},
    )
