"""Search many texts for the items of evaluation suites, and keep counts and a few example passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from marin.text.overlap import Hit, OverlapIndex
from marin.text.places import words_of

EXAMPLES = 5  # passages to keep
AROUND = 60  # characters before and after a passage
LONGEST = 240  # characters of a passage


@dataclass(frozen=True, kw_only=True)
class Passage:
    """A passage that holds an item. place: of the text. part, coverage, form, way: of the Hit. text: the passage."""

    place: str
    suite: str
    item: str
    part: str
    coverage: float
    form: str
    way: str
    before: str
    text: str
    after: str


@dataclass
class FoundItems:
    """The results for one suite. texts: number that hold any of its items. forms, ways: number of texts with each."""

    texts: int = 0
    items: set[str] = field(default_factory=set[str])
    forms: Counter[str] = field(default_factory=Counter[str])
    ways: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Searched:
    """The texts searched so far, and the results. bytes: UTF-8. holding: texts with an item of any suite."""

    texts: int = 0
    bytes: int = 0
    holding: int = 0
    suites: dict[str, FoundItems] = field(default_factory=dict[str, FoundItems])
    passages: list[Passage] = field(default_factory=list[Passage])

    def look_through(self, texts: Iterable[tuple[str, str]], suites: Mapping[str, OverlapIndex]) -> None:
        """Search texts for the suites' items. texts: (place, text). An error while reading keeps the results so far."""
        for place, text in texts:
            words = words_of(text)
            found = {suite: hits for suite, index in suites.items() if (hits := index.find(words))}
            for suite, hits in found.items():
                ids = [suites[suite].items[hit.item].id for hit in hits]
                one = self.suites.setdefault(suite, FoundItems())
                one.texts += 1
                one.items.update(ids)
                one.forms.update({hit.form for hit in hits})
                one.ways.update({str(hit.way) for hit in hits})
                if len(self.passages) < EXAMPLES and all(ids[0] != each.item for each in self.passages):
                    self.passages.append(_passage(place, text, suite, ids[0], hits[0]))
            self.texts += 1
            self.bytes += len(text.encode())
            self.holding += bool(found)


def cut(text: str, hit: Hit) -> tuple[str, str, str]:
    """Return (text before, passage, text after), short enough for people. A long passage loses its middle."""
    inside = text[hit.start : hit.end]
    if len(inside) > LONGEST:
        inside = f"{inside[: LONGEST * 3 // 4]} … {inside[-LONGEST // 4 :]}"
    return text[max(hit.start - AROUND, 0) : hit.start], inside, text[hit.end : hit.end + AROUND]


def _passage(place: str, text: str, suite: str, item: str, hit: Hit) -> Passage:
    before, inside, after = cut(text, hit)
    return Passage(
        place=place,
        suite=suite,
        item=item,
        part=hit.part,
        coverage=hit.coverage,
        form=hit.form,
        way=hit.way,
        before=before,
        text=inside,
        after=after,
    )
