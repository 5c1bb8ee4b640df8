"""The evaluation of one checkpoint: bits per byte by domain, and items in every prompt format."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from marin.data.documents import Document
from marin.errors import NothingScored
from marin.evaluation.formats import Format
from marin.evaluation.groups import grouping
from marin.evaluation.harness import ItemTask, ScoringModel, evaluate_items
from marin.evaluation.items import Item
from marin.evaluation.results import DocumentResult, Outcome, Results, document_result, groups_in_words, item_result
from marin.evaluation.scoring import Scoring, bits_per_byte


@dataclass(frozen=True)
class TaskItems:
    """The items of a task. choices: candidate final answers for each item; 1 for likelihood only."""

    name: str
    items: Sequence[Item]
    choices: int


def evaluate_checkpoint(
    scoring: Scoring,
    domains: Mapping[str, Sequence[Document]],
    tasks: Sequence[TaskItems],
    formats: Sequence[Format],
    scored: Callable[[str], None],
) -> Outcome:
    """Return the metrics of a checkpoint, with the results of each document and item.

    Documents have ``bpb/<domain>`` and ``bpb_stripped/<domain>``, with means over domains (``macro_bpb``,
    ``macro_stripped_bpb``) and over all bytes (``micro_…``). Every task and format has ``<task>/<format>/bpb``,
    ``…/final_bpb``, ``…/accuracy`` and ``…/choice_probability``.

    scored: called with the name of each domain when the domain is done, then once with the names of all tasks.
    Raises NothingScored naming the domain or task that has nothing to score, and NonFiniteLoss.
    """
    metrics: dict[str, float] = {}
    stderr: dict[str, float] = {}
    documents: dict[str, list[DocumentResult]] = {}
    for domain, held in sorted(domains.items()):
        if not sum(len(document.text) for document in held):
            raise NothingScored(f"domain {domain}: {len(held)} documents without text; check the step that made them")
        bits = scoring.documents([document.text for document in held])
        groups = groups_in_words(grouping({d.id: d.metadata for d in held}), [d.id for d in held])
        documents[domain] = [
            document_result(domain, d.id, one, group) for d, one, group in zip(held, bits, groups, strict=True)
        ]
        metrics[f"bpb/{domain}"] = bits_per_byte([one.bits for one in bits], [one.bytes for one in bits])
        if stripped := sum(one.stripped_bytes for one in bits):
            metrics[f"bpb_stripped/{domain}"] = sum(one.stripped_bits for one in bits) / stripped
        scored(domain)
    metrics |= _over_domains(documents)

    model = ScoringModel(scoring)
    asked = {
        f"{task.name}/{form.value}": (task, form, ItemTask(f"{task.name}/{form.value}", task.items, form, task.choices))
        for task in tasks
        for form in formats
    }
    answers = evaluate_items(model, [harness_task for _, _, harness_task in asked.values()]) if asked else {}
    scored(", ".join(task.name for task in tasks))
    items = {}
    for name, (task, form, _) in asked.items():
        answer = answers[name]
        groups = groups_in_words(grouping({item.id: item.fields for item in task.items}), [i.id for i in task.items])
        items[task.name, form] = [
            item_result(task.name, form, item, model.scored[form.prompt(item), form.gold(item)], choice, group)
            for item, choice, group in zip(task.items, answer["items"], groups, strict=True)
        ]
        finals = items[task.name, form]
        metrics[f"{name}/bpb"] = answer["metrics"]["bits_per_byte"]
        metrics[f"{name}/final_bpb"] = bits_per_byte([i.final_bits for i in finals], [i.final_bytes for i in finals])
        for ours, theirs in (("accuracy", "acc"), ("choice_probability", "choice_probability")):
            if theirs in answer["metrics"]:
                metrics[f"{name}/{ours}"] = answer["metrics"][theirs]
        for ours, theirs in (("item_bpb", "gold_bits_per_byte"), ("accuracy", "acc")):
            if f"{theirs}_stderr" in answer["metrics"]:
                stderr[f"{name}/{ours}"] = answer["metrics"][f"{theirs}_stderr"]
    return Outcome(metrics, stderr, Results(items, documents))


def _over_domains(documents: Mapping[str, Sequence[DocumentResult]]) -> dict[str, float]:
    """Return means as Paloma reports them: macro (each domain alike) and micro (each byte alike), raw and stripped."""
    found: dict[str, float] = {}
    for name, bits, size in (("", "bits", "bytes"), ("_stripped", "stripped_bits", "stripped_bytes")):
        sums = [
            (sum(getattr(one, bits) for one in held), sum(getattr(one, size) for one in held))
            for held in documents.values()
        ]
        sums = [(bits_of, bytes_of) for bits_of, bytes_of in sums if bytes_of]
        if sums:
            found[f"macro{name}_bpb"] = sum(bits_of / bytes_of for bits_of, bytes_of in sums) / len(sums)
            found[f"micro{name}_bpb"] = sum(bits_of for bits_of, _ in sums) / sum(bytes_of for _, bytes_of in sums)
    return found
