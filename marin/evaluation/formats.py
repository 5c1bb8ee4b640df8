"""The two prompt formats of GSM8K-style items, and the places of the final answer and the tags in the gold.

LM-Eval keeps the calculator tags and ends in ``#### 9``. OLMES strips the tags, spaces the operators and
ends in ``So the answer is 9.`` A model that was trained on one format is surprised by the other: the
Bison cooldown lost 22 points of GSM8K that way (Marin 32B retrospective, "Root cause").
"""

from __future__ import annotations

import re
from enum import StrEnum

from marin.errors import GarbledDocument
from marin.evaluation.items import Item
from marin.steps.value import value

TAG = re.compile(r"<<.*?>>")
FINAL = "####"
# Operators between numbers; "and/or" and "12-year-old" stay as they are.
OPERATOR = re.compile(r"(?<=[\d)%])\s*([-+*/=])\s*(?=[-$(.\d])")
NUMBER = re.compile(r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+")

Span = tuple[int, int]


def lm_eval(question: str, answer: str) -> str:
    """Return the whole text of an item as lm-evaluation-harness shows it: tags and ``#### 9`` kept."""
    return f"Question: {question}\nAnswer: {answer}"


def olmes(question: str, answer: str) -> str:
    """Return the whole text of an item as OLMES shows it: no tags, one line, ``So the answer is 9.``

    Raises GarbledDocument if answer has no ``####``.
    """
    steps, final = split_answer(answer)
    return f"Question: {question}\nAnswer: {_olmes_steps(steps)} So the answer is {final}."


def split_answer(answer: str) -> tuple[str, str]:
    """Return (worked steps, final answer) of a GSM8K-style answer. Raises GarbledDocument without ``####``."""
    steps, mark, final = answer.rpartition(FINAL)
    if not mark or not final.strip():
        raise GarbledDocument(f"the answer {answer[-60:]!r} does not end in '{FINAL} N'; wanted GSM8K style")
    return steps.strip(), final.strip()


def _olmes_steps(steps: str) -> str:
    lines = (" ".join(TAG.sub("", line).split()) for line in steps.splitlines())
    sentences = (line if line.endswith((".", "!", "?")) else f"{line}." for line in lines if line)
    return OPERATOR.sub(r" \1 ", " ".join(sentences))


@value("prompt_format")
class Format(StrEnum):
    """A prompt format of items. Spans are [start, end) characters of the gold."""

    _value_: str
    LM_EVAL = "lm_eval"
    OLMES = "olmes"

    def text(self, item: Item) -> str:
        """Return prompt and gold together, as in a training document of this format."""
        return (lm_eval if self.name == "LM_EVAL" else olmes)(item.question, item.answer)

    def prompt(self, item: Item) -> str:
        """Return the text before the gold. It ends in ``Answer:`` without a space."""
        return f"Question: {item.question}\nAnswer:"

    def gold(self, item: Item) -> str:
        """Return the right continuation of prompt. It starts with a space."""
        return self.text(item)[len(self.prompt(item)) :]

    def final_span(self, item: Item) -> Span:
        """Return the span of the final answer in the gold, without ``####`` or the closing full stop."""
        gold = self.gold(item)
        _, final = split_answer(item.answer)
        end = len(gold.rstrip()) - (self.name == "OLMES")
        return end - len(final), end

    def tag_spans(self, item: Item) -> list[Span]:
        """Return the spans of the gold's calculator tags, ``<<`` and ``>>`` included; none in OLMES."""
        return [match.span() for match in TAG.finditer(self.gold(item))]


def with_final(item: Item, final: str) -> Item:
    """Return the item with another final answer, in every place of the worked solution that has the right one.

    The solution stays consistent with itself. So only arithmetic (or memory) tells the changed solution from the gold.
    """
    right = _plain(item.final)

    def swap(number: re.Match[str]) -> str:
        if _plain(number.group()) != right:
            return number.group()
        return _grouped(_plain(final)) if "," in number.group() else _plain(final)

    steps, _ = split_answer(item.answer)
    return Item(item.id, item.question, f"{NUMBER.sub(swap, steps)}\n{FINAL} {final}", final)


def _grouped(number: str) -> str:
    whole, point, decimals = number.partition(".")
    return f"{int(whole):,}{point}{decimals}"


def _plain(number: str) -> str:
    return number.replace(",", "").strip()
