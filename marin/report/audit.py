"""An audit of results for reviewers: everything that is wrong, doubtful or somebody's decision.

It reads the store and, for an experiment, today's code. It writes nothing.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata

from marin.errors import CorruptRecord
from marin.fingerprint.fingerprint import stored_code
from marin.plan.decision import Action, Decision, Trust
from marin.plan.facts import state_of_files
from marin.plan.plan import Plan
from marin.plan.snapshot import Snapshot
from marin.report.claims import Claim, Grade, StoreClaims, Subject
from marin.report.contents import TEXT
from marin.report.decontamination import DECONTAMINATE, undecontaminated
from marin.report.words import grouped
from marin.store.files.verify import Checked
from marin.store.lineage import ADOPT, PINNED, Lineage, Output, output_of, read_lineage
from marin.store.lookup import outputs_named
from marin.store.numbers import listed, write_time
from marin.store.record import Record
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.store.verifications import last_verified

DAYS = 30
PARTLY = {
    Checked.SIZES: "the run compared only names and sizes with the manifest before the step read it",
    Checked.SAMPLE: "the run compared only some files with the manifest before the step read it",
}
UNDECIDED = (Subject.ALIAS, Subject.MIRRORED)  # good to know about one output; nobody decided it


@dataclass(frozen=True)
class Result:
    """One result of an experiment."""

    name: str
    step: str
    identity: str
    rests_on: frozenset[Output]  # its output and everything behind it; empty if it does not exist


@dataclass
class Audit:
    """Claims about outputs, and the results that rest on the outputs."""

    lineage: Lineage
    scope: frozenset[Output]  # the audited outputs
    results: list[Result] = field(default_factory=list[Result])
    claims: dict[Claim, list[Output]] = field(default_factory=dict[Claim, list[Output]])  # with the outputs concerned
    steps: dict[Claim, list[str]] = field(default_factory=dict[Claim, list[str]])  # names of steps without an output

    @cached_property
    def records(self) -> dict[Output, Record]:
        return {each: self.lineage.records[each] for each in self.scope if each in self.lineage.records}

    @cached_property
    def current(self) -> dict[Output, Record]:
        """Records of outputs that still exist and that no rebuild replaced."""
        return {output: record for output, record in self.records.items() if not self.lineage.is_superseded(output)}

    def of(self, grade: Grade) -> list[Claim]:
        """Return the claims of a grade, by subject, those about most outputs first."""
        claims = [claim for claim in self.claims if claim.grade is grade]
        return sorted(claims, key=lambda claim: (claim.subject, -len(self.claims[claim]), claim.text))

    def names(self, claim: Claim) -> list[str]:
        """Return the names of steps that a claim concerns, results first."""
        names = {*self.steps[claim], *map(self.lineage.name_of, self.claims[claim])}
        results = {result.step for result in self.results}
        return sorted(names, key=lambda name: (name not in results, name))

    def about(self, result: Result) -> list[Claim]:
        """Return the claims about a result and everything that it rests on, worst first."""
        found = [
            claim
            for claim, outputs in self.claims.items()
            if not result.rests_on.isdisjoint(outputs) or result.step in self.steps[claim]
        ]
        return sorted(found, key=lambda claim: (list(Grade).index(claim.grade), claim.subject))

    def add(self, claim: Claim, outputs: Iterable[Output], steps: Iterable[str] = ()) -> None:
        known = self.claims.setdefault(claim, [])
        known += [output for output in outputs if output not in known]
        self.steps.setdefault(claim, []).extend(steps)


def audit_store(store: Store, days: int = DAYS) -> Audit:
    """Audit every committed output and everything behind it."""
    lineage = read_lineage(store)
    return _looked(store, Audit(lineage, _rests_on(lineage, map(output_of, lineage.current.values()))), days)


def audit_outputs(store: Store, names: Iterable[str], days: int = DAYS) -> Audit:
    """Audit outputs by name and everything behind them. Raises UnknownStep with near misses."""
    lineage = read_lineage(store)
    outputs = dict.fromkeys(output for name in names for output in outputs_named(lineage, store, name))
    named = [(lineage.name_of(output), output) for output in outputs]
    results = [Result(name, name, output.identity, _rests_on(lineage, [output])) for name, output in named]
    return _looked(store, Audit(lineage, _rests_on(lineage, outputs), results), days)


def audit_record(store: Store, lineage: Lineage, record: Record) -> list[Claim]:
    """Return claims from one record, worst first, in addition to StoreClaims. Reads no file of the output."""
    audit = Audit(lineage, frozenset([output_of(record)]))
    _about_records(store, audit, DAYS)
    return [claim for grade in Grade for claim in audit.of(grade)]


def audit_plans(store: Store, plans: Sequence[Plan], days: int = DAYS) -> Audit:
    """Audit everything that these experiments need, and everything behind it."""
    lineage = read_lineage(store)
    results = [
        Result(name, step.name, step.identity, _rests_on(lineage, _made(plan.of(step))))
        for plan in plans
        for name, step in plan.experiment.results.items()
    ]
    scope = _rests_on(lineage, (made for plan in plans for each in plan.decisions for made in _made(each)))
    return _looked(store, Audit(lineage, scope, results), days, plans)


def _made(decision: Decision) -> list[Output]:
    """Return the output of a step, if it has one."""
    record = decision.record or decision.alias_target
    return [] if record is None else [output_of(record)]


def _rests_on(lineage: Lineage, outputs: Iterable[Output]) -> frozenset[Output]:
    """Return these outputs and everything behind them."""
    every = list(outputs)
    return frozenset([*every, *lineage.up(every)])


def _looked(store: Store, audit: Audit, days: int, plans: Sequence[Plan] = ()) -> Audit:
    """Add the store's claims, and for plans the claims of today's code and of the experiments."""
    for text in audit.lineage.unreadable:
        audit.add(Claim(Grade.UNTRUSTED, "corrupt record", text), ())
    _about_outputs(audit, StoreClaims(store, audit.lineage, revoked(store)))
    _about_bytes(store, audit)
    _about_records(store, audit, days)
    for plan in plans:
        _about_plan(audit, plan)
    if not plans:
        _undecontaminated_records(audit)
    return audit


def _about_outputs(audit: Audit, known: StoreClaims) -> None:
    """Add the store's claims, worded alike for all outputs that one cause concerns."""
    lineage = audit.lineage
    for output, claims in known.of(audit.scope).items():
        for claim in claims:
            if (bad := known.taint.found.get(output)) is not None and claim.is_bad:
                text = f"{bad.revocation.name}: {known.revocations.describe(bad.revocation)}"
                audit.add(Claim(Grade.UNTRUSTED, "revoked", text), [output])
            elif claim.subject == Subject.SUPERSEDED and output.identity not in lineage.current:
                grade = Grade.KNOWN if known.was_collected(output) else Grade.DOUBTFUL
                audit.add(Claim(grade, "taken away", claim.text), [output])
            elif claim.subject == Subject.SUPERSEDED:
                name = f"{lineage.name_of(output)} {output.identity[:12]}"
                text = f"built from earlier bytes of {name}: {claim.text}"
                readers = [each for each in lineage.used_by(output) if each in audit.scope]
                audit.add(Claim(Grade.DOUBTFUL, "replaced input", text), readers)
            elif claim.subject == Subject.GONE:
                audit.add(Claim(Grade.DOUBTFUL, "record gone", claim.text), [output])
            elif claim.subject == Subject.REMADE:
                audit.add(Claim(Grade.KNOWN, claim.subject, claim.text.partition(": ")[2]), [output])
            elif claim.subject not in UNDECIDED:
                audit.add(claim, [output])


