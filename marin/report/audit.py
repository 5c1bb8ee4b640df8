"""What a reviewer should know before relying on results: everything that is wrong, doubtful or decided by somebody.

Reads the store and, of an experiment, today's code; writes nothing.
"""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from importlib import metadata
from typing import NamedTuple

from marin.errors import CorruptRecord
from marin.fingerprint.stored import stored_code
from marin.plan.condition import FilesState
from marin.plan.decision import Action, Trust
from marin.plan.decontamination import DECONTAMINATE, undecontaminated
from marin.plan.facts import state_of_files
from marin.plan.plan import Plan
from marin.plan.snapshot import Snapshot
from marin.report.marks import BAD, MarkKind, Marks
from marin.store.files.verify import Checked
from marin.store.lineage import ADOPT, PINNED, Lineage, Output, read_lineage
from marin.store.record import Record
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.store.verifications import last_verified

DAYS = 30
PARTLY = {
    Checked.SIZES: "only names and sizes were compared with its manifest before it was read",
    Checked.SAMPLE: "only some of its files were compared with its manifest before it was read",
}
TEXT = ("documents", "tokens")  # kinds of artifacts that hold training data


class Grade(StrEnum):
    """Worst first."""

    UNTRUSTED = "not to be trusted"
    DOUBTFUL = "doubtful"
    KNOWN = "good to know"


class Claim(NamedTuple):
    """One thing that is to be known, of however many outputs. subject: in a word or two."""

    grade: Grade
    subject: str
    text: str


@dataclass(frozen=True)
class Result:
    """One result of an experiment. rests_on: the outputs that it was made from, itself included; empty if it is not
    there."""

    name: str
    step: str
    identity: str
    rests_on: frozenset[Output]


@dataclass
class Audit:
    """scope: the outputs that were looked at. claims: of which outputs each one is; names of steps that have none."""

    lineage: Lineage
    scope: frozenset[Output]
    results: list[Result] = field(default_factory=list[Result])
    claims: dict[Claim, list[Output]] = field(default_factory=dict[Claim, list[Output]])
    steps: dict[Claim, list[str]] = field(default_factory=dict[Claim, list[str]])

    def of(self, grade: Grade) -> list[Claim]:
        """Those that concern most outputs first."""
        found = [claim for claim in self.claims if claim.grade is grade]
        return sorted(found, key=lambda claim: (claim.subject, -len(self.claims[claim]), claim.text))

    def names(self, claim: Claim) -> list[str]:
        """Results first."""
        names = {*self.steps.get(claim, ()), *map(self.lineage.name_of, self.claims[claim])}
        results = {result.step for result in self.results}
        return sorted(names, key=lambda name: (name not in results, name))

    def about(self, result: Result) -> list[Claim]:
        """What is to be known of a result, worst first: of itself, or of anything that it rests on."""
        order = list(Grade)
        found = [
            claim
            for claim, outputs in self.claims.items()
            if not result.rests_on.isdisjoint(outputs) or result.step in self.steps.get(claim, ())
        ]
        return sorted(found, key=lambda claim: (order.index(claim.grade), claim.subject))

    def add(self, claim: Claim, outputs: Iterable[Output], steps: Iterable[str] = ()) -> None:
        held = self.claims.setdefault(claim, [])
        held += [output for output in outputs if output not in held]
        self.steps.setdefault(claim, []).extend(steps)


def audit_store(store: Store, days: int = DAYS) -> Audit:
    """Of everything that is committed now, and what that was made from."""
    lineage = read_lineage(store, every_lease=True)
    starts = [Output(record.identity, record.root) for record in lineage.current.values()]
    made = Audit(lineage, frozenset([*starts, *lineage.up(starts)]))
    _Auditor(store, made, days).look()
    _undecontaminated_records(made)
    return made


def audit_plans(store: Store, plans: Iterable[Plan], days: int = DAYS) -> Audit:
    """Of what these experiments need, and what that was made from."""
    lineage, held = read_lineage(store, every_lease=True), list(plans)
    results: list[Result] = []
    scope: set[Output] = set()
    for plan in held:
        for decision in plan.decisions:
            scope |= _rests_on(lineage, decision.record or decision.alias_target)
        for name, step in plan.experiment.results.items():
            decision = plan.of(step)
            rests = _rests_on(lineage, decision.record or decision.alias_target)
            results.append(Result(name, step.name, step.identity, frozenset(rests)))
    made = Audit(lineage, frozenset(scope), results)
    _Auditor(store, made, days).look()
    for plan in held:
        _about_plan(made, plan)
    return made


def _rests_on(lineage: Lineage, record: Record | None) -> set[Output]:
    if record is None:
        return set()
    output = Output(record.identity, record.root)
    return {output, *lineage.up([output])}


def _made_or_mirrored(record: Record) -> str:
    return max(record.provenance.started, *(held.when for held in record.mirrored), "")


