"""What a person sees before and after a run: the plan, the results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from marin.executor.run_results import Run, Status
from marin.plan.decision import shown_changes
from marin.plan.drift import PACKAGE
from marin.plan.forks import what_forks_change
from marin.plan.observed import UNSEEN
from marin.plan.plan import Action, Decision, Plan
from marin.report.decontamination import undecontaminated
from marin.report.page.sections import sections
from marin.report.section import Finding, Page, Section
from marin.report.table import GAP, Column, columns_of, print_table, say
from marin.report.words import describe_facts, folded, styled
from marin.store.layout import LOG
from marin.store.numbers import counted, listed

ALIKE = {  # what many decisions of one kind have in common, though each names another step; "": what the first says
    Action.CACHED: "",
    Action.RECHECK: "run only if other bytes come from what they read",
    Action.ALIAS: "the same action has given these bytes under another identity: nothing to run",
}
REMOVERS = 5  # steps that took text out
# As marin.data.dropped logs it: bytes are nearer to what is trained on, where they are known.
TOOK_OUT = re.compile(r"took out (?P<documents>[\d,]+ of [\d,]+) documents(, (?P<bytes>[\d,]+ of [\d,]+) bytes)?: .*")
RESULTS = 40  # lines; more are for the page
NAMED = 3  # of the steps that one change stops


def print_plan(console: Console, plan: Plan, *, every: bool = False, where: object = None) -> None:
    """The plan as a table: one line per step, runs of like steps folded unless ``every``.

    where: the cluster that it will run on, if somebody named one.
    """
    rows: list[list[Text | str]] = []
    for group in _folded(plan.decisions, every):
        first = group[0]
        one_op = len({decision.step.op for decision in group}) == 1
        name = first.step.name if len(group) == 1 else f"{first.step.op if one_op else '…'}/… × {len(group)}"
        reason = ALIKE.get(first.action, "") if len(group) > 1 else ""
        rows.append([styled(first.action), Text(name), Text(reason or first.reason_apart)])
        lines = [
            *(first.drift if every else shown_changes(first.drift)),
            *(first.notes if every else _of_its_own(first)),
        ]
        if len(group) > 1 and first.action is Action.STOP:
            lines.append(listed([decision.step.name for decision in group], NAMED))
        rows += [["", "", Text(f"  {line}", style="yellow")] for line in lines]
    print_table(console, columns_of("| step | reason"), rows)
    for line in plan.experiment.all_changes():
        say(console, f"set: {line}", "yellow")
    notes = Counter(note for decision in plan.decisions for note in decision.notes)
    for note, count in notes.items():
        if note.startswith(PACKAGE):
            about = f"since {count} of these outputs were made; nothing stops or runs for that"
            say(console, f"warning: {note} {about}", "yellow")
    print_unseen(console, {note: count for note, count in notes.items() if note.startswith(UNSEEN)})
    if doubt := undecontaminated(plan.experiment.steps()).doubt:
        say(console, f"note: {doubt}", "yellow")
    for line in what_forks_change(decision.step for decision in plan.having(Action.RUN)):
        say(console, f"note: {line}", "yellow")
    counts = Counter(decision.action for decision in plan.decisions)
    parts = [f"{counts[action]} {action}" for action in Action if counts[action]]
    cluster = f" — {where}" if where is not None else ""
    about = f": {', '.join(parts)} — store {plan.store.prefix}{cluster}"
    console.print(Text.assemble((f"{len(plan.decisions)} steps", "bold"), about))


def print_unseen(console: Console, notes: Mapping[str, int]) -> None:
    """What nobody could observe. notes: each with how many steps it is about."""
    for note, count in notes.items():
        way_on = "List what counts in outside(), and a change of it is seen"
        say(console, f"note: {note}; {counted(count, 'step')}. {way_on}", "yellow")


def _of_its_own(decision: Decision) -> list[str]:
    """Notes about one output. What an upgrade of a package touches, say, is most of them, and said once for all."""
    return [note for note in decision.notes if not note.startswith((PACKAGE, UNSEEN))]


def _folded(decisions: list[Decision], every: bool) -> list[list[Decision]]:
    """Like decisions together; order of first appearance."""
    groups: dict[tuple[Any, ...], list[Decision]] = {}
    for index, decision in enumerate(decisions):
        notes = tuple(_of_its_own(decision))
        if decision.action is Action.STOP and not every:  # the same change stops steps of many operators
            key: tuple[Any, ...] = (decision.action, decision.reason_apart, decision.drift, notes)
        elif every or decision.drift or notes:
            key = (index,)
        else:
            key = (decision.step.op, decision.action, "" if decision.action in ALIKE else decision.reason)
        groups.setdefault(key, []).append(decision)
    return list(folded(groups.values()))


def print_results(console: Console, run: Run) -> None:
    """Metrics of every result side by side, headlines of reports."""
    scores: dict[str, dict[str, float]] = {}
    headlines: list[str] = []
    results = run.plan.experiment.results
    for name, step in results.items():
        if (record := run.results[step].record) is None or record.kind == "report":
            continue
        if record.kind == "scores":
            scores[name] = record.facts["metrics"]
        else:
            facts = describe_facts(record.facts)
            headlines.append(f"{name}: {facts}" if facts else name)
    headlines = [*_answers(run), *headlines]
    if scores:
        _print_scores(console, scores)
    for line in _removed(run):
        console.print(Text(line), style="dim")
    for line in headlines[:RESULTS]:
        console.print(Text(f"• {line}"))
    if len(headlines) > RESULTS:
        console.print(f"… and {len(headlines) - RESULTS} more: they are on the page", highlight=False)


def _answers(run: Run) -> Iterator[str]:
    """What the page says first: answers, then what speaks against them, then what else was found."""
    found = [each for each in sections(run, Page(arms=(), store=run.plan.store.prefix)) if isinstance(each, Section)]
    yield from (line for each in found if each.answer for line in (each.answer, *each.more))
    yield from (doubt for each in found for doubt in each.doubts)
    for kind in Finding:
        for each in found:
            if each.finding is kind and not each.answer:
                yield f"{each.title.partition(':')[0]}, {kind.value}: {each.first_sentence}"


def _removed(run: Run) -> list[str]:
    """What each step of this run took out of the text, as its log has it: first who took the largest share."""
    logs = {
        f"{result.record.attempt}/{LOG}": result.step.name
        for result in run.having(Status.RAN)
        if result.record is not None and result.record.kind == "documents"
    }
    found: list[tuple[float, str]] = []
    for name, content in run.plan.store.objects.read_many(list(logs)).items():
        if said := TOOK_OUT.search(content.decode(errors="replace")):
            gone, of = (int(amount.replace(",", "")) for amount in (said["bytes"] or said["documents"]).split(" of "))
            found.append((gone / of, f"{logs[name]} {said[0]}"))
    lines = [line for _, line in sorted(found, key=lambda each: -each[0])]
    if (more := len(lines) - REMOVERS) > 0:
        lines[REMOVERS:] = [f"{counted(more, 'more step')} took text out: see their logs"]
    return lines


def _print_scores(console: Console, scores: Mapping[str, Mapping[str, float]]) -> None:
    """A row a metric, a column a result; of more columns than the terminal has room for, below each other."""
    metrics = list(dict.fromkeys(metric for values in scores.values() for metric in values))
    room = max(console.width - max(map(cell_len, metrics)), 0)
    blocks, left = list[list[str]](), 0
    for name in scores:
        width = max(cell_len(name), 8) + GAP
        if not blocks or width > left:
            blocks.append([])
            left = room
        blocks[-1].append(name)
        left -= width
    for block in blocks:
        columns = [Column("metric"), *(Column(name, right=True) for name in block)]
        rows = [
            [metric, *(f"{scores[name][metric]:.4f}" if metric in scores[name] else "–" for name in block)]
            for metric in metrics
        ]
        print_table(console, columns, rows)
