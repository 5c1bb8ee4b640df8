"""Arms against a baseline, metric by metric, on the same documents and items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from marin.errors import CorruptOutput
from marin.evaluation.answer import NOTE, chosen, decision, guards
from marin.evaluation.difference import Difference, Row
from marin.evaluation.results import DocumentResult, ItemResult, Results
from marin.evaluation.statistics import paired_difference, paired_rate_difference


def compare(arms: Mapping[str, Results], baseline: str, vetoes: Mapping[str, Collection[str]]) -> list[Row]:
    """Bits per byte of every domain, then bits per byte, final answer and accuracy of every task and format.

    vetoes: by arm, the tasks whose items it was trained on.
    Raises CorruptOutput if an arm was not scored on the same texts as the baseline.
    """
    rows: list[Row] = []
    for domain in sorted(arms[baseline].documents):
        scored = {arm: _same(results.documents.get(domain, []), arm, domain) for arm, results in arms.items()}
        rows.append(_rate_row(f"bpb/{domain}", scored, baseline, lambda d: d.bits, lambda d: d.bytes))
    for task, form in sorted(arms[baseline].items, key=lambda key: (key[0], key[1].value)):
        name = f"{task}/{form.value}"
        items = {arm: _same(results.items.get((task, form), []), arm, name) for arm, results in arms.items()}
        spoilt = {arm for arm in arms if task in vetoes.get(arm, ())}
        first = len(rows)
        rows.append(_rate_row(f"{name}/bpb", items, baseline, lambda i: i.bits, lambda i: i.bytes))
        rows.append(_rate_row(f"{name}/final_bpb", items, baseline, lambda i: i.final_bits, lambda i: i.final_bytes))
        if all(one.correct is not None for held in items.values() for one in held.values()):
            rows.append(_accuracy_row(f"{name}/accuracy", items, baseline))
        rows[first:] = [_vetoed(row, baseline, spoilt) for row in rows[first:]]
    return rows


def report(
    arms: Mapping[str, Results],
    baseline: str,
    evidence: Mapping[str, str],
    vetoes: Mapping[str, Collection[str]],
    primary: Sequence[str] = (),
    guard: Sequence[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """(report.json, headline). {"baseline", "arms", "answer", "note", "rows": [...], "evidence": {name: verdict}}.

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
    made = {
        "baseline": baseline,
        "arms": sorted(arms),
        "answer": answer,
        "primary": [row.metric for row in judged] if primary else [],
        "guard": [row.metric for row in guarded],
        "note": NOTE,
        "rows": [row.as_json() for row in rows],
        "evidence": dict(sorted(evidence.items())),
    }
    return made, [*answer, *(f"{name}: {verdict}" for name, verdict in sorted(evidence.items())), NOTE]


def _same[T: (DocumentResult, ItemResult)](results: Sequence[T], arm: str, what: str) -> dict[str, T]:
    if not results:
        raise CorruptOutput(f"arm {arm} was not scored on {what}, the baseline was; evaluate all arms alike")
    # Two documents may hold the same text; their order tells them apart.
    return {f"{one.id}#{index}": one for index, one in enumerate(results)}


def _pairs[T](scored: Mapping[str, Mapping[str, T]], arm: str, baseline: str, what: str) -> list[tuple[T, T]]:
    if scored[arm].keys() != scored[baseline].keys():
        raise CorruptOutput(
            f"{what}: arm {arm} and baseline {baseline} were scored on different texts "
            f"({len(scored[arm])} and {len(scored[baseline])}); evaluate both with the same fields"
        )
    return [(mine, scored[baseline][id]) for id, mine in scored[arm].items()]


def _vetoed(row: Row, baseline: str, spoilt: Collection[str]) -> Row:
    differences = {
        arm: replace(one, contaminated=tuple(sorted({arm, baseline} & set(spoilt))))
        for arm, one in row.differences.items()
    }
    return replace(row, differences=differences)


def _rate_row[T](
    metric: str,
    scored: Mapping[str, Mapping[str, T]],
    baseline: str,
    bits: Callable[[T], float],
    size: Callable[[T], int],
) -> Row:
    values = {arm: sum(map(bits, held.values())) / sum(map(size, held.values())) for arm, held in scored.items()}
    differences: dict[str, Difference] = {}
    for arm in sorted(scored.keys() - {baseline}):
        pairs = _pairs(scored, arm, baseline, metric)
        estimate = paired_rate_difference(
            [bits(mine) for mine, _ in pairs], [bits(theirs) for _, theirs in pairs], [size(mine) for mine, _ in pairs]
        )
        differences[arm] = Difference(estimate, higher_is_better=False)
    return Row(metric, "bits/byte", False, dict(sorted(values.items())), differences)


def _accuracy_row(metric: str, scored: Mapping[str, Mapping[str, ItemResult]], baseline: str) -> Row:
    values = {arm: sum(bool(i.correct) for i in held.values()) / len(held) for arm, held in sorted(scored.items())}
    differences: dict[str, Difference] = {}
    for arm in sorted(scored.keys() - {baseline}):
        pairs = _pairs(scored, arm, baseline, metric)
        estimate = paired_difference(
            [float(bool(a.correct)) for a, _ in pairs], [float(bool(b.correct)) for _, b in pairs]
        )
        differences[arm] = Difference(estimate, higher_is_better=True)
    return Row(metric, "share", True, values, differences)
