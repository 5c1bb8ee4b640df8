"""Claims about an output: reasons to doubt it and facts to know before relying on it, each with a grade."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from marin.errors import CorruptRecord
from marin.store.lineage import ADOPT, PINNED, Lineage, Output
from marin.store.revocation import Revocations
from marin.store.store import Store
from marin.store.trust import Taint


class Grade(StrEnum):
    """The grade of a claim, worst first."""

    UNTRUSTED = "not to be trusted"
    DOUBTFUL = "doubtful"
    KNOWN = "good to know"


@dataclass(frozen=True)
class Claim:
    """One thing to know about one output or several."""

    grade: Grade
    subject: str  # in a word or two
    text: str

    @property
    def is_bad(self) -> bool:
        """True if the claim forbids the use of its outputs."""
        return self.grade is Grade.UNTRUSTED


class Subject(StrEnum):
    """The subject of a claim that the store itself makes about an output, worst first."""

    REVOKED = "revoked"
    UNTRUSTED = "untrusted"
    GONE = "gone"
    SUPERSEDED = "superseded"  # a rebuild replaced it
    ACCEPTED = "drift accepted"
    REMADE = "made again"
    ADOPTED = "adopted"
    PINNED = "pinned"
    ALIAS = "alias"  # nothing ran; the bytes of another output serve
    MIRRORED = "mirrored"
    ELSEWHERE = "elsewhere"  # it stayed in the store from which an output built from it was mirrored


class StoreClaims:
    """Makes claims about outputs from the store's records. It reads acceptances for each request."""

    def __init__(self, store: Store, lineage: Lineage, revocations: Revocations) -> None:
        self.store, self.lineage, self.revocations = store, lineage, revocations
        self.taint = Taint(lineage, revocations)

    def of(self, outputs: Iterable[Output]) -> dict[Output, list[Claim]]:
        """Return the claims about each output, worst first."""
        every = list(outputs)
        accepted = self.store.acceptances.by_key() if every else dict[str, list[str]]()
        return {output: list(self._claims(output, accepted.get(output.identity, []))) for output in every}

    def was_collected(self, output: Output) -> bool:
        """Return whether ``marin gc`` deleted the output."""
        return output.identity in self.lineage.collected

    def _claims(self, output: Output, accepted: list[str]) -> Iterator[Claim]:
        """accepted: names of the acceptances of the output."""
        bad, record = self.taint.found.get(output), self.lineage.records.get(output)
        if bad is not None:
            subject = Subject.REVOKED if bad.is_revoked else Subject.UNTRUSTED
            yield Claim(Grade.UNTRUSTED, subject, bad.why.removeprefix("revoked "))
        if record is None:
            yield Claim(Grade.DOUBTFUL, Subject.GONE, "its record is missing; only its readers' records name its bytes")
            return
        made, origins = record.provenance, record.mirrored
        if origins and record.identity not in self.lineage.current:
            text = f"this store holds only its record; its bytes were at {origins[-1].origin}"
            yield Claim(Grade.KNOWN, Subject.ELSEWHERE, text)
            return
        if self.lineage.is_superseded(output):
            text = self.lineage.collected.get(record.identity, "its record is no longer current")
            if (now := self.lineage.current.get(record.identity)) is not None:
                because = f": {now.provenance.because}" if now.provenance.because else ""
                text = f"replaced {now.provenance.ended} by {now.provenance.who}{because}"
            yield Claim(Grade.DOUBTFUL, Subject.SUPERSEDED, text)
        elif accepted:
            try:
                entries = self.store.acceptances.read(accepted).get(output.identity, [])
                texts = [each.describe().removeprefix("drift accepted ") for each in entries]
            except CorruptRecord as error:
                texts = [str(error)]
            yield from (Claim(Grade.KNOWN, Subject.ACCEPTED, text) for text in texts)
        if record.op == ADOPT:
            yield Claim(Grade.KNOWN, Subject.ADOPTED, f"from {', '.join(record.outside)}: {made.because}")
        elif made.because:
            yield Claim(Grade.KNOWN, Subject.REMADE, f"{made.ended}: {made.because}")
        if record.alias_of:
            subject = Subject.PINNED if record.op == PINNED else Subject.ALIAS
            yield Claim(Grade.KNOWN, subject, f"the bytes are those of {record.attempt}")
        if origins:
            yield Claim(Grade.KNOWN, Subject.MIRRORED, origins[-1].describe().removeprefix("mirrored "))
