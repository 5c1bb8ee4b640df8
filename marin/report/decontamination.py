"""Find gaps in decontamination in the graph, before any byte is read.

A gap is training data that reached a tokenizer without a decontamination step, or with a step that did not search for
the items of the model's evaluations.
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
NAMED, FEW = 12, 4  # sources or tests in a sentence; sources of one test


@dataclass(frozen=True)
class Undecontaminated:
    """Training data of an experiment that was not decontaminated, or not against every evaluation."""

    runs: Mapping[str, list[str]]  # labels of the runs that draw from a source, by the source's name
    sources: int  # all training sources, clean ones included
    missed: Mapping[str, list[str]]  # by evaluation, decontaminated sources that were not searched for its items
    evaluated: bool = False  # whether any evaluation could meet its items in the training data
    elsewhere: tuple[str, ...] = ()  # published models that are evaluated, or trained on and evaluated

    @property
    def doubt(self) -> str:
        """The sentence, if scores may be of items that were trained on; else ""."""
        return self.sentence() if self.doubts else ""

    @property
    def doubts(self) -> list[str]:
        """The sentences that name a gap, one for each kind; none where no evaluation could meet its items."""
        gaps = (self._passed() if self.runs else "", self._missed(), self.unknown)
        return [gap for gap in gaps if gap and self.evaluated]

    def sentence(self) -> str:
        """Return the sentence for a page; "" if nothing is trained."""
        return " ".join(part for part in (self._passed(), self._missed(), self.unknown) if part)

    @property
    def unknown(self) -> str:
        """Return what nobody can know of the text of published models; "" if none is evaluated."""
        if not self.elsewhere:
            return ""
        return (
            f"Unknown: the training text of {listed(self.elsewhere, NAMED)} before this experiment. marin cannot "
            "search that text; only scores can show whether it held test items (ContaminationEvidence)."
        )

    def _missed(self) -> str:
        if not self.missed:
            return ""
        searches = [
            f"{listed(names, NAMED)} ({counted(len(sources), 'source')}: {listed(sources, FEW)})"
            for sources, names in grouped((tuple(sources), test) for test, sources in self.missed.items()).items()
        ]
        return (
            f"Decontamination did not search for every evaluation of the model: {'; '.join(searches)}. Items of these "
            "evaluations may be in the training data; add them to Decontaminate(against=…), read by ReadItems or "
            "ReadSuite."
        )

    def _passed(self) -> str:
        if not self.sources:
            return ""
        if not self.runs:
            every = "The training source was" if self.sources == 1 else f"All {self.sources} training sources were"
            return f"{every} decontaminated."
        named = "; ".join(f"{name} ({', '.join(labels)})" for name, labels in list(self.runs.items())[:NAMED])
        more = f"; and {len(self.runs) - NAMED} more" if len(self.runs) > NAMED else ""
        reached = "This source reached the tokenizer without decontamination"
        reached = reached if len(self.runs) == 1 else "These sources reached the tokenizer without decontamination"
        rest = self.sources - len(self.runs)
        others = f"the other {rest} training sources were" if rest else "no source was"
        return f"Not decontaminated: {named}{more}. {reached}; {others} decontaminated."


def undecontaminated(steps: Iterable[ExecutorStep[Any]]) -> Undecontaminated:
    """Return the gaps in decontamination. steps: of an experiment, dependencies first, evaluations included."""
    runs: dict[str, list[str]] = {}
    known: dict[ExecutorStep[Any], bool] = {}
    read: dict[ExecutorStep[Any], frozenset[ExecutorStep[Any]]] = {}  # by step, the sources trained on before, if any
    tested: dict[ExecutorStep[Any], frozenset[ExecutorStep[Any]]] = {}
    every: set[ExecutorStep[Any]] = set()
    published: dict[ExecutorStep[Any], frozenset[str]] = {}  # by step, the models behind it, if any
    asked: set[str] = set()
    for step in steps:
        if step.work() is not None:
            stages = [cast("Stages[Any]", field) for field in vars(step).values() if isinstance(field, Stages)]
            read[step] = drawn = frozenset(source for each in stages for source in each.sources)
            every |= drawn
            for name in sorted({source_name(source) for source in drawn if not _is_clean(source, known)}):
                runs.setdefault(name, []).append(step.label)
        if step.op in PUBLISHED:
            published[step] = frozenset({step.name})
        _inherit(read, step)
        _inherit(published, step)
        for test in step.evaluated_on():
            asked |= published.get(step, frozenset())
            tested[test] = tested.get(test, frozenset()) | read.get(step, frozenset())
    missed: dict[str, set[str]] = {}
    for test, sources in tested.items():
        wanted, looked = _items_behind(test), dict[ExecutorStep[Any], bool]()
        for each in sources:
            if known[each] and not _is_clean(each, looked, wanted):
                missed.setdefault(test.label or test.name, set()).add(source_name(each))
    named = {test: sorted(names) for test, names in sorted(missed.items())}
    return Undecontaminated(dict(sorted(runs.items())), len(every), named, bool(tested), tuple(sorted(asked)))


def _inherit[T](found: dict[ExecutorStep[Any], frozenset[T]], step: ExecutorStep[Any]) -> None:
    """Add to a step what was found for its dependencies."""
    if found and (above := [found[each] for each in step.dependencies if each in found]):
        found[step] = found.get(step, frozenset[T]()).union(*above)


def _is_clean(
    step: ExecutorStep[Any], known: dict[ExecutorStep[Any], bool], wanted: set[ExecutorStep[Any]] | None = None
) -> bool:
    """Return whether every path from raw text to this step passes a decontamination.

    The training text of a tokenizer does not count as a path. wanted: the decontamination must search for these items;
    None for any.
    """
    if step not in known:
        text = [each for each in step.dependencies if _is_text(step, each)]
        against = [each for each in step.dependencies if each not in text]
        looks = step.op == DECONTAMINATE and (wanted is None or any(wanted & _items_behind(each) for each in against))
        known[step] = looks or (bool(text) and all(_is_clean(each, known, wanted) for each in text))
    return known[step]


def _items_behind(items: ExecutorStep[Any]) -> set[ExecutorStep[Any]]:
    """Return these items and everything they were read from: readers of the same files search for the same items."""
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
    """Return whether a step makes text for the reader.

    Only the store knows the content of a pin. The kind of the reader's field decides; a pin without one counts as text.
    """
    if step.pin is not None:
        kinds = kinds_read(reader, step)
        return not kinds or any(issubclass(kind, Documents | Tokens) for kind in kinds)
    return _makes(step, Documents | Tokens)
