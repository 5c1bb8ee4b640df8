"""Recognise the form of a passage in a text: a prompt format, or another sign of its origin."""

from __future__ import annotations

import re

AROUND = 160  # characters to look at before and after the passage
# The first pattern that fits decides.
FORMS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("calculator tags (lm-eval)", re.compile(r"<<[^<>\n]*>>|####")),
    ("so the answer is (olmes)", re.compile(r"\b[Ss]o the answer is\b")),
    ("json", re.compile(r'"\w+"\s*:\s*["\[{]')),
    ("html", re.compile(r"</?(?:p|div|li|td|tr|br|span|h\d)\b[^>]*>")),
    ("lettered choices", re.compile(r"(?:^|[\s(])A[.):]\s.+?(?:^|[\s(])B[.):]\s", re.DOTALL | re.MULTILINE)),
    (
        "question and answer",
        re.compile(r"\b(?:question|problem|q)\s*:.*?\b(?:answer|solution|a)\s*:", re.DOTALL | re.I),
    ),
    ("code", re.compile(r"^\s*(?:def |class |import |#include|function )", re.MULTILINE)),
)
PLAIN = "plain text"


def prompt_form(text: str, start: int, end: int) -> str:
    """Return the form of text[start:end], judged with the text around the passage."""
    around = text[max(start - AROUND, 0) : end + AROUND]
    return next((name for name, pattern in FORMS if pattern.search(around)), PLAIN)
