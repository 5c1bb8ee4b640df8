"""The answer of a comparison in a few sentences: the primary metrics, the guards, and the limits of the evidence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import floor, log10

from marin.evaluation.difference import Row
from marin.evaluation.metric_names import in_words, measure_of, measured_as, task_of

MOST_NAMED = 8  # metrics in one sentence; more are counted
SHARE = "share"  # the unit of numbers that are written in percent

# By arm and task, how many of the task's test items the arm read: "4 of its 128 test items".
type Read = Mapping[str, Mapping[str, str]]


def note(runs: Mapping[str, int]) -> str:
    """Return a sentence on what the intervals cover. runs: the number of runs of each arm."""
    if set(runs.values()) == {1}:
        return (
            "One seed an arm: intervals (95 %, each metric by itself) are over documents and items and say nothing "
            "about other seeds, so no difference here is conclusive."
        )
    counts = sorted(set(runs.values()))
    seeds = f"{counts[0]} seeds an arm" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds an arm"
    single = sorted(arm for arm, count in runs.items() if count == 1)
    lent = f" {', '.join(single)} has one: how far its seeds spread is taken from the others." if single else ""
    return (
        f"{seeds[0].upper()}{seeds[1:]}: intervals (95 %, each metric by itself) are over documents, items and seeds, "
        f"with the spread of each arm's own seeds.{lent}"
    )


def star(read: Read) -> str:
    """Return what a star beside a number means; "" if no arm read a test item."""
    sentences = "; ".join(
        f"at {task}, {arm} was trained on {how}" for arm, tasks in sorted(read.items()) for task, how in tasks.items()
    )
    if not sentences:
        return ""
    return f"* {sentences[0].upper()}{sentences[1:]}: these scores may show memory instead of ability."


def chosen(rows: Sequence[Row], wanted: Sequence[str], what: str) -> list[Row]:
    """Return rows by metric name, or all rows below a name that ends in "/". Raises BadField for an unknown name."""
    by_name = {row.metric: row for row in rows}
    found = dict.fromkeys(each for name in wanted for each in measured_as(name, list(by_name), what))
    return [by_name[name] for name in found]


def decisions(rows: Sequence[Row], arm: str, baseline: str, read: Read) -> list[str]:
    """Return sentences on the metrics that the experiment is judged on.

    One sentence covers the clean metrics. Each task that one of the two arms was trained on has its own sentence."""
    clean = [row for row in rows if not row.differences[arm].contaminated]
    tasks = dict.fromkeys(task_of(row.metric) for row in rows if row not in clean)
    sentences = [_decision(clean, arm, baseline)] if clean else []
    for task in tasks:
        of_task = [row for row in rows if row not in clean and task_of(row.metric) == task]
        sentences.append(_contaminated(of_task, task, arm, baseline, read))
    return sentences


def guards(rows: Sequence[Row], arm: str) -> str:
    """Return one sentence on the guards: the metrics that must not get worse."""
    units = {row.unit for row in rows}
    named = "bits per byte" if units == {"bits/byte"} else ", ".join(sorted(units))
    corrected = f", corrected for {len(rows)} metrics" if len(rows) > 1 else ""
    sentences = grouped(rows, arm)
    worse_or_better = sentences.startswith(("worse", "better"))
    return f"Guards ({named}{corrected}): " + (
        f"{arm} is {sentences}." if worse_or_better else f"{sentences} for {arm}."
    )


def grouped(rows: Sequence[Row], arm: str, unit: str = "") -> str:
    """Return "worse on prose text (+0.011); better on math text (−0.124); no difference shown on code text"."""
    parts: list[str] = []
    for kind, words in (("worse", "worse on"), ("better", "better on")):
        held = [row for row in rows if _kind(row, arm) == kind]
        named = [f"{_named(row, arm)} ({signed(row.differences[arm].estimate.value)})" for row in held]
        parts += [f"{words} {_listed(named, len(rows))}"] if named else []
    if unit and parts:
        parts[-1] = parts[-1].removesuffix(")") + f" {unit})"
    same = [_named(row, arm) for row in rows if _kind(row, arm) == "same"]
    parts += [f"no difference shown on {_listed(same, len(rows))}"] if same else []
    return "; ".join(parts)


def signed(value: float, digits: int = 3) -> str:
    """Return "+0.012" or "−0.012", with a real minus; the first nonzero digit if all these digits would be zero."""
    text = f"{value:+.{digits}f}"
    if value and not text.strip("+-0."):
        text = f"{value:+.{-floor(log10(abs(value)))}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def written(value: float, unit: str) -> str:
    """Return "69.1 %" for a share, "0.512" for any other unit."""
    return f"{100 * value:.1f} %" if unit == SHARE else f"{value:.3f}"


def _decision(rows: Sequence[Row], arm: str, baseline: str) -> str:
    kinds = {_kind(row, arm) for row in rows}
    units = {row.unit for row in rows}
    sentences = grouped(rows, arm, unit=min(units) if len(units) == 1 else "")
    if kinds == {"same"}:
        return f"{arm} and {baseline}: {sentences}."
    if len(kinds) == 1:
        return f"{arm} is {min(kinds)} than {baseline} on all that it is judged on: {sentences.split(' on ', 1)[1]}."
    if {"better", "worse"} <= kinds:
        return f"No clear winner: {arm} against {baseline} is {sentences}."
    part = "better" if "better" in kinds else "worse"
    return f"{arm} is {part} in part against {baseline}: {sentences}."


def _contaminated(rows: Sequence[Row], task: str, arm: str, baseline: str, read: Read) -> str:
    """Return who is ahead at a task that one or both arms read test items of, and how much that lead is worth."""
    who = sorted({one for row in rows for one in row.differences[arm].contaminated})
    had = " and ".join(f"{one} had read {read[one][task]}" for one in who) + "*"
    by_kind = {
        kind: [_change(row, arm, baseline) for row in rows if _kind(row, arm) == kind]
        for kind in ("better", "worse", "same")
    }
    kinds = [kind for kind in ("better", "worse") if by_kind[kind]]
    if len(kinds) == 1:
        ahead, behind = (arm, baseline) if kinds == ["better"] else (baseline, arm)
        worth = f"although {had}" if who == [behind] else f"which is no evidence of ability, because {had}"
        said = f"At {task}, {ahead} is better than {behind}, {worth}: {'; '.join(by_kind[kinds[0]])}"
        return said + (f"; no difference shown in {'; '.join(by_kind['same'])}." if by_kind["same"] else ".")
    words = {"better": f"better than {baseline} in", "worse": "worse in", "same": "not shown to differ in"}
    parts = [f"{words[kind]} {'; '.join(sentences)}" for kind, sentences in by_kind.items() if sentences]
    if not kinds:
        return f"At {task}, {arm} and {baseline} are {parts[0]}; {had}."
    return f"At {task}, {arm} is {', and '.join(parts)}; {had}."


def _change(row: Row, arm: str, baseline: str) -> str:
    """Return "accuracy with LM-Eval prompts (bison 54.7 %, mantis 69.1 %)"."""
    values = ", ".join(f"{one} {written(row.values[one], row.unit)}" for one in (baseline, arm))
    return f"{measure_of(row.metric)} ({values})"


def _named(row: Row, arm: str) -> str:
    return in_words(row.metric) + ("*" if row.differences[arm].contaminated else "")


def _kind(row: Row, arm: str) -> str:
    one = row.differences[arm]
    return ("better" if one.is_better else "worse") if one.shown else "same"


def _listed(names: Collection[str], of: int) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} of {of} metrics"
