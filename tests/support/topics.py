"""Real text that is at hand: pages of Python's reference."""

from __future__ import annotations

import pydoc_data.topics
from pathlib import Path


def topics() -> list[str]:
    """Pages that are no part of one another, as some are."""
    found: dict[str, str] = pydoc_data.topics.topics
    kept: list[str] = []
    for text in sorted(set(found.values()), key=lambda page: (-len(page), page)):
        lines = [line for line in text.split("\n") if len(line) > 40]
        every = "\n".join(kept)
        if len(text) > 400 and sum(line in every for line in lines) <= len(lines) / 10:
            kept.append(text)
    return sorted(kept)


def write_topics(folder: Path) -> None:
    """One file a page."""
    folder.mkdir(parents=True)
    for number, text in enumerate(topics()):
        (folder / f"{number}.txt").write_text(text)