class _Auditor:
    """What the store alone tells."""

    def __init__(self, store: Store, made: Audit, days: int) -> None:
        self.store, self.made, self.lineage, self.days = store, made, made.lineage, days
        self.revocations = revoked(store)
        self.marks = Marks(store, made.lineage, self.revocations)
        self.records = {output: made.lineage.records[output] for output in made.scope if output in made.lineage.records}

    def look(self) -> None:
        for text in self.lineage.unreadable:
            self.made.add(Claim(Grade.UNTRUSTED, "corrupt record", text), ())
        self._about_marks()
        self._about_bytes()
        self._about_verification()
        for output, record in self.records.items():
            for claim in self._about_making(record):
                self.made.add(claim, [output])
        self._about_code()

    def _about_marks(self) -> None:
        for output, marks in self.marks.of(self.made.scope).items():
            for mark in marks:
                if mark.kind in BAD:
                    self.made.add(Claim(Grade.UNTRUSTED, "revoked", self._origin(output)), [output])
                elif mark.kind is MarkKind.GONE:
                    self.made.add(Claim(Grade.DOUBTFUL, "record gone", mark.text), [output])
                elif mark.kind is MarkKind.SUPERSEDED and output.identity not in self.lineage.current:
                    grade = Grade.KNOWN if self.marks.was_collected(output) else Grade.DOUBTFUL
                    self.made.add(Claim(grade, "taken away", mark.text), [output])
                elif mark.kind is MarkKind.SUPERSEDED:
                    readers = [held for held in self.lineage.used_by(output) if held in self.made.scope]
                    name = f"{self.lineage.name_of(output)} {output.identity[:12]}"
                    text = f"made from other bytes of {name} than there are now: {mark.text}"
                    self.made.add(Claim(Grade.DOUBTFUL, "replaced input", text), readers)
                elif mark.kind is MarkKind.ACCEPTED:
                    self.made.add(Claim(Grade.KNOWN, "drift accepted", mark.text), [output])
                elif mark.kind is MarkKind.ADOPTED:
                    self.made.add(Claim(Grade.KNOWN, "adopted", mark.text), [output])
                elif mark.kind is MarkKind.ELSEWHERE:
                    self.made.add(Claim(Grade.KNOWN, "elsewhere", mark.text), [output])
                elif mark.kind is MarkKind.PINNED:
                    self.made.add(Claim(Grade.KNOWN, "pinned", mark.text), [output])
                elif mark.kind is MarkKind.REMADE:
                    self.made.add(Claim(Grade.KNOWN, "made again", mark.text.partition(": ")[2]), [output])

    def _origin(self, output: Output) -> str:
        """The same words for all that one revocation concerns."""
        bad = self.marks.taint.of(output)
        assert bad is not None, "it was marked as such"
        return f"{bad.revocation.name}: {self.revocations.describe(bad.revocation)}"

    def _about_bytes(self) -> None:
        snapshot = Snapshot(self.store, ())
        seen: dict[str, FilesState] = {}
        current = {output: record for output, record in self.records.items() if not self.lineage.is_superseded(output)}
        edited = self.store.disagreements(current.values())
        torn = self.store.bad_manifests(current.values()) if self.store.objects.is_remote else {}
        for output, record in current.items():
            if record.attempt not in seen:
                seen[record.attempt] = state_of_files(snapshot, record)
            files = seen[record.attempt]
            if files.deleted:
                text = f"somebody deleted {record.attempt}; it is made again when something needs it"
                self.made.add(Claim(Grade.DOUBTFUL, "deleted", text), [output])
                continue
            if wrong := edited.get(record.identity):
                self.made.add(Claim(Grade.UNTRUSTED, "edited record", wrong), [output])
            if wrong := files.wrong or torn.get(record.attempt):
                self.made.add(Claim(Grade.UNTRUSTED, "damaged", wrong), [output])
            for note in files.notes:
                self.made.add(Claim(Grade.KNOWN, "touched", note), [output])

    def _about_verification(self) -> None:
        """Every byte was seen when it was committed or mirrored, so that counts as a verification."""
        verified = last_verified(self.store)
        limit = (datetime.now() - timedelta(days=self.days)).strftime("%Y-%m-%d %H:%M:%S")
        text = f"no byte was looked at for {self.days} days or more: `marin verify`"
        late = [
            output
            for output, record in self.records.items()
            if not self.lineage.is_superseded(output)
            and max(_made_or_mirrored(record), verified.get(record.attempt, "")) < limit
        ]
        if late:
            self.made.add(Claim(Grade.DOUBTFUL, "not verified", text), late)

    def _about_making(self, record: Record) -> Iterator[Claim]:
        if record.provenance.git.endswith("+dirty"):
            text = f"the work tree at {record.provenance.git[:10]} had changes that were not committed"
            yield Claim(Grade.DOUBTFUL, "dirty git tree", text)
        for held in record.inputs:
            if held.checked in PARTLY:
                yield Claim(Grade.DOUBTFUL, "inputs not read", f"{held.name}: {PARTLY[held.checked]}, --check-inputs")
        for name, then in record.packages.items():
            now = _version(name)
            if now != then:
                yield Claim(Grade.KNOWN, "packages", f"{name} {then}, here {now}")

    def _about_code(self) -> None:
        """What analysis did not see through, and what the store does not hold."""
        by_code: dict[str, list[Output]] = {}
        for output, record in self.records.items():
            if record.op not in (ADOPT, PINNED):
                by_code.setdefault(record.code, []).append(output)
        for code, outputs in by_code.items():
            try:
                stored = stored_code(self.store, code)
                opaque = () if stored is None else stored.opaque
            except CorruptRecord as error:
                self.made.add(Claim(Grade.DOUBTFUL, "code not kept", str(error)), outputs)
                continue
            if stored is None:
                text = "the store does not hold the source that made them"
                self.made.add(Claim(Grade.DOUBTFUL, "code not kept", text), outputs)
            for note in opaque:
                self.made.add(Claim(Grade.KNOWN, "opaque code", note), outputs)


