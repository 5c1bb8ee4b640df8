"""Arms against a baseline, metric by metric, on the same documents and items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from statistics import fmean
from typing import Any

from marin.errors import CorruptOutput
from marin.evaluation.answer import chosen, decision, guards, note
from marin.evaluation.difference import Difference, Row
from marin.evaluation.results import DocumentResult, ItemResult, Results
from marin.evaluation.statistics import over_seeds, paired_rate_difference, seed_spread


@dataclass(frozen=True)
class _Metric:
    """One number of one text: a rate is all ``amount`` by all ``size``, a share the mean of ``amount`` (size is 1)."""

    name: str
    unit: str
    higher_is_better: bool
    amount: Callable[[Any], float]
    size: Callable[[Any], int]


def _one(_: Any) -> int:
    return 1


def compare(arms: Mapping[str, Sequence[Results]], baseline: str, vetoes: Mapping[str, Collection[str]]) -> list[Row]:
    """Bits per byte of every domain, then bits per byte, final answer and accuracy of every task and format.

    arms: the results of each run of an arm, which differ in their seed. vetoes: by arm, the tasks whose items it was
    trained on. Raises CorruptOutput if a run was not scored on the same texts as the baseline.
    """
    rows: list[Row] = []
    for domain in sorted(arms[baseline][0].documents):
        documents = {arm: [run.documents.get(domain, []) for run in runs] for arm, runs in arms.items()}
        scored = _by_text(documents, baseline, domain)
        rows.append(
            _row(
                _Metric(f"bpb/{domain}", "bits/byte", False, attrgetter("bits"), attrgetter("bytes")), scored, baseline
            )
        )
    for task, form in sorted(arms[baseline][0].items, key=lambda key: (key[0], key[1].value)):
        name = f"{task}/{form.value}"
        items = {arm: [run.items.get((task, form), []) for run in runs] for arm, runs in arms.items()}
        scored = _by_text(items, baseline, name)
        metrics = [
            _Metric(f"{name}/bpb", "bits/byte", False, attrgetter("bits"), attrgetter("bytes")),
            _Metric(f"{name}/final_bpb", "bits/byte", False, attrgetter("final_bits"), attrgetter("final_bytes")),
        ]
        if all(one.correct is not None for runs in scored.values() for run in runs for one in run.values()):
            metrics.append(_Metric(f"{name}/accuracy", "share", True, attrgetter("correct"), _one))
        spoilt = {arm for arm in arms if task in vetoes.get(arm, ())}
        rows += [_vetoed(_row(metric, scored, baseline), baseline, spoilt) for metric in metrics]
    return rows


def report(
    arms: Mapping[str, Sequence[Results]],
    baseline: str,
    evidence: Mapping[str, str],
    vetoes: Mapping[str, Collection[str]],
    primary: Sequence[str] = (),
    guard: Sequence[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """(report.json, headline). {"baseline", "arms", "runs", "answer", "note", "rows", "evidence": {name: verdict}}.

    arms: the results of each run of an arm. runs: how many those are.

    answer: for each arm a sentence on the primary metrics (all of them if none is named) and one on the guards.
    headline: the answer, a line for each piece of evidence, and the note.
    Raises BadField for primary or guard metrics that were not measured.
    """
    rows = compare(arms, baseline, vetoes)
    judged = chosen(rows, primary, "Compare.primary") or rows
    guarded = chosen(rows, guard, "Compare.guard")
    answer: list[str] = []
    for arm in sorted(arms.keys() - {baseline}):
        answer.append(decision(judged, arm, baseline))
        if guarded:
            answer.append(guards(guarded, arm, guard))
    runs = {arm: len(results) for arm, results in sorted(arms.items())}
    made = {
        "baseline": baseline,
        "arms": sorted(arms),
        "runs": runs,
        "answer": answer,
        "primary": [row.metric for row in judged] if primary else [],
        "guard": [row.metric for row in guarded],
        "note": note(runs),
        "rows": [row.as_json() for row in rows],
        "evidence": dict(sorted(evidence.items())),
    }
    return made, [*answer, *(f"{name}: {verdict}" for name, verdict in sorted(evidence.items())), note(runs)]


type _Scored = Mapping[str, Sequence[Mapping[str, Any]]]  # by arm and run, the result of each text


def _by_text(
    results: Mapping[str, Sequence[Sequence[DocumentResult]]] | Mapping[str, Sequence[Sequence[ItemResult]]],
    baseline: str,
    what: str,
) -> _Scored:
    # Two documents may hold the same text; their order tells them apart.
    scored = {
        arm: [{f"{one.id}#{index}": one for index, one in enumerate(run)} for run in runs]
        for arm, runs in results.items()
    }
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
    return scored


def _vetoed(row: Row, baseline: str, spoilt: Collection[str]) -> Row:
    differences = {
        arm: replace(one, contaminated=tuple(sorted({arm, baseline} & set(spoilt))))
        for arm, one in row.differences.items()
    }
    return replace(row, differences=differences)


def _row(metric: _Metric, scored: _Scored, baseline: str) -> Row:
    size = {text: metric.size(one) for text, one in scored[baseline][0].items()}
    total = sum(size.values())
    values = {arm: [sum(map(metric.amount, run.values())) / total for run in runs] for arm, runs in scored.items()}
    mean = {
        arm: {text: fmean(metric.amount(run[text]) for run in runs) for text in size} for arm, runs in scored.items()
    }
    spread = seed_spread(values.values())
    differences: dict[str, Difference] = {}
    for arm in sorted(scored.keys() - {baseline}):
        mine, theirs = ([mean[each][text] for text in size] for each in (arm, baseline))
        estimate = paired_rate_difference(mine, theirs, list(size.values()))
        if spread is not None:
            estimate = over_seeds(estimate, spread, len(scored[arm]), len(scored[baseline]))
        differences[arm] = Difference(estimate, metric.higher_is_better, seeds=spread is not None)
    return Row(
        metric.name,
        metric.unit,
        metric.higher_is_better,
        {arm: fmean(runs) for arm, runs in sorted(values.items())},
        differences,
        {arm: runs for arm, runs in sorted(values.items()) if len(runs) > 1},
    )
