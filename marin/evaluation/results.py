"""Per-item results of an evaluation in a Scores directory.

Evaluate writes ``items.jsonl``. For EvaluateTasks, lm-evaluation-harness logs each item.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isclose
from statistics import fmean
from typing import Any

from marin.errors import CorruptOutput
from marin.evaluation.formats import Format, Span
from marin.evaluation.groups import Grouping
from marin.evaluation.items import Item
from marin.evaluation.samples import read_logged
from marin.evaluation.scoring import DocumentBits, TokenBits
from marin.store.files.directory import Directory

RESULTS_FILE = "items.jsonl"
SCORES_FILE = "scores.json"


@dataclass(frozen=True)
class ItemResult:
    """The result of one checkpoint on one item in one format. Sizes are UTF-8 bytes of the gold.

    final_*: of the final answer's span; 0 bytes if there is no such span. tag_*: of all calculator tags. opening_bits:
    of the characters ``<<``. openings: the number of ``<<``. correct, choice_probability: None if there were no
    choices, or if another metric says whether the answer was right. group: see marin.evaluation.groups, as "passage 3";
    "" for none.
    """

    task: str
    format: str
    id: str
    bits: float
    bytes: int
    final_bits: float = 0.0
    final_bytes: int = 0
    tag_bits: float = 0.0
    tag_bytes: int = 0
    opening_bits: float = 0.0
    openings: int = 0
    correct: bool | None = None
    choice_probability: float | None = None
    group: str = ""

    @property
    def bits_per_byte(self) -> float:
        return self.bits / self.bytes

    @property
    def final_bits_per_byte(self) -> float:
        return self.final_bits / self.final_bytes


@dataclass(frozen=True)
class DocumentResult:
    """The result of one checkpoint on one document, see marin.evaluation.scoring.DocumentBits. group: as ItemResult."""

    domain: str
    id: str
    bits: float
    bytes: int
    stripped_bits: float
    stripped_bytes: int
    group: str = ""


@dataclass(frozen=True)
class Results:
    """The per-item results of one evaluation.

    items: by (task, prompt form), in item order. documents: by domain, in document order. logged: by metric of the
    harness, the value of each item; only metrics that are the mean of their items. groups: by task or ``bpb/<domain>``,
    the items or documents that belong together.
    """

    items: Mapping[tuple[str, str], list[ItemResult]] = field(default_factory=dict[Any, list[ItemResult]])
    documents: Mapping[str, list[DocumentResult]] = field(default_factory=dict[str, list[DocumentResult]])
    logged: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    groups: Mapping[str, Grouping] = field(default_factory=dict[str, Grouping])

    def of(self, task: str, form: str) -> list[ItemResult]:
        """Return the results of a task in a prompt form. Raises CorruptOutput if it was not scored in that form."""
        if (task, form) not in self.items:
            held = ", ".join(sorted(f"{name}/{other}" for name, other in self.items)) or "none"
            raise CorruptOutput(f"no items of {task}/{form} were scored (scored: {held}); evaluate them first")
        return self.items[task, form]


@dataclass(frozen=True)
class Outcome:
    """The scores of an evaluation.

    metrics: the headline numbers. stderr: by metric, the standard error over items. results: document by document and
    item by item."""

    metrics: Mapping[str, float]
    stderr: Mapping[str, float]
    results: Results


def item_result(
    task: str, form: Format, item: Item, gold: TokenBits, choice: Mapping[str, Any], group: str = ""
) -> ItemResult:
    """Return the result of one item.

    choice: the harness's metrics of the item, with acc and choice_probability if the harness offered choices."""
    text = form.gold(item)
    final, tags = form.final_span(item), form.tag_spans(item)
    return ItemResult(
        task=task,
        format=form.value,
        id=item.id,
        bits=gold.total,
        bytes=len(text.encode()),
        final_bits=gold.within(*final),
        final_bytes=_bytes(text, final),
        tag_bits=sum(gold.within(*tag) for tag in tags),
        tag_bytes=sum(_bytes(text, tag) for tag in tags),
        opening_bits=sum(gold.within(start, start + 2) for start, _ in tags),
        openings=len(tags),
        correct=bool(choice["acc"]) if "acc" in choice else None,
        choice_probability=choice.get("choice_probability"),
        group=group,
    )


def document_result(domain: str, id: str, scored: DocumentBits, group: str = "") -> DocumentResult:
    return DocumentResult(domain=domain, id=id, **asdict(scored), group=group)


def groups_in_words(found: Grouping | None, ids: Iterable[str]) -> list[str]:
    """Return for each item its group, as "passage 3"; "" for an item without a group."""
    return [f"{found.by} {found.of[one]}" if found is not None and one in found.of else "" for one in ids]


def write_results(out: Directory, results: Results) -> None:
    """Write ``items.jsonl``, documents first, domains and tasks by name: the bytes depend on the results only."""
    documents = (one for domain in sorted(results.documents) for one in results.documents[domain])
    items = (one for key in sorted(results.items) for one in results.items[key])
    out.write_text(RESULTS_FILE, "".join(_lines((*documents, *items))))


def read_results(directory: Directory) -> Results:
    """Return the results that write_results or the harness wrote. Raises CorruptOutput naming the line that is none."""
    results = Results()
    items, documents = dict(results.items), dict(results.documents)
    logged, groups = _logged(directory)
    if logged and not directory.exists(RESULTS_FILE):
        return Results(logged=logged, groups=groups)
    # Bytes, because str.splitlines would also break a line at a U+2028 or U+0085 inside an id.
    with directory.open(RESULTS_FILE) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
                if "domain" in row:
                    documents.setdefault(row["domain"], []).append(DocumentResult(**row))
                else:
                    items.setdefault((row["task"], row["format"]), []).append(ItemResult(**row))
            except (KeyError, TypeError, ValueError) as error:
                raise CorruptOutput(
                    f"{directory.url}/{RESULTS_FILE} line {number} is not a result ({error}); rebuild the evaluation"
                ) from error
    named = {task: held for (task, _), held in items.items()}
    named |= {f"bpb/{domain}": held for domain, held in documents.items()}
    written = ((name, _written(held)) for name, held in named.items())
    return Results(items, documents, logged, groups | {name: held for name, held in written if held is not None})


def _written(results: Sequence[ItemResult | DocumentResult]) -> Grouping | None:
    of = {one.id: one.group for one in results if one.group}
    return Grouping(next(iter(of.values())).rpartition(" ")[0], of) if of else None


def _logged(directory: Directory) -> tuple[dict[str, Mapping[str, float]], dict[str, Grouping]]:
    found = read_logged(directory)
    if not found.scores:
        return {}, {}
    means: dict[str, float] = json.loads(directory.read_text(SCORES_FILE))["metrics"]
    scores: dict[str, Mapping[str, float]] = {
        metric: held
        for metric, held in sorted(found.scores.items())
        if len(held) > 1 and metric in means and isclose(fmean(held.values()), means[metric], abs_tol=1e-6)
    }
    return scores, found.groups


def _lines(results: Iterable[ItemResult | DocumentResult]) -> Iterable[str]:
    rows = ({name: held for name, held in asdict(one).items() if name != "group" or held} for one in results)
    return (json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def _bytes(text: str, span: Span) -> int:
    return len(text[span[0] : span[1]].encode())
