"""Print a plan before a run: what each step would do, and the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from marin.plan.cost.egress import Amount, Regions, write_known
from marin.plan.cost.plan_cost import Sizes, StepCost, Sum, by_operator, in_all
from marin.plan.decision import shown_changes
from marin.plan.drift import PACKAGE
from marin.plan.observed import UNSEEN
from marin.plan.plan import Action, Decision, Plan
from marin.report.decontamination import undecontaminated
from marin.report.table import columns_of, print_table, say
from marin.report.trainings import what_forks_change
from marin.report.words import folded, grouped, styled
from marin.steps.resources import MFU, Work
from marin.steps.scale import Scale
from marin.store.numbers import counted, listed, write_count

ALIKE = {  # a reason for many decisions of one kind that name different steps; "": the reason of the first
    Action.CACHED: "",
    Action.RECHECK: "run only if their inputs come out with other bytes",
    Action.ALIAS: "the same action has given these bytes under another identity: nothing to run",
}
NAMED = 3  # steps that one change stops
COSTS = columns_of(
    "cost | >steps | >reads | >writes | >egress | >trains ?3 | >tokens ?1 | >FLOPs ?2 | >on ?4 | >chip-hours | >days ?5"
)
MOST_RUNS = 12  # training runs with a line of their own
NOTE_WIDTH = 100  # characters of a note, its label included


def print_plan(console: Console, plan: Plan, *, every: bool = False, where: object = None) -> None:
    """Print the plan as a table: one line per step, runs of like steps folded unless ``every``.

    A note takes one line of NOTE_WIDTH characters at most; with ``every`` it is whole.

    where: the cluster that it will run on, if somebody named one.
    """
    rows: list[list[Text | str]] = []
    for group in _folded(plan.decisions, every):
        first = group[0]
        one_op = len({decision.step.op for decision in group}) == 1
        name = first.step.name if len(group) == 1 else f"{first.step.op if one_op else '…'}/… × {len(group)}"
        reason = ALIKE.get(first.action, "") if len(group) > 1 else ""
        rows.append([styled(first.action), Text(name), Text(reason or first.reason_apart)])
        lines = [*first.drift, *first.notes] if every else [*shown_changes(first.drift), *_of_its_own(first)]
        if len(group) > 1 and first.action is Action.STOP:
            lines.append(listed([decision.step.name for decision in group], NAMED))
        rows += [
            ["", "", Text(f"  {line if line in first.drift else brief(line, every)}", style="yellow")] for line in lines
        ]
    print_table(console, columns_of("| step | reason"), rows)
    if plan.policy:
        print_note(console, f'{plan.policy} says on_drift = "{plan.on_drift}": drifted outputs are rebuilt', True)
    for line in plan.experiment.all_changes():
        say(console, f"set: {line}", "yellow")
    notes = Counter(note for decision in plan.decisions for note in decision.notes)
    for note, count in notes.items():
        if note.startswith(PACKAGE):
            about = f"since {counted(count, 'of these outputs was', 'of these outputs were')} made"
            print_note(console, f"{note} {about}; nothing stops or runs", every, label="warning")
    print_unseen(console, {note: count for note, count in notes.items() if note.startswith(UNSEEN)}, every=every)
    for doubt in undecontaminated(plan.experiment.steps()).doubts:
        print_note(console, doubt, every)
    would_run = [decision.step for decision in plan.having(Action.RUN)]
    if would_run:
        from marin.report.memory import what_does_not_fit  # costs of models

        for line in [*what_forks_change(would_run), *what_does_not_fit(would_run)]:
            print_note(console, line, every)
    counts = Counter(decision.action for decision in plan.decisions)
    parts = [f"{counts[action]} {action}" for action in Action if counts[action]]
    cluster = f" — {where}" if where is not None else ""
    about = f": {', '.join(parts)} — store {plan.store.prefix}{cluster}"
    console.print(Text.assemble((f"{len(plan.decisions)} steps", "bold"), about))


def print_shares(console: Console, plan: Plan, sizes: Sizes) -> None:
    """Print how many of its input's documents a step that takes a share will get, if their number is known."""
    for decision in plan.having(Action.RUN, Action.RECHECK):
        step, made = decision.step, sizes.of.get(decision.step)
        read = [sizes.of[each].documents for each in step.dependencies if each in sizes.of]
        if made is not None and made.documents is not None and len(read) == 1 and read[0] not in (None, made.documents):
            print_note(
                console, f"{step.name} gets about {made.documents:,.1f} of {read[0]:,.0f} documents", whole=False
            )


def print_unseen(console: Console, notes: Mapping[str, int], *, every: bool = False) -> None:
    """Print what could not be observed. notes: each with the number of steps that it concerns."""
    for note, count in notes.items():
        way_on = "List it in outside(), and marin notices when it changes"
        print_note(console, f"{note}; {counted(count, 'step')}. {way_on}", every)


def print_note(console: Console, text: str, whole: bool, *, label: str = "note") -> None:
    say(console, f"{label}: {brief(text, whole, NOTE_WIDTH - len(label) - 2)}", "yellow")


def brief(text: str, whole: bool, width: int = NOTE_WIDTH) -> str:
    """Return the text, cut at a word to ``width`` characters unless ``whole``."""
    return text if whole or len(text) <= width else f"{text[: width - 1].rsplit(' ', 1)[0]} …"


