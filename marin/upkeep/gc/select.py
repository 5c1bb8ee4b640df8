"""Select the garbage that ``marin gc`` may delete, and the reasons why other outputs stay. Decides from a survey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from marin.errors import BadField
from marin.plan.outside_data import listing
from marin.steps.experiment import Experiment
from marin.steps.lifetime import Rule, parse_lifetime
from marin.store.files.transfer import side_by_side
from marin.store.in_use import RECENT, Needs, Run
from marin.store.in_use import SHORT as NEEDED
from marin.store.layout import ACTIONS, CLAIMS, CODE, ENDS, OUTSIDE, STAMPS, SUPERSEDED, USES, claim_name, state_name
from marin.store.lineage import ADOPT, Output, output_of
from marin.store.process import Holder
from marin.store.record import Record
from marin.upkeep.gc.garbage import Garbage, GarbageKind
from marin.upkeep.gc.survey import StoreSurvey

DAY = 86400.0  # seconds
STALE = 3600.0  # seconds without a change of a claim or beat; a live holder rewrites them every few seconds
SHORT = 12  # digits of the identity in an attempt's directory
OLDER_THAN = 7.0  # days
WORK = 30.0  # days that work in progress stays at least: it may be weeks of training that waits for machines


class KeepReason(StrEnum):
    """The reason why an output stays, the strongest reason first."""

    NEEDED = "a run needs it, or did within a day"
    RESULT = "a result of an experiment that was named"
    PINNED = "pinned"
    REPLACEMENT = "the replacement of a revoked output"
    REACHED = "part of an experiment that was named"
    SHARED = "another output shares its files"
    READ = "something that stays was made from it"
    LASTING = "its lifetime is not over"
    FOREVER = "kept for good"


class Roots(Struct, frozen=True):
    """The steps, results and pins of experiments, which gc keeps."""

    steps: frozenset[str] = frozenset()  # identities
    results: frozenset[str] = frozenset()  # identities
    pins: frozenset[str] = frozenset()  # directories


def roots_of(experiments: Iterable[Experiment]) -> Roots:
    every = list(experiments)
    steps = [step for experiment in every for step in experiment.steps()]
    return Roots(
        steps=frozenset(step.identity for step in steps),
        results=frozenset(step.identity for experiment in every for step in experiment.results.values()),
        pins=frozenset(step.pin.at for step in steps if step.pin is not None),
    )


class Selection(Struct, frozen=True):
    goes: list[Garbage]
    stays: Counter[KeepReason]  # number of outputs by reason
    bytes: int  # of the outputs that stay
    unknown: tuple[str, ...]  # directories named like attempts of steps never begun here; they stay
    named: dict[str, KeepReason]  # why named outputs stay


class GcOptions(Struct, frozen=True, kw_only=True):
    """The options of a gc.

    at_once: wait no days, not even the day during which an ended run may be started again. Work in progress still
    waits, unless ``kinds`` names only work in progress.
    """

    roots: Roots = Roots()
    older_than: float = OLDER_THAN  # days
    unreachable: bool = False  # take also outputs that no root reaches
    kinds: frozenset[GarbageKind] = frozenset(GarbageKind)  # take only these
    at_once: bool = False
    named: frozenset[str] = frozenset()  # outputs to delete unless an output that stays was built from them
    though_read: bool = False  # delete them in that case, too


def find_garbage(survey: StoreSurvey, options: GcOptions, now: float) -> Selection:
    """Return the garbage of a store, and why its other outputs stay. Raises BadField if all would be unreachable.

    now: in seconds since 1970, by the store's clock.
    """
    if options.unreachable and options.roots.steps.isdisjoint(survey.records):
        raise BadField(
            f"--unreachable: none of the {len(options.roots.steps)} steps of the named experiments is in the store "
            f"{survey.store.prefix}, so every output would go. Check --prefix, --experiment and --scale"
        )
    return _Search(survey, options, now).found()


class _Search:
    def __init__(self, survey: StoreSurvey, options: GcOptions, now: float) -> None:
        self.survey, self.options, self.roots, self.now = survey, options, options.roots, now
        self.records, self.claims = survey.records, survey.claims
        self.older_than = 0.0 if options.at_once else options.older_than * DAY
        recent = 0.0 if options.at_once else RECENT * DAY
        held = {identity[:NEEDED] for identity in self.claims if self._is_held(identity)}
        self.lasting = {run.name for run in survey.runs if self._lasts(run, held)}
        runs = (run for run in survey.runs if run.name in self.lasting or self._age(run) < recent)
        self.needs = Needs.union(run.needs for run in runs)
        self.needed, self.read = set(self.needs.identities), set(self.needs.attempts)
        self.pins = survey.with_data(self.roots.pins)
        replacements = (entry.replacement for entry in survey.revocations.all)
        self.instead = survey.with_data({entry.at for entry in replacements if entry is not None})
        self.by_directory: dict[str, list[Record]] = {}
        for record in self.records.values():
            self.by_directory.setdefault(record.attempt, []).append(record)
        self.last_read = self._last_reads()

    def found(self) -> Selection:
        """Return everything that may go. Outputs with one directory go together or not at all."""
        why = self._reasons()
        outputs, size = list[Garbage](), 0
        for records in self.by_directory.values():
            pieces = [piece for record in records if isinstance(piece := why[record.identity], Garbage)]
            if pieces:
                last = max(pieces, key=lambda piece: piece.since or 0.0)
                identities = tuple(record.identity for record in records)
                outputs.append(replace(last, name=records[0].name, identities=identities, records=tuple(records)))
            else:
                size += records[0].bytes
        attempts, unknown = self._attempts()
        gone = {folder for piece in [*outputs, *attempts] for folder in piece.folders}
        every = [*outputs, *attempts, *self._work(), *self._leftovers(gone)]
        goes = [piece for piece in every if piece.kind in self.options.kinds]
        stays = {identity: reason for identity, reason in why.items() if isinstance(reason, KeepReason)}
        named = {identity: reason for identity, reason in stays.items() if identity in self.options.named}
        return Selection(goes, Counter(stays.values()), size, unknown, named)

    def _may_live(self, holder: Holder, name: str) -> bool:
        """May the holder of this claim or beat be alive?"""
        written = self.survey.written(name)
        return not holder.is_gone() and (holder.is_here() or not written or self.now - written < STALE)

    def _is_held(self, identity: str) -> bool:
        """May a live process be making this step?"""
        claim = self.claims.get(identity)
        return claim is not None and self._may_live(claim.holder, claim_name(identity, claim.number))

    def _lasts(self, run: Run, held: set[str]) -> bool:
        """May a run be alive: its driver, or one of its workers, which may outlive it? held: steps being made."""
        if run.beat is None:
            return False
        return self._may_live(run.beat.holder, f"{USES}/{run.name}.beat") or not held.isdisjoint(run.needs.identities)

    def _age(self, run: Run) -> float:
        """Return the seconds since a run last wrote its needs or its beat; minus infinity if the store has no times."""
        own = [each.modified for name, each in self.survey.files(USES).items() if name.partition(".")[0] == run.name]
        return self.now - max(filter(None, own), default=float("inf"))

    def _last_reads(self) -> dict[Output, float]:
        """Return when a commit last read each output. A replaced or deleted record keeps the time of its commit."""
        every = list(self.records.values())
        if any(parse_lifetime(record.lifetime).rule is Rule.UNUSED for record in every):
            every += self.survey.past
        last: dict[Output, float] = {}
        for record in every:
            made = self.survey.made(record)
            for each in record.inputs:
                output = Output(each.identity, each.root)
                last[output] = max(last.get(output, 0.0), made)
        return last

    def _reasons(self) -> dict[str, KeepReason | Garbage]:
        """Return why each output stays, or the output as garbage, by identity."""
        why = {record.identity: self._why(record) for record in self.records.values()}
        pending: list[Record] = []

        def keep(records: list[Record], reason: KeepReason) -> None:
            pending.extend(records)
            why.update({each.identity: reason for each in records if isinstance(why[each.identity], Garbage)})

        for records in self.by_directory.values():
            if not all(isinstance(why[record.identity], Garbage) for record in records):
                keep(records, KeepReason.SHARED)
            elif any(self._is_held(record.identity) for record in records):
                keep(records, KeepReason.NEEDED)
        made = {output_of(record): record for record in self.records.values()}
        while pending:  # what stays keeps what it was built from
            for each in pending.pop().inputs:
                read = made.get(Output(each.identity, each.root))
                piece = why[read.identity] if read is not None else None
                if read is not None and isinstance(piece, Garbage) and not piece.hard:
                    keep(self.by_directory[read.attempt], KeepReason.READ)
        return why

    def _why(self, record: Record) -> KeepReason | Garbage:
        """Return why an output stays, or the output as garbage, as far as no other output decides that."""
        identity, directory = record.identity, record.attempt
        if identity[:NEEDED] in self.needed or directory in self.read:
            return KeepReason.NEEDED
        if identity in self.roots.results:
            return KeepReason.RESULT
        if directory in self.pins:
            return KeepReason.PINNED
        if directory in self.instead:
            return KeepReason.REPLACEMENT
        made = self.survey.made(record)
        last = max(made, self.last_read.get(output_of(record), 0.0))
        piece = Garbage(
            kind=GarbageKind.NAMED,
            name=record.name,
            why="named",
            bytes=record.bytes,
            files=record.files,
            since=last,
            folders=(directory,),
            hard=self.options.though_read,
        )
        if identity in self.options.named:
            return piece
        # Nobody can rebuild adopted outputs.
        unreachable = self.options.unreachable and identity not in self.roots.steps and record.op != ADOPT
        if unreachable and self.now - last > self.older_than:
            run = record.provenance
            by = f"{run.experiment} · {run.who}" if run.experiment else run.who
            return replace(piece, kind=GarbageKind.UNREACHABLE, why=f"made for {by}", hard=True)
        lifetime = parse_lifetime(record.lifetime)
        if lifetime.rule is Rule.FOREVER:
            return KeepReason.REACHED if identity in self.roots.steps else KeepReason.FOREVER
        hard = lifetime.rule is Rule.UNUSED
        last = last if hard else made
        if self.now - last <= lifetime.days * DAY:
            return KeepReason.LASTING
        return replace(piece, kind=GarbageKind.EXPIRED, why=lifetime.describe(), since=last, hard=hard)

    def _attempts(self) -> tuple[list[Garbage], tuple[str, ...]]:
        """Return the attempts to delete that have no record, and directories of unknown steps."""
        # In a store of before, an alias has a directory of its own, which holds only its record. A pin may name it.
        aliases = {record.identity[:SHORT] for record in self.records.values() if record.alias_of and not record.token}
        spared = aliases | {identity[:SHORT] for identity in self.needed}
        kept = {*self.by_directory, *self.pins, *self.instead, *self.read}
        by_short: dict[str, list[str]] = {}  # one identity each, unless 48 bits collide
        for identity in self.survey.inventory.known:
            by_short.setdefault(identity[:SHORT], []).append(identity)
        past = {record.attempt: record for record in self.survey.past if not record.alias_of}
        unknown, possible = list[str](), list[Garbage]()
        for attempt in self.survey.attempts:
            identities, directory = by_short.get(attempt.short, []), attempt.directory
            if not identities and attempt.short not in aliases:  # no run began this step here
                unknown.append(directory)
            if not identities or attempt.short in spared or directory in kept:
                continue
            fenced = [each for each in identities if each in self.claims and self.claims[each].attempt == directory]
            if any(map(self._is_held, fenced)):
                continue
            replaced = past.get(directory)
            collected = replaced is not None and replaced.identity in self.survey.inventory.collected
            now = self.records.get(replaced.identity) if replaced is not None else None
            possible.append(
                Garbage(
                    kind=GarbageKind.REPLACED if replaced is not None else GarbageKind.UNFINISHED,
                    name=attempt.name,
                    identities=tuple(identities),
                    why="made again since" if now is not None else "its record is gone" if replaced is not None else "",
                    since=0.0 if collected else self.survey.made(now) if now is not None else None,
                    folders=(directory,),
                    fenced=tuple(fenced),
                )
            )
        return self._old(possible, self.older_than), tuple(unknown)

    def _work(self) -> list[Garbage]:
        possible: list[Garbage] = []
        names = {attempt.short: attempt.name for attempt in self.survey.attempts}
        for identity in sorted(self.survey.in_progress):
            record = self.records.get(identity)
            wanted = identity in self.roots.steps and record is None
            if identity[:NEEDED] in self.needed or self._is_held(identity) or wanted:
                continue
            possible.append(
                Garbage(
                    kind=GarbageKind.WORK,
                    name=record.name if record is not None else names.get(identity[:SHORT], identity[:SHORT]),
                    identities=(identity,),
                    why="of an abandoned rebuild" if record is not None else "not continued",
                    folders=(state_name(identity),),
                    fenced=(identity,) if identity in self.claims else (),
                )
            )
        alone = self.options.at_once and self.options.kinds == frozenset({GarbageKind.WORK})
        return self._old(possible, 0.0 if alone else max(self.older_than, WORK * DAY))

    def _old(self, possible: list[Garbage], least: float) -> list[Garbage]:
        """Return the pieces that are old, with their extent. Pieces without a time have the time of their files."""
        found = side_by_side(self.survey.with_extent, possible)
        return [piece for piece in found if not least or self.now - (piece.since or 0.0) > least]

    def _leftovers(self, gone: set[str]) -> list[Garbage]:
        """Return the control files that nothing refers to. gone: the directories that gc is about to delete.

        They are at least an hour old, because a file may exist before the output that it belongs to.
        """
        over = max(self.older_than, RECENT * DAY)
        ended = {each.name for each in self.survey.runs if each.name not in self.lasting and self._age(each) > over}
        stamped = {each.directory.replace("/", "--") for each in self.survey.attempts if each.directory not in gone}
        code = {*self.needs.code, *(made.code for made in self.survey.built_from)}
        lists = {*self.needs.code, *(listing(made.outside) for made in self.survey.built_from)}
        left: dict[str, tuple[str, Callable[[str], bool]]] = {  # name for people, and whether something needs a file
            USES: ("needs of runs that ended", lambda file: file.partition(".")[0] not in ended),
            STAMPS: ("stamps of outputs that are gone", lambda file: file in stamped),
            ACTIONS: ("actions of outputs that are gone", lambda file: file[-64:] in self.records),
            CODE: ("sources of code that built no known output", lambda file: file.removesuffix(".json") in code),
            OUTSIDE: (
                "lists of outside data that no known output read",
                lambda file: file.removesuffix(".json") in lists,
            ),
            **{folder: (f"half-written files in {folder}", lambda _: True) for folder in (CLAIMS, ENDS, SUPERSEDED)},
        }
        found: list[Garbage] = []
        for folder, (name, is_needed) in left.items():
            every = {f"{folder}/{file}": each for file, each in self.survey.files(folder).items()}
            files = {path: each for path, each in every.items() if self._is_left(path, each.modified, is_needed)}
            if files:
                found.append(
                    Garbage(
                        kind=GarbageKind.LEFTOVERS,
                        name=name,
                        bytes=sum(each.size for each in files.values()),
                        files=len(files),
                        since=min(each.modified for each in files.values()),
                        objects=tuple(sorted(files)),
                    )
                )
        return found

    def _is_left(self, path: str, modified: float, is_needed: Callable[[str], bool]) -> bool:
        """Return whether a control file is old, and half written or not needed."""
        file = path.rpartition("/")[2]
        is_half = file.startswith(".")
        is_old = 0.0 < modified < self.now - max(self.older_than, DAY if is_half else STALE)
        return is_old and (is_half or not is_needed(file))
