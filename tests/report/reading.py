"""Read a page back: tags, attributes, texts; fails on tags that do not balance."""

from __future__ import annotations

import base64
import gzip
import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "br", "col", "input", "link", "img", "hr", "wbr"}


def unpacked(text: str) -> Any:
    """Return the value that marin.report.page.figures.packed packed."""
    value = json.loads(text)
    return json.loads(gzip.decompress(base64.b64decode(value))) if isinstance(value, str) else value


class Reading(HTMLParser):
    """The tags of a page in order, with their attributes, and all of its text outside style and script."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.rows: list[list[str]] = []
        self.data: list[Any] = []  # that stand in the page for its scripts
        self._data: str | None = None
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script" and dict(attrs).get("type") == "application/json":
            self._data = ""
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open[-1] == tag, f"</{tag}> at {self.getpos()} inside {self._open}"
        self._open.pop()
        if tag == "script" and self._data is not None:
            self.data.append(unpacked(self._data))
            self._data = None

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("style", "script"):
            self._data = None if self._data is None else self._data + data
            return
        self.text += data
        if self.rows and self.rows[-1] and ("td" in self._open or "th" in self._open):
            self.rows[-1][-1] += data

    def ids(self) -> list[str]:
        return [attributes["id"] for _, attributes in self.tags if "id" in attributes]

    def row(self, first: str) -> list[str]:
        """Cells of the first table row whose first cell starts with this text, spaces collapsed."""
        for cells in self.rows:
            flat = [" ".join(cell.split()) for cell in cells]
            if flat and flat[0].startswith(first):
                return flat
        raise AssertionError(f"no row starts with {first!r}")
