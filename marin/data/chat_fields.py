"""Read the records of any chat dataset as lists of messages."""

# pyright: basic
from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from marin.data.raw_records import look_up, read_records
from marin.errors import GarbledDocument, OverRemoval
from marin.store.files.directory import Directory

ROLES = {"human": "user", "gpt": "assistant", **{role: role for role in ("system", "user", "assistant")}}


class Fields(Protocol):
    """The names of a dataset's fields. operators.read_chats documents them."""

    @property
    def turns(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def content(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def answer(self) -> str: ...
    @property
    def best(self) -> str: ...
    @property
    def system(self) -> str: ...


@dataclass(frozen=True)
class Read:
    """The counts of one file: chats, dropped records, bytes written."""

    chats: int
    dropped: int
    bytes: int


def messages_of(record: dict[str, Any], fields: Fields) -> list[dict[str, str]] | None:
    """Return a record's messages, or None if it has no answer, an empty turn, or a turn without a known role."""
    if fields.turns:
        turns = look_up(record, fields.turns)
        said = [(turn.get(fields.role), turn.get(fields.content)) for turn in turns or () if isinstance(turn, Mapping)]
        if not isinstance(turns, Sequence) or len(said) != len(turns):
            return None
    else:
        said = [("user", look_up(record, fields.prompt))]
    if fields.answer:
        said.append(("assistant", _answer(look_up(record, fields.answer), fields)))
    if fields.system and (system := look_up(record, fields.system)):
        said.insert(0, ("system", system))
    messages: list[Any] = [{"role": ROLES.get(str(role), ""), "content": text} for role, text in said]
    good = all(each["role"] and isinstance(each["content"], str) and each["content"].strip() for each in messages)
    return messages if good and messages and messages[-1]["role"] == "assistant" else None


def _answer(found: Any, fields: Fields) -> Any:
    if not isinstance(found, Sequence) or isinstance(found, str):
        return found
    answers = [each for each in found if isinstance(each, Mapping) and each.get(fields.content)]
    if not answers:
        return None
    chosen = max(answers, key=lambda each: each.get(fields.best) or 0) if fields.best else answers[0]
    return chosen[fields.content]


def read_file(raw: Directory, name: str, fields: Fields, out: Directory, written: str) -> Read:
    """Write the chats of one file as gzipped JSON lines. Raises the same errors as ``read_records``."""
    chats = dropped = 0
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as lines:
        for _, record in read_records(raw, name):
            messages = messages_of(record, fields)
            if messages is None:
                dropped += 1
                continue
            chats += 1
            lines.write(json.dumps({"messages": messages}, ensure_ascii=False).encode() + b"\n")
    content = packed.getvalue()
    with out.open(written, "wb") as handle:
        handle.write(content)
    return Read(chats, dropped, len(content))


def must_be_chats(step: str, raw: Directory, found: Iterable[Read], max_dropped: float) -> str:
    """Return a line for the log. Raises GarbledDocument without a chat, OverRemoval for too many dropped records."""
    files = list(found)
    chats, dropped = sum(one.chats for one in files), sum(one.dropped for one in files)
    if not chats:
        raise GarbledDocument(f"{raw.url}: its {len(files)} readable files hold no chat; check ReadChats.fields")
    if dropped > max_dropped * (chats + dropped):
        raise OverRemoval(
            f"{step}: {dropped:,} of {chats + dropped:,} records hold no chat in these fields, more than "
            f"max_dropped={max_dropped:g} allows; check ReadChats.fields, or raise max_dropped"
        )
    return f"{chats:,} chats; {dropped:,} records without an answer were left out"
