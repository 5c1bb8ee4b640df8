"""Reads published evaluation suites, each with its own fields, as items to search training text for.

The names of the fields tell the question (question, input, prompt, ctx …), the answer (answer, target, label,
canonical_solution …), and the choices, if there are any. An item keeps every other field of at least eight words under
the field's own name: a passage, tests, a worked solution.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from marin.data.raw_records import is_readable, read_records
from marin.errors import GarbledDocument
from marin.evaluation.items import Item
from marin.store.files.directory import Directory

QUESTION = ("question", "input", "prompt", "ctx", "problem", "query", "goal", "sentence", "instruction", "text")
ANSWER = ("answer", "target", "output", "canonical_solution", "solution", "label", "gold", "answerKey", "completion")
CHOICES = ("choices", "options", "endings")
CHOICE = re.compile(r"(?:choice|option|sol|ending)_?\d|[A-H]")
NAME = ("id", "task_id", "question_id", "qid", "ind", "idx")
LETTERED = re.compile(r"\(?([A-Ha-h])[.):]?|([0-7])")
LABEL = re.compile(r"\s*\(?[A-H][.):]\s*")
LEAST = 8  # words that another field needs to be kept
LISTS = ("examples", "data", "rows", "questions")


def is_suite(name: str) -> bool:
    """Return whether read_suite knows the format, by the name's ending."""
    return is_readable(name) or name.endswith(".csv")


def read_suite(directory: Directory, name: str) -> list[Item]:
    """Return the items of one file.

    The file may be JSON lines, one JSON document with a list of records, CSV with or without a header, or Parquet.
    Raises GarbledDocument naming the record that has no question.
    """
    return [
        item_of(record, where, f"{name}-{number}") for number, (where, record) in enumerate(_records(directory, name))
    ]


def _records(directory: Directory, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    where = f"{directory.url}/{name}"
    if name.endswith(".csv"):
        rows = list(csv.reader(io.StringIO(directory.read_text(name))))
        if rows and not set(rows[0]) & {*QUESTION, *ANSWER}:
            # MMLU's own format: question, four choices and the letter of the right choice, without a header.
            rows.insert(0, ["question", *"ABCDEFGH"[: len(rows[0]) - 2], "answer"])
        for number, row in enumerate(rows[1:], start=2):
            yield f"{where} line {number}", dict(zip(rows[0], row, strict=False))
    elif name.endswith(".json") and (listed := _listed(directory, name)) is not None:
        for number, record in enumerate(listed, start=1):
            yield f"{where} record {number}", record
    else:
        yield from read_records(directory, name)


def _listed(directory: Directory, name: str) -> list[dict[str, Any]] | None:
    """Return the records of one JSON document; None if the file is JSON lines."""
    try:
        whole = json.loads(directory.read_bytes(name))
    except ValueError:
        return None
    if isinstance(whole, dict):
        held = cast("dict[str, Any]", whole)
        whole = next((held[key] for key in LISTS if isinstance(held.get(key), list)), None)
    return cast("list[dict[str, Any]] | None", whole)


def item_of(record: Mapping[str, Any], where: str, name: str) -> Item:
    """Return the item of a record. name: the id of a record without one. Raises GarbledDocument without a question."""
    asked = next((key for key in QUESTION if isinstance(record.get(key), str) and record[key].strip()), None)
    if asked is None:
        raise GarbledDocument(
            f"{where}: no question among the fields {', '.join(record)}; wanted a text in one of {', '.join(QUESTION)}"
        )
    choices = _choices(record)
    answer_key = next((key for key in ANSWER if key != asked and record.get(key) is not None), None)
    answer = "" if answer_key is None else _text(record[answer_key])
    right = _chosen(answer, choices)
    used = {asked, answer_key, *CHOICES}
    others = {"choices": "\n".join(choices)} if choices else {}
    for key, value in record.items():
        text = _text(value)
        if key not in used and not CHOICE.fullmatch(key) and len(text.split()) >= LEAST:
            others[key] = text
    identity = next((str(record[key]) for key in NAME if record.get(key) not in (None, "")), name)
    final = right.rpartition("####")[2].strip() if "####" in right else right
    return Item(identity, record[asked], right, final if len(final.split()) < LEAST else "", tuple(others.items()))


def _choices(record: Mapping[str, Any]) -> list[str]:
    for key in CHOICES:
        held = record.get(key)
        if isinstance(held, Mapping):  # ARC: {"text": […], "label": […]}
            held = cast("Mapping[str, Any]", held).get("text")
        if isinstance(held, list):
            return [LABEL.sub("", _text(each), count=1) for each in cast("list[Any]", held)]
    return [_text(record[key]) for key in sorted(record) if CHOICE.fullmatch(key) and record[key] is not None]


def _chosen(answer: str, choices: list[str]) -> str:
    """Return the text of the right choice if the answer is a letter or number; else the answer."""
    named = LETTERED.fullmatch(answer.strip())
    if not choices or named is None:
        return answer
    letter, digit = named.groups()
    number = int(digit) if digit else ord(letter.upper()) - ord("A")
    return choices[number] if number < len(choices) else answer


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(each) for each in cast("list[Any]", value))
    if isinstance(value, Mapping):
        return "\n".join(_text(each) for each in cast("Mapping[str, Any]", value).values())
    return "" if value is None else str(value)
