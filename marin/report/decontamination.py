"""Which training data reached a tokenizer without a decontamination step, or with one that looked for other items than
those that the model is evaluated on: read off the graph, before any byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, cast

from marin.data.artifacts import Documents, Items, RawFiles, Tokens
from marin.data.mixture import Stages, source_name
from marin.plan.pinned import kinds_read
from marin.report.words import grouped
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, listed

DECONTAMINATE = "decontaminate"  # the operator's name
PUBLISHED = frozenset({"pretrained-model", "folder-model"})  # operators whose models were trained elsewhere
NAMED, FEW = 12, 4  # sources, or tests, that a sentence names; sources of a test


@dataclass(frozen=True)
class Undecontaminated:
    """What was trained on as it came."""

    runs: Mapping[str, list[str]]  # labels of the runs that draw from a source, by the source's name
    sources: int  # that were trained on, clean ones included
    missed: Mapping[str, list[str]]  # by what it is evaluated on, the decontaminated sources that were not freed of it
    evaluated: bool = False  # on anything of which there may be some in what was trained on
    elsewhere: tuple[str, ...] = ()  # published models that are evaluated, or trained on and evaluated

    @property
    def doubt(self) -> str:
        """The sentence, where scores may be of what was trained on; else ""."""
        return self.sentence() if self.evaluated and (self.runs or self.missed or self.elsewhere) else ""

    def sentence(self) -> str:
        """For a page; "" if nothing is trained on."""
        return " ".join(part for part in (self._passed(), self._missed(), self.unknown) if part)

    @property
    def unknown(self) -> str:
        """Return what nobody can know of the text of published models; "" if none is evaluated."""
        if not self.elsewhere:
            return ""
        return (
            f"Not known: the text that {listed(self.elsewhere, NAMED)} read before. The detectors by score still look "
            "for test items in it."
        )

    def _missed(self) -> str:
        if not self.missed:
            return ""
        told = [
            f"{listed(names, NAMED)} ({counted(len(sources), 'source')}: {listed(sources, FEW)})"
            for sources, names in grouped((tuple(sources), test) for test, sources in self.missed.items()).items()
        ]
        return (
            f"It did not look for all that the model is evaluated on: {'; '.join(told)}. Those scores may be of items "
            "that were trained on: name them in Decontaminate(against=…), read by ReadItems or ReadSuite."
        )

    def _passed(self) -> str:
        if not self.sources:
            return ""
        if not self.runs:
            every = "The source that was" if self.sources == 1 else f"All {self.sources} sources that were"
            return f"{every} trained on passed through decontamination."
        named = "; ".join(f"{name} ({', '.join(labels)})" for name, labels in list(self.runs.items())[:NAMED])
        more = f"; and {len(self.runs) - NAMED} more" if len(self.runs) > NAMED else ""
        reached = "It reached the tokenizer as it was"
        reached = reached if len(self.runs) == 1 else "They reached the tokenizer as they were"
        rest = self.sources - len(self.runs)
        others = f"the other {rest} sources that were trained on" if rest else "no source"
        return f"Not decontaminated: {named}{more}. {reached}; {others} passed through decontamination."


def undecontaminated(steps: Iterable[ExecutorStep[Any]]) -> Undecontaminated:
    """steps: those of an experiment, dependencies first; trainings and evaluations among them count."""
    runs: dict[str, list[str]] = {}
    known: dict[ExecutorStep[Any], bool] = {}
    read: dict[ExecutorStep[Any], frozenset[ExecutorStep[Any]]] = {}  # by each step, the sources trained on before it
    tested: dict[ExecutorStep[Any], frozenset[ExecutorStep[Any]]] = {}
    every: set[ExecutorStep[Any]] = set()
    published: dict[ExecutorStep[Any], frozenset[str]] = {}  # by each step, the models behind it
    asked: set[str] = set()
    for step in steps:
        stages = [cast("Stages[Any]", field) for field in vars(step).values() if isinstance(field, Stages)]
        drawn = {source for each in stages if step.work() is not None for source in each.sources}
        every |= drawn
        for name in sorted({source_name(source) for source in drawn if not _is_clean(source, known)}):
            runs.setdefault(name, []).append(step.label)
        read[step] = frozenset(drawn).union(*(read.get(each, ()) for each in step.dependencies))
        behind = frozenset({step.name}) if step.op in PUBLISHED else frozenset[str]()
        published[step] = behind.union(*(published.get(each, ()) for each in step.dependencies))
        for test in step.evaluated_on():
            asked |= published[step]
            tested[test] = tested.get(test, frozenset()) | read[step]
    missed: dict[str, set[str]] = {}
    for test, sources in tested.items():
        wanted, looked = _items_behind(test), dict[ExecutorStep[Any], bool]()
        for each in sources:
            if known[each] and not _is_clean(each, looked, wanted):
                missed.setdefault(test.label or test.name, set()).add(source_name(each))
    named = {test: sorted(names) for test, names in sorted(missed.items())}
    return Undecontaminated(dict(sorted(runs.items())), len(every), named, bool(tested), tuple(sorted(asked)))


def _is_clean(
    step: ExecutorStep[Any], known: dict[ExecutorStep[Any], bool], wanted: set[ExecutorStep[Any]] | None = None
) -> bool:
    """Does every way from raw text to this step pass a decontamination? The tokenizer's own training text is no way.

    wanted: by one that looks for these items; None for any.
    """
    if step not in known:
        text = [each for each in step.dependencies if _is_text(step, each)]
        against = [each for each in step.dependencies if each not in text]
        looks = step.op == DECONTAMINATE and (wanted is None or any(wanted & _items_behind(each) for each in against))
        known[step] = looks or (bool(text) and all(_is_clean(each, known, wanted) for each in text))
    return known[step]


def _items_behind(items: ExecutorStep[Any]) -> set[ExecutorStep[Any]]:
    """These, and what they were read from: whoever reads the same files looks for the same items."""
    found, pending = {items}, [items]
    while pending:
        new = [each for each in pending.pop().dependencies if _makes(each, Items | RawFiles) and each not in found]
        found.update(new)
        pending += new
    return found


def _makes(step: ExecutorStep[Any], kinds: UnionType) -> bool:
    made = type(step).__marin_makes__()
    return isinstance(made, type) and issubclass(made, kinds)


def _is_text(reader: ExecutorStep[Any], step: ExecutorStep[Any]) -> bool:
    """Only the store knows what a pin holds, so the field that it is in has to say, or it is taken for text."""
    if step.pin is not None:
        kinds = kinds_read(reader, step)
        return not kinds or any(issubclass(kind, Documents | Tokens) for kind in kinds)
    return _makes(step, Documents | Tokens)
