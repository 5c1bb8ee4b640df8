"""One page of an output's content, or of one of its files: a range of entries, or entries that hold some words."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from marin.report.contents import Contents, Entry, Form
from marin.report.words import measured

ENTRIES = {Form.TEXTS: 20, Form.ROWS: 50, Form.SAMPLED: 100, Form.LINES: 500}  # on one page
SEARCH_SECONDS = 4.0  # after which a page shows the entries found so far, and how far the search came
CUT = 3000  # characters of a text on a page of many
PART = 200_000  # characters of a text on a page of its own
BEFORE = 300  # characters before the words that were found
CELL, COLUMNS = 300, 24  # characters of a cell, columns of a table


@dataclass(frozen=True)
class Shown:
    """An entry, or a part of one."""

    number: int  # from 0
    title: str
    pieces: list[tuple[str, bool]]  # (text, whether it matches the search)
    start: int  # characters before the first shown one,
    rest: int  # and after the last one
    cells: Mapping[str, str] = MappingProxyType({})  # of a row


def page_of(contents: Contents, first: int, words: str = "", most: int = 0) -> dict[str, Any]:
    """Return the page. words: only entries that hold them in title, text or metadata, in any case, found in time.

    most: number of entries, if not the usual one.
    """
    wanted, until = words.casefold(), None
    most, found = most or ENTRIES[contents.form], list[Shown]()
    number, following, out_of_time = first, None, False
    for number, entry in enumerate(contents.read(first), start=first):
        if until is None:  # time before the first entry does not count
            until = time.monotonic() + SEARCH_SECONDS
        elif len(found) == most or time.monotonic() > until:
            following, out_of_time = number, len(found) < most
            break
        text = _text(contents.form, entry)
        if wanted in f"{entry.title}\n{text}".casefold():
            row = cast("dict[Any, Any]", entry.data) if isinstance(entry.data, dict) else {}
            cells = {str(name)[:CELL]: _cell(value) for name, value in list(row.items())[:COLUMNS]}
            found.append(shown(number, entry.title, text, words, cells))
        number += 1
    columns = list(dict.fromkeys(name for row in found for name in row.cells))[:COLUMNS]
    return {
        "form": contents.form,
        "total": contents.total,  # None if only reading tells
        "first": first,
        "entries": found,
        "looked_through": number - first,
        "following": following,  # where the next page begins; None at the end
        "out_of_time": out_of_time,
        "columns": columns,  # of rows
    }


def entry_at(contents: Contents, number: int, start: int = 0) -> Shown | None:
    """Return one entry, a long text from this character on; None if there is no such entry."""
    entry = next(contents.read(number), None)
    if entry is None:
        return None
    text = _text(contents.form, entry, indent=1)
    part = text[start : start + PART]
    return Shown(number, entry.title, [(part, False)], start, max(len(text) - start - PART, 0))


def _text(form: Form, entry: Entry, indent: int | None = None) -> str:
    """Return the text of an entry, or the JSON of a row."""
    if form in (Form.TEXTS, Form.LINES):
        return entry.text
    return json.dumps(entry.data, ensure_ascii=False, indent=indent, default=str)


def shown(
    number: int, title: str, text: str, words: str = "", cells: Mapping[str, str] = MappingProxyType({})
) -> Shown:
    """Return a text among others: its beginning, or the part around the words."""
    found = re.search(re.escape(words), text, re.IGNORECASE) if words else None
    start = max(found.start() - BEFORE, 0) if found is not None and found.end() > CUT else 0
    part = text[start : start + CUT]
    pieces = re.split(f"({re.escape(words)})", part, flags=re.IGNORECASE) if words else [part]
    marked = [(piece, index % 2 == 1) for index, piece in enumerate(pieces) if piece]
    return Shown(number, title, marked, start, len(text) - start - len(part), cells)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return measured(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= CELL else f"{text[:CELL]}…"
