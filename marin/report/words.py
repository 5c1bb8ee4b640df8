"""How the terminal writes what it writes in many places: a status in its colour, like things together, facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from rich.text import Text

FOLD_FROM = 4  # so many like things are one line
STYLES = {  # of whatever has a status: actions of a plan, steps, attempts, runs, jobs of a cluster, grades of claims
    **dict.fromkeys(("cached", "alias", "ran", "committed", "done", "succeeded"), "green"),
    **dict.fromkeys(("run", "running", "good to know"), "cyan"),
    **dict.fromkeys(("recheck", "queued", "pending"), "blue"),
    **dict.fromkeys(("stop", "corrupt"), "red bold"),
    **dict.fromkeys(("failed", "died", "not to be trusted"), "red"),
    **dict.fromkeys(("stopped", "skipped", "held", "dead", "doubtful", "waiting"), "yellow"),
    **dict.fromkeys(("absent", "started", "silent"), "dim"),
}
MARKS = {"ran": "✓", "cached": "·", "alias": "≡", "failed": "✗", "stopped": "■", "skipped": "–"}


def styled(status: str, text: str = "") -> Text:
    """text: what is said instead of the status itself."""
    return Text(text or status, style=STYLES.get(status, ""))


def folded[T](groups: Iterable[list[T]], *, every: bool = False) -> Iterator[list[T]]:
    """Each group whole if it is large, else its members alone. every: fold nothing."""
    for group in groups:
        yield from [group] if len(group) >= FOLD_FROM and not every else [[one] for one in group]


def grouped[K, T](pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """What stands beside each key, in the order of the first ones."""
    found: dict[K, list[T]] = {}
    for key, each in pairs:
        found.setdefault(key, []).append(each)
    return found


def escaped(text: str) -> str:
    """For Markdown: a label with an underscore or a star in it is no emphasis."""
    return "".join(f"\\{letter}" if letter in r"\`*_<>|~" else letter for letter in text)


def describe_facts(facts: dict[str, Any]) -> str:
    """The numbers of an artifact, in one line."""
    parts: list[str] = []
    for name, value in facts.items():
        if isinstance(value, int) and not isinstance(value, bool):
            parts.append(f"{name} {value:,}")
        elif isinstance(value, float):
            parts.append(f"{name} {value:.3f}")
        elif isinstance(value, dict) and name == "dropped" and value:
            parts.append(f"dropped {sum(cast('dict[str, int]', value).values()):,}")
    return ", ".join(parts[:5])