def _about_bytes(store: Store, audit: Audit) -> None:
    snapshot, current = Snapshot(store, ()), audit.current
    by_attempt = {record.attempt: record for record in current.values()}  # outputs may share an attempt
    states = {attempt: state_of_files(snapshot, record) for attempt, record in by_attempt.items()}
    edited = store.disagreements(current.values())
    torn = store.bad_manifests(current.values())
    for output, record in current.items():
        files = states[record.attempt]
        if files.deleted:
            text = f"somebody deleted {record.attempt}; a run that needs it stops until you rebuild it with --rebuild"
            audit.add(Claim(Grade.DOUBTFUL, "deleted", text), [output])
            continue
        if wrong := edited.get(record.identity):
            audit.add(Claim(Grade.UNTRUSTED, "edited record", wrong), [output])
        if wrong := files.wrong or torn.get(record.attempt):
            audit.add(Claim(Grade.UNTRUSTED, "damaged", wrong), [output])
        for note in files.notes:
            audit.add(Claim(Grade.KNOWN, "touched", note), [output])


def _about_records(store: Store, audit: Audit, days: int) -> None:
    """Add claims on when bytes were last verified, and on how outputs were built."""
    _about_verification(store, audit, days)
    for output, record in audit.records.items():
        _about_making(audit, output, record)
    _about_code(store, audit)


def _about_verification(store: Store, audit: Audit, days: int) -> None:
    """Add claims on bytes that were not verified lately. Commit and mirror saw every byte, so they count."""
    verified = last_verified(store)
    limit = write_time(time.time() - days * 86_400)

    def last(record: Record) -> str:
        copied = (copy.when for copy in record.mirrored)
        return max(record.provenance.ended, *copied, verified.get(record.attempt, ""))

    if late := [output for output, record in audit.current.items() if last(record) < limit]:
        text = f"no check has read its bytes for {days} days or more: run `marin audit --bytes`"
        audit.add(Claim(Grade.DOUBTFUL, "not verified", text), late)


