"""Documents that a stage removed, with the reason and with the text from its input, beside documents that it kept."""

# pyright: basic
from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from marin.errors import MarinError
from marin.report.contents import contents
from marin.report.serve.looked import StoreView
from marin.report.serve.texts import page_of, shown
from marin.store.files.directory import Directory
from marin.store.lineage import Output
from marin.store.record import Record

PAIRS = 10  # documents of each kind on a page
ITEMS = 3  # test items that are shown beside a document that holds them
LOOK_SECONDS = 5.0  # for finding the removed texts in the input


def removed_by_reason(record: Record) -> dict[str, int]:
    """Return how many documents a stage removed for each reason; empty if it removed none."""
    counts: dict[str, int] = record.facts.get("dropped") or {} if record.kind == "documents" else {}
    return counts


def dropped_page(looked: StoreView, record: Record, reason: str, first: int, kept_first: int) -> dict[str, Any]:
    """Return the page. reason: "" for any. first, kept_first: how many removed and kept documents to leave out."""
    output = looked.store.output(record)
    rows = list(itertools.islice(_rows(output, reason), first, first + PAIRS))
    counts = removed_by_reason(record)
    read = (looked.lineage.records.get(Output(each.identity, each.root)) for each in record.inputs)
    source = next((each for each in read if each is not None and each.kind == "documents"), None)
    details = [json.loads(detail) for *_, detail in rows]
    wanted = {identifier for _, identifier, *_ in rows} | {str(each.get("of")) for each in details}
    texts, missing = dict[str, str](), "" if source is not None else "no input of this step holds documents"
    if source is not None:
        try:
            texts, missing = _texts(looked.store.output(source), wanted, {name for name, *_ in rows})
        except (MarinError, OSError) as error:
            missing = f"{source.name} cannot be read: {error}"
    items = _items(looked, record, details)
    documents: list[dict[str, Any]] = []
    for (_, identifier, why, detail), facts in zip(rows, details, strict=True):
        original = texts.get(str(facts.get("of")))
        evidence = [("copy of this document", original)] if original is not None else []
        evidence += [(f"holds test item {hit[1]}", items[hit]) for hit in sorted(_hits(facts) & items.keys())[:ITEMS]]
        documents.append(
            {
                "reason": why,
                "detail": "" if detail == "{}" else detail,
                "id": identifier,
                "text": shown(0, identifier, texts[identifier]) if identifier in texts else None,
                "evidence": [(title, shown(0, title, each)) for title, each in evidence],
            }
        )
    return {
        "reason": reason,  # of all documents; "" for any
        "first": first,
        "total": counts.get(reason, 0) if reason else sum(counts.values()),
        "documents": documents,
        "missing": missing,  # why a text is not shown
        "kept": page_of(contents(looked.inventory, record, whole=False), kept_first, most=PAIRS),
    }


def _rows(output: Directory, reason: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield (shard, id of the document, why it was removed, evidence as JSON)."""
    from marin.data.documents import read_rows, shard_names
    from marin.data.dropped import FOLDER, SCHEMA

    for name in shard_names(output / FOLDER):
        for identifier, why, detail in read_rows(output / FOLDER, name, SCHEMA):
            if not reason or why == reason:
                yield name, identifier, why, detail


def _texts(folder: Directory, wanted: set[str], first: set[str]) -> tuple[dict[str, str], str]:
    """Return (texts by id, why some were not found). first: shards to read first, named like the stage's own."""
    from marin.data.documents import read_keyed, shard_names

    until, found = time.monotonic() + LOOK_SECONDS, dict[str, str]()
    for name in sorted(shard_names(folder), key=lambda name: (name not in first, name)):
        for identifier, document in read_keyed(folder, name):
            if identifier in wanted:
                found[identifier] = document.text
            if len(found) == len(wanted):
                return found, ""
            if time.monotonic() > until:
                return found, f"not found in {LOOK_SECONDS:.0f} s of reading {folder.url}"
    return found, f"not in {folder.url}"


def _items(looked: StoreView, record: Record, details: list[dict[str, Any]]) -> dict[tuple[int, str], str]:
    """Return test items in removed documents, by (number of the evaluation in the step, id of the item)."""
    wanted = {hit for each in details for hit in _hits(each)}
    against, found = record.config.get("against", []), dict[tuple[int, str], str]()
    with suppress(MarinError, OSError):  # the evidence names the items in any case
        for number in {number for number, _ in wanted if number < len(against)}:
            _, suite = looked.find(str(against[number]).rpartition("#")[2])
            for entry in contents(looked.inventory, suite, whole=False).read(0) if suite is not None else ():
                if (number, entry.data.get("id")) in wanted:
                    found[number, entry.data["id"]] = entry.text
    return found


def _hits(detail: dict[str, Any]) -> set[tuple[int, str]]:
    """Return (number of the evaluation, id of the item) of each item that `Decontaminate` found in a document."""
    hits = detail.get("hits", ())
    return {(int(hit["against"]), str(hit["item"])) for hit in hits if {"against", "item"} <= set(hit)}
