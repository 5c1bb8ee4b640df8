"""Wording that terminal and pages share: statuses, folded groups, facts, numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from rich.text import Text

from marin.store.numbers import write_count

FOLD_FROM = 4  # like things from which on they fold into one line
STYLES = {  # by status: actions of a plan, steps, attempts, runs, jobs of a cluster, grades of claims
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
    """Return the status in its colour. text: printed in place of the status."""
    return Text(text or status, style=STYLES.get(status, ""))


def folded[T](groups: Iterable[list[T]], *, every: bool = False) -> Iterator[list[T]]:
    """Yield a large group whole, and the members of a small one each by itself. every: fold nothing."""
    for group in groups:
        yield from [group] if len(group) >= FOLD_FROM and not every else [[one] for one in group]


def grouped[K, T](pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the values of each key, keys in order of first appearance."""
    found: dict[K, list[T]] = {}
    for key, each in pairs:
        found.setdefault(key, []).append(each)
    return found


def escaped(text: str) -> str:
    """Escape a text for Markdown, so that an underscore or a star in a label is no emphasis."""
    return "".join(f"\\{letter}" if letter in r"\`*_<>|~" else letter for letter in text)


def describe_facts(facts: dict[str, Any]) -> str:
    """Return the numbers of an artifact in one line."""
    parts: list[str] = []
    for name, value in facts.items():
        if isinstance(value, int) and not isinstance(value, bool):
            parts.append(f"{name} {value:,}")
        elif isinstance(value, float):
            parts.append(f"{name} {value:.3f}")
        elif isinstance(value, dict) and name == "dropped" and value:
            parts.append(f"dropped {sum(cast('dict[str, int]', value).values()):,}")
    return ", ".join(parts[:5])


MINUS = "\N{MINUS SIGN}"


def tick(value: float) -> str:
    """Return a number for an axis, without trailing zeros."""
    text = f"{value:,.4g}" if abs(value) < 10_000 else write_count(value)
    return text.replace("-", MINUS)


def measured(value: float) -> str:
    """Return a number for a table of numbers of any size."""
    return f"{value:,.1f}" if 1000 <= abs(value) < 1e9 else f"{value:.4g}"


def signed(value: float, digits: int) -> str:
    """Return +0.12 or −0.12, with a real minus. An exact or rounded zero has no sign."""
    text = f"{abs(value):.{digits}f}"
    if not text.strip("0."):
        return text
    return ("+" if value > 0 else MINUS) + text


def fixed(value: float, digits: int) -> str:
    """Return a number with this many digits and a real minus."""
    return f"{value:.{digits}f}".replace("-", MINUS)


def minus(text: str) -> str:
    """Return the text with a real minus before each negative number. Hyphens in words and ranges stay."""
    return re.sub(r"(?<![\w.)\]-])-(?=\.?\d)", MINUS, text)


def fact(value: object) -> str:
    """Return a fact of an artifact on one line."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.5g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {fact(item)}" for key, item in cast(Mapping[object, object], value).items())
    if isinstance(value, list | tuple):
        return ", ".join(fact(item) for item in cast(list[object], value))
    return str(value)