def _about_making(audit: Audit, output: Output, record: Record) -> None:
    if record.provenance.git.endswith("+dirty"):
        text = f"the work tree at {record.provenance.git[:10]} had uncommitted changes"
        audit.add(Claim(Grade.DOUBTFUL, "dirty git tree", text), [output])
    for read in record.inputs:
        if read.checked in PARTLY:
            text = f"{read.name}: {PARTLY[read.checked]}; see --check-inputs"
            audit.add(Claim(Grade.DOUBTFUL, "inputs not verified", text), [output])
    for name, then in record.packages.items():
        if (now := _version(name)) != then:
            audit.add(Claim(Grade.KNOWN, "packages", f"{name} {then}, here {now}"), [output])


def _about_code(store: Store, audit: Audit) -> None:
    """Add claims on code that the analysis did not see through, or that the store does not hold."""
    made = ((record.code, output) for output, record in audit.records.items() if record.op not in (ADOPT, PINNED))
    for code, outputs in grouped(made).items():
        try:
            stored = stored_code(store, code)
            wrong = "the store does not hold the source code that built these outputs" if stored is None else ""
        except CorruptRecord as error:
            stored, wrong = None, str(error)
        if wrong:
            audit.add(Claim(Grade.DOUBTFUL, "code not kept", wrong), outputs)
        for note in stored.opaque if stored is not None else ():
            audit.add(Claim(Grade.KNOWN, "opaque code", note), outputs)


@cache
def _version(package: str) -> str:
    if package == "python":
        return ".".join(platform.python_version_tuple()[:2])
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _about_plan(audit: Audit, plan: Plan) -> None:
    """Add claims from today's code and the experiment itself."""
    for decision in plan.decisions:
        outputs = _made(decision)
        steps = [] if outputs else [decision.step.name]
        if decision.action is Action.STOP and decision.trust not in (Trust.REVOKED, Trust.CORRUPT):
            text = listed(decision.drift, 1) or decision.reason
            audit.add(Claim(Grade.UNTRUSTED, "drifted" if decision.drift else "pin", text), outputs, steps)
        elif decision.action is Action.STOP and not outputs:
            audit.add(Claim(Grade.UNTRUSTED, str(decision.trust), decision.reason), (), steps)
        for note in decision.notes:
            if note.startswith(("pinned although", "cannot be compared")):
                audit.add(Claim(Grade.DOUBTFUL, "pin", note), outputs, steps)
    results = plan.experiment.results.values()
    if missing := [step.name for step in results if plan.of(step).action in (Action.RUN, Action.RECHECK)]:
        text = "the store has no output for the experiment as it is now; `marin plan` says why"
        audit.add(Claim(Grade.UNTRUSTED, "not made", text), (), missing)
    records = {step.label: plan.of(step).record for step in plan.experiment.steps() if step.work() is not None}
    found = undecontaminated(plan.experiment.steps())
    for source, labels in found.runs.items():
        runs = [output_of(record) for label in labels if (record := records.get(label)) is not None]
        text = f"{source} reached the tokenizer without decontamination"
        audit.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), runs)
    for step in plan.experiment.steps():
        if step.name in found.elsewhere and (record := plan.of(step).record) is not None:
            text = f"the training text of {step.name} is unknown, because it was trained elsewhere"
            audit.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), [output_of(record)])
        for test in {each.label or each.name for each in step.evaluated_on()} & found.missed.keys():
            text = f"the model read {listed(found.missed[test], 3)}; no step searched this text for {test}"
            scores = plan.of(step).record
            audit.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), [] if scores is None else [output_of(scores)])


def _undecontaminated_records(audit: Audit) -> None:
    """Add token stores that reached a checkpoint with text that no decontamination searched, as far as records say."""
    for output, record in audit.records.items():
        for each in audit.lineage.inputs(output) if record.kind == "checkpoint" else ():
            read = audit.lineage.records.get(each)
            if read is not None and read.kind == "tokens" and not _is_clean(audit.lineage, each):
                text = f"{read.label or read.name} reached the tokenizer without decontamination"
                audit.add(Claim(Grade.DOUBTFUL, "undecontaminated", text), [output])


def _is_clean(lineage: Lineage, start: Output) -> bool:
    """Return whether every path from text to these tokens passes a decontamination. An unknown output may be text."""
    pending, seen, records = [start], {start}, lineage.records
    while pending:
        output = pending.pop()
        if output in records and records[output].op == DECONTAMINATE:
            continue
        text = [each for each in lineage.inputs(output) if each not in records or records[each].kind in TEXT]
        if not text:
            return False
        pending += [each for each in text if each not in seen]
        seen.update(text)
    return True


def span(audit: Audit) -> str:
    """Return when the audited outputs were built, and by whom."""
    made = [record.provenance for record in audit.records.values()]
    if not made:
        return f"nothing exists; audited on {time.strftime('%Y-%m-%d')}"
    days = sorted({each.ended[:10] for each in made})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"made {when} by {listed(sorted({each.who for each in made}), 3)}"