def _of_its_own(decision: Decision) -> list[str]:
    """Return notes about one output. Notes that most steps share, such as an upgraded package, are printed once."""
    return [note for note in decision.notes if not note.startswith((PACKAGE, UNSEEN))]


def _folded(decisions: list[Decision], every: bool) -> list[list[Decision]]:
    """Group like decisions, in order of first appearance."""

    def likeness(decision: Decision) -> tuple[Any, ...]:
        notes = tuple(_of_its_own(decision))
        if decision.action is Action.STOP and not every:  # the same change stops steps of many operators
            return decision.action, decision.reason_apart, decision.drift, notes
        if every or decision.drift or notes:
            return (decision.step,)
        return decision.step.op, decision.action, "" if decision.action in ALIKE else decision.reason

    return list(folded(grouped((likeness(decision), decision) for decision in decisions).values()))


def print_costs(console: Console, plan: Plan, costs: Sequence[StepCost], regions: Regions) -> None:
    """Print the costs of a plan; nothing if nothing would run."""
    if not costs:
        return
    sums = {
        op: cost for op, cost in by_operator(plan, costs).items() if cost.reads.bytes or cost.writes.bytes or cost.work
    }
    rows: list[list[Text | str]] = []
    for op, cost in sums.items():
        rows.append(_row(Text(op), cost))
        trainings = [_training(each) for each in costs if each.training and each.decision.step.op == op]
        rows += trainings if len(trainings) <= MOST_RUNS else []
    whole = in_all(plan, costs)
    if sums:
        rows.append(_row(Text("in all", style="bold"), whole))
    small = plan.snapshot.scale == Scale.REHEARSAL.value and not _is_remote(regions) and whole.egress is None
    lines = [*_legend(whole, unknown_matters=not small), *_about_egress(costs, whole, regions)]
    if rows or lines:
        console.print()
    if rows:
        print_table(console, COSTS, rows)
    for line in lines:
        console.print(Text(line, style="dim"))


def _row(name: Text, cost: Sum) -> list[Text | str]:
    run, maybe = cost.actions.get(Action.RUN, 0), cost.actions.get(Action.RECHECK, 0)
    steps = f"{run:,}" if not maybe else f"{run:,}–{run + maybe:,}"
    hours = "" if cost.chip_hours is None else f"{cost.chip_hours:,.0f}"
    trained = ["", "", ""] if cost.work is None else _trained(cost.work)
    egress = "" if cost.egress is None else write_amount(cost.egress.amount)
    return [name, steps, write_amount(cost.reads), write_amount(cost.writes), egress, *trained, "", hours, ""]


def _training(cost: StepCost) -> list[Text | str]:
    training = cost.training
    assert training is not None
    hours = days = ""
    if training.chip_hours is not None:
        hours, days = f"{training.chip_hours:,.0f}", f"{training.chip_hours / training.chips / 24:.1f}"
    name = Text(f"  {cost.decision.step.label or cost.name}", style="dim")
    return [name, "", "", "", "", *_trained(training.work), training.accelerator, hours, days]


def _trained(work: Work) -> list[str]:
    return [f"{work.steps:,}", write_count(work.tokens), f"{work.flops:.2e}"]


def write_amount(amount: Amount) -> str:
    """Return ``1.2 GiB``; ``~1.2 GiB`` if estimated in part; ``≥ 1.2 GiB`` if a part is unknown; "" for nothing."""
    return write_known(amount) if amount.bytes else ""


def _is_remote(regions: Regions) -> bool:
    return "://" in regions.prefix and not regions.prefix.startswith("memory://")


def _legend(whole: Sum, *, unknown_matters: bool) -> Iterator[str]:
    """Yield lines that explain the table. unknown_matters: False for a local rehearsal, whose outputs are small."""
    both = whole.reads + whole.writes
    if both.estimated:
        yield "~ expected: by fields and published counts, or as large as the last output with the same fields"
    if both.unknown and unknown_matters:
        yield (
            f"{'≥ ' if both.bytes else ''}the size of {counted(len(both.unknown), 'output')} is unknown: "
            "neither the fields nor an earlier output with the same fields at this scale tell it"
        )
    if Action.RECHECK in whole.actions:
        yield "1–3 steps: some run only if an input gets other bytes; the rest of a line counts them all"
    if whole.chip_hours:
        yield f"chip-hours at {MFU:.0%} of peak bf16 FLOP/s"


def _about_egress(costs: Sequence[StepCost], whole: Sum, regions: Regions) -> list[str]:
    """Return lines on bytes that cross regions, or why they are unknown; nothing for a store on this machine."""
    nowhere = sum(cost.egress is None for cost in costs)
    asks = _is_remote(regions)
    if nowhere == len(costs):
        return ["region unknown: egress not checked (--region says where steps run)"] if asks else []
    lines = [f"egress {line}" for line in whole.egress.describe()] if whole.egress is not None else []
    if nowhere and asks:
        lines.append(
            f"egress of {nowhere} of {len(costs)} steps is not checked: their region is unknown (give --region)"
        )
    elif not nowhere and not lines and (store := regions.store()) is not None:
        lines.append(f"no egress: steps run where the store is, in {store}")
    return lines + [f"egress not checked: {why.splitlines()[0]}" for why in regions.unchecked.values()]
