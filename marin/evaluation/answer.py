"""The answer of a comparison in a few sentences: what it is judged on, what is guarded, what it cannot say."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches

from marin.errors import BadField
from marin.evaluation.difference import Row

MOST_NAMED = 8  # metrics in one sentence; more are counted


def note(runs: Mapping[str, int]) -> str:
    """What the intervals cover. runs: how many each arm has."""
    if set(runs.values()) == {1}:
        return (
            "One seed an arm: intervals (95 %, each metric by itself) are over documents and items and say nothing "
            "about other seeds, so no difference here is conclusive."
        )
    counts = sorted(set(runs.values()))
    seeds = f"{counts[0]} seeds an arm" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds an arm"
    single = sorted(arm for arm, count in runs.items() if count == 1)
    lent = f" {', '.join(single)} has one: how far seeds spread is taken from the others." if single else ""
    return (
        f"{seeds[0].upper()}{seeds[1:]}: intervals (95 %, each metric by itself) are over documents, items and seeds, "
        f"with one spread of seeds for all arms.{lent}"
    )


def chosen(rows: Sequence[Row], wanted: Sequence[str], what: str) -> list[Row]:
    """Rows by metric name, or all below a name that ends in "/". Raises BadField for what no metric is called."""
    found: list[Row] = []
    for name in wanted:
        below = [row for row in rows if row.metric == name or (name.endswith("/") and row.metric.startswith(name))]
        if not below:
            names = [row.metric for row in rows]
            near = get_close_matches(name, names, 1)
            raise BadField(
                f"{what} names {name!r}, which was not measured{f'; did you mean {near[0]!r}?' if near else ''}; "
                f"there are {', '.join(names)}, and any prefix of them that ends in '/'"
            )
        found += [row for row in below if row not in found]
    return found


def decision(rows: Sequence[Row], arm: str, baseline: str) -> str:
    """One sentence from the metrics that the experiment is judged on."""
    kinds = {_kind(row, arm) for row in rows}
    units = {row.unit for row in rows}
    told = grouped(rows, arm, unit=min(units) if len(units) == 1 else "")
    if kinds == {"spoilt"}:
        return f"{arm} and {baseline} are {told}."
    if kinds == {"same"}:
        return f"{arm} and {baseline}: {told}."
    if len(kinds) == 1:
        return f"{arm} is {min(kinds)} than {baseline} on all that it is judged on: {told.split(' on ', 1)[1]}."
    if {"better", "worse"} <= kinds:
        return f"No clear winner: {arm} against {baseline} is {told}."
    part = "better" if "better" in kinds else "worse" if "worse" in kinds else "not shown to differ"
    return f"{arm} is {part} in part against {baseline}: {told}."


def guards(rows: Sequence[Row], arm: str, prefixes: Sequence[str]) -> str:
    """One sentence from the metrics that must not suffer; names without the prefix that all of them share."""
    shared = prefixes[0] if len(prefixes) == 1 and prefixes[0].endswith("/") else ""
    units = {row.unit for row in rows}
    name = f"Guards ({shared.rstrip('/')}, {min(units)})" if shared and len(units) == 1 else "Guards"
    told = grouped(rows, arm, shared)
    return f"{name}: {arm} is {told}." if told.startswith(("worse", "better")) else f"{name}: {told} for {arm}."


def grouped(rows: Sequence[Row], arm: str, drop: str = "", unit: str = "") -> str:
    """ "worse on prose (+0.011); better on math (−0.124); no difference shown on code, web"."""
    parts: list[str] = []
    for kind, words in (("worse", "worse on"), ("better", "better on")):
        held = [row for row in rows if _kind(row, arm) == kind]
        named = [f"{row.metric.removeprefix(drop)} ({signed(row.differences[arm].estimate.value)})" for row in held]
        parts += [f"{words} {_listed(named, len(rows))}"] if named else []
    if unit and parts:
        parts[-1] = parts[-1].removesuffix(")") + f" {unit})"
    same = [row.metric.removeprefix(drop) for row in rows if _kind(row, arm) == "same"]
    parts += [f"no difference shown on {_listed(same, len(rows))}"] if same else []
    for who in sorted({row.differences[arm].contaminated for row in rows} - {()}):
        spoilt = [row.metric.removeprefix(drop) for row in rows if row.differences[arm].contaminated == who]
        parts.append(
            f"not comparable on {_listed(spoilt, len(rows))} ({' and '.join(who)} "
            f"{'was' if len(who) == 1 else 'were'} trained on these items)"
        )
    return "; ".join(parts)


def signed(value: float, digits: int = 3) -> str:
    """+0.012 or −0.012, with a real minus."""
    return f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")


def _kind(row: Row, arm: str) -> str:
    one = row.differences[arm]
    if one.contaminated:
        return "spoilt"
    if not one.shown:
        return "same"
    return "better" if (one.estimate.value > 0) is row.higher_is_better else "worse"


def _listed(names: Collection[str], of: int) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} of {of} metrics"
