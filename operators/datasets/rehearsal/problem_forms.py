"""Write a worked problem as training text in several forms: web page, textbook, code, chat, quiz …"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum

import xxhash

from marin import value
from marin.errors import GarbledDocument
from marin.evaluation.formats import TAG, lm_eval, olmes, split_answer
from marin.evaluation.items import Item

STEP = re.compile(r"<<([-+*/().\d\s]+)=([-\d.]+)>>")
LETTERS = "ABCD"


@value("problem_form")
class Form(Enum):
    """The form of a text. LM_EVAL and OLMES are the evaluation's prompt formats; the others have no calculator tags."""

    _value_: str
    LM_EVAL = "lm_eval"
    OLMES = "olmes"
    FORUM = "forum"
    TEXTBOOK = "textbook"
    MARKDOWN = "markdown"
    TEXT_AND_CODE = "text_and_code"
    CODE = "code"
    QUESTION_ANSWER = "question_answer"
    INSTRUCTION = "instruction"
    MULTIPLE_CHOICE = "multiple_choice"


def write_problem(item: Item, form: Form) -> str:
    """Return the item as training text. Raises GarbledDocument for an answer that is not in the style of GSM8K."""
    return WRITERS[form](item)


def _plain_steps(item: Item) -> list[str]:
    """Return the worked steps, one sentence a line, without tags."""
    return [TAG.sub("", line).strip() for line in split_answer(item.answer)[0].splitlines() if line.strip()]


def _calculations(item: Item) -> list[tuple[str, str]]:
    """Return (expression, result) of every step that has one."""
    found = [(expression.strip(), result) for expression, result in STEP.findall(item.answer)]
    if not found:
        raise GarbledDocument(f"item {item.id} has no <<…=…>> step, so it cannot be written as code")
    return found


def _forum(item: Item) -> str:
    steps = " ".join(_plain_steps(item))
    return f"Homework help: I am stuck on this one.\n\n{item.question}\n\nReply: {steps} You should get {item.final}."


def _textbook(item: Item) -> str:
    steps = "\n".join(f"Step {number}. {step}" for number, step in enumerate(_plain_steps(item), start=1))
    return f"Example. {item.question}\n\nSolution.\n{steps}\nThe result is {item.final}."


def _markdown(item: Item) -> str:
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(_plain_steps(item), start=1))
    return f"### Problem\n\n{item.question}\n\n### Solution\n\n{steps}\n\n**Answer:** ${item.final}$"


def _text_and_code(item: Item) -> str:
    blocks = [
        f"{step}\n\n```python\n>>> {expression}\n{result}\n```"
        for step, (expression, result) in zip(_plain_steps(item), _calculations(item), strict=False)
    ]
    return f"{item.question}\n\nWe compute this step by step.\n\n" + "\n\n".join(blocks)


def _code(item: Item) -> str:
    """Return a Python function whose return value is the final answer."""
    calculations = _calculations(item)
    lines = ["def solution():", f'    """{item.question}"""']
    for number, (comment, (expression, _)) in enumerate(zip(_plain_steps(item), calculations, strict=False), start=1):
        lines += [f"    # {comment}", f"    step_{number} = {expression}"]
    last = min(len(calculations), len(_plain_steps(item)))
    return "\n".join([*lines, f"    return step_{last}", "", "", "print(solution())"])


def _question_answer(item: Item) -> str:
    return f"Q: {item.question}\nA: {' '.join(_plain_steps(item))} Therefore the answer is {item.final}."


def _instruction(item: Item) -> str:
    ask = ("Solve this problem and explain each step.", "Please work this out.", "Think it through, then answer.")
    chosen = ask[_pseudo_random(item, len(ask))]
    return f"{chosen}\n\n{item.question}\n\n" + "\n".join(_plain_steps(item)) + f"\n\nFinal answer: {item.final}"


def _multiple_choice(item: Item) -> str:
    """Return four options: wrong ones near the right one, whose letter is spread evenly over A to D."""
    right = int(item.final.replace(",", "").split(".")[0])
    place = _pseudo_random(item, len(LETTERS))
    step = max(1, right // 10) + 1
    options = [right + (index - place) * step for index in range(len(LETTERS))]
    shown = "\n".join(f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True))
    return f"{item.question}\n{shown}\nAnswer: {LETTERS[place]}"


def _pseudo_random(item: Item, choices: int) -> int:
    return xxhash.xxh3_64_intdigest(item.question.encode()) // 8 % choices


WRITERS: Mapping[Form, Callable[[Item], str]] = {
    Form.LM_EVAL: lambda item: lm_eval(item.question, item.answer),
    Form.OLMES: lambda item: olmes(item.question, item.answer),
    Form.FORUM: _forum,
    Form.TEXTBOOK: _textbook,
    Form.MARKDOWN: _markdown,
    Form.TEXT_AND_CODE: _text_and_code,
    Form.CODE: _code,
    Form.QUESTION_ANSWER: _question_answer,
    Form.INSTRUCTION: _instruction,
    Form.MULTIPLE_CHOICE: _multiple_choice,
}
