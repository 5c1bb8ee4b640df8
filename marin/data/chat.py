"""Chats as a token store: a template writes them, and the loss counts what the assistant says.

``mask.bin`` beside a store's tokens: one byte each, 1 where the loss counts the token. Chats are packed whole into
sequences of one length; what is left of a sequence is filled with the end-of-sequence token, which does not count.
"""

# pyright: basic
from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from marin.data.token_store import MASK, StoreMeta, write_token_store
from marin.data.tokenizer import load_tokenizer
from marin.errors import GarbledDocument
from marin.store.files.directory import Directory

ASSISTANT = "assistant"
GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")


class Chat(NamedTuple):
    """ids end with the end-of-sequence token. mask: True where the loss counts the token. (n,) each."""

    ids: np.ndarray
    mask: np.ndarray


class ChatTemplate:
    """A tokenizer with a Jinja template for chats; "" is the one of its tokenizer_config.json.

    The loss counts what stands in ``{% generation %}``. Published templates rarely have it: then it counts what the
    template adds for an answer, after the beginning of a turn that it writes when an answer is wanted.
    Raises GarbledDocument where there is no template.
    """

    def __init__(self, directory: Directory, template: str) -> None:
        from transformers import AutoTokenizer

        self._eos = load_tokenizer(directory).eos
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(directory.path))
        self._template = template or self._tokenizer.chat_template or ""
        self._special = [token for token in self._tokenizer.all_special_tokens if token]
        if not self._template:
            raise GarbledDocument(f"the chat template of {directory.url} is missing; give TokenizeChats a template")

    def encode(self, where: str, messages: Any) -> Chat:
        """where: what an error calls the chat. messages: ``[{"role": "user", "content": "…"}, …]``.

        Raises GarbledDocument for what is no chat, has nothing that the assistant says, or spells a special token,
        which would end a turn in the middle of a text.
        """
        self._check(where, messages)
        ids, mask = self._tagged(messages) if GENERATION.search(self._template) else self._by_turns(where, messages)
        if not len(ids) or ids[-1] != self._eos:
            ids, mask = np.append(ids, self._eos), np.append(mask, False)
        if (ids[:-1] == self._eos).any():
            raise GarbledDocument(
                f"{where}: its template writes the end-of-sequence token inside a chat, where attention would end; "
                "give it a token of its own for the end of a turn, or the tokenizer another one for the end of a "
                "document: PretrainedTokenizer(eos=…)"
            )
        if not mask.any():
            raise GarbledDocument(f"{where}: the assistant says nothing that the loss could count; leave it out")
        return Chat(ids, mask)

    def _tagged(self, messages: Any) -> tuple[np.ndarray, np.ndarray]:
        written = self._tokenizer.apply_chat_template(
            messages,
            chat_template=self._template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        return np.array(written["input_ids"]), np.array(written["assistant_masks"], bool)

    def _by_turns(self, where: str, messages: Any) -> tuple[np.ndarray, np.ndarray]:
        """Raises GarbledDocument for a template that writes an answer differently once others follow."""
        text = self._written(messages)
        mask = np.zeros(len(text), bool)
        for number, message in enumerate(messages):
            if message["role"] != ASSISTANT:
                continue
            before, after = self._written(messages[:number], answer=True), self._written(messages[: number + 1])
            if not (text.startswith(after) and after.startswith(before)):
                raise GarbledDocument(
                    f"{where}: its template writes message {number + 1} differently once others follow, so nothing "
                    "tells which tokens are the answer; give a template with {% generation %} … {% endgeneration %} "
                    "around what the assistant says"
                )
            mask[len(before) : len(after)] = True
        encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        counts = [bool(mask[start:end].any()) for start, end in encoded["offset_mapping"]]
        return np.array(encoded["input_ids"]), np.array(counts, bool)

    def _written(self, messages: Any, *, answer: bool = False) -> str:
        if not messages and not answer:
            return ""
        return self._tokenizer.apply_chat_template(
            messages, chat_template=self._template, tokenize=False, add_generation_prompt=answer
        )

    def _check(self, where: str, messages: Any) -> None:
        if not isinstance(messages, list) or not messages:
            raise GarbledDocument(
                f"{where}: the messages are {str(messages)[:60]!r}, wanted a list of role and content"
            )
        for number, message in enumerate(messages, start=1):
            role, content = (message.get(name) if isinstance(message, dict) else None for name in ("role", "content"))
            if not isinstance(role, str) or not isinstance(content, str):
                raise GarbledDocument(
                    f"{where}: message {number} is {str(message)[:60]!r}, wanted the strings role and content"
                )
            if spelt := [token for token in self._special if token in content]:
                raise GarbledDocument(
                    f"{where}: message {number} spells the special token {spelt[0]}, which would be read as one; leave "
                    "the chat out or change its text"
                )
        if all(message["role"] != ASSISTANT for message in messages):
            raise GarbledDocument(f"{where}: no message has the role {ASSISTANT!r}; the loss would count nothing of it")


def packed(chats: Iterable[Chat], seq_len: int, eos: int) -> Iterator[Chat]:
    """The chats in order, filled up so that none goes over the end of a sequence. All have at most seq_len tokens."""
    held, room = None, seq_len
    for chat in chats:
        if held is not None:
            if len(chat.ids) > room:
                held = Chat(np.append(held.ids, np.full(room, eos)), np.append(held.mask, np.zeros(room, bool)))
                room = seq_len
            yield held
        held, room = chat, room - len(chat.ids)
        room = room or seq_len
    if held is not None:
        fill = room % seq_len
        yield Chat(np.append(held.ids, np.full(fill, eos)), np.append(held.mask, np.zeros(fill, bool)))


def write_chats(out: Directory, chats: Iterable[Chat], *, vocabulary: int, tokenizer: str, eos: int) -> StoreMeta:
    """A token store with a mask. Raises as ``write_token_store``."""
    with out.open(MASK, "wb") as marks:

        def documents() -> Iterator[np.ndarray]:
            for chat in chats:
                marks.write(chat.mask.astype(np.uint8).tobytes())
                yield chat.ids

        return write_token_store(out, documents(), vocabulary=vocabulary, tokenizer=tokenizer, eos=eos)