@functools.cache
def _version(package: str) -> str:
    if package == "python":
        return ".".join(platform.python_version_tuple()[:2])
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _about_plan(made: Audit, plan: Plan) -> None:
    """What today's code and the experiment itself tell."""
    for decision in plan.decisions:
        record, step = decision.record or decision.alias_target, decision.step.name
        outputs = [] if record is None else [Output(record.identity, record.root)]
        if decision.action is Action.STOP and decision.trust not in (Trust.REVOKED, Trust.CORRUPT):
            more = f" and {len(decision.drift) - 1} more" if len(decision.drift) > 1 else ""
            text = f"{decision.drift[0]}{more}" if decision.drift else decision.reason
            subject = "drifted" if decision.drift else "pin"
            made.add(Claim(Grade.UNTRUSTED, subject, text), outputs, [] if outputs else [step])
        elif decision.action is Action.STOP and not outputs:
            made.add(Claim(Grade.UNTRUSTED, str(decision.trust), decision.reason), (), [step])
        for note in decision.notes:
            if note.startswith(("pinned although", "cannot be compared")):
                made.add(Claim(Grade.DOUBTFUL, "pin", note), outputs, [] if outputs else [step])
    missing = [step.name for step in plan.experiment.results.values() if _is_to_be_made(plan.of(step).action)]
    if missing:
        text = "not in the store as the experiment has it now; `marin plan` says why"
        made.add(Claim(Grade.UNTRUSTED, "not made", text), (), missing)
    trainings = [step for step in plan.experiment.steps() if step.work() is not None]
    found, _ = undecontaminated(trainings)
    records = {step.label: plan.of(step).record for step in trainings}
    for source, labels in found.items():
        runs = [held for label in labels if (held := records.get(label)) is not None]
        text = f"{source} reached the tokenizer without decontamination"
        made.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), [Output(held.identity, held.root) for held in runs])


def _is_to_be_made(action: Action) -> bool:
    return action in (Action.RUN, Action.RECHECK)


def _undecontaminated_records(made: Audit) -> None:
    """Which token stores reached a checkpoint with some text that passed no decontamination, as far as records say."""
    known: dict[Output, bool] = {}
    records = made.lineage.records
    for output in made.scope:
        record = records.get(output)
        if record is None or record.kind != "checkpoint":
            continue
        for held in made.lineage.inputs(output):
            read = records.get(held)
            if read is not None and read.kind == "tokens" and not _is_clean(made.lineage, held, known):
                text = f"{read.label or read.name} reached the tokenizer without decontamination"
                made.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), [output])


def _is_clean(lineage: Lineage, start: Output, known: dict[Output, bool]) -> bool:
    trail = [start]
    while trail:
        output = trail[-1]
        record = lineage.records.get(output)
        text = [held for held in lineage.inputs(output) if _is_text(lineage, held)]
        if record is None or record.op == DECONTAMINATE or not text:
            known[trail.pop()] = record is not None and record.op == DECONTAMINATE
        elif open_ends := [held for held in text if held not in known]:
            trail += open_ends
        else:
            known[trail.pop()] = all(known[held] for held in text)
    return known[start]


def _is_text(lineage: Lineage, output: Output) -> bool:
    record = lineage.records.get(output)
    return record is None or record.kind in TEXT


def span(audit: Audit) -> str:
    """When what was looked at was made, and by whom."""
    made = [audit.lineage.records[output].provenance for output in audit.scope if output in audit.lineage.records]
    if not made:
        return f"nothing is there; looked at on {time.strftime('%Y-%m-%d')}"
    days = sorted({each.started[:10] for each in made})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    people = sorted({each.who for each in made})
    more = f" and {len(people) - 3} more" if len(people) > 3 else ""
    return f"made {when} by {', '.join(people[:3])}{more}"
