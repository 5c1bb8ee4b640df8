"""Chats as a token store: a template writes the chats, and the loss counts the assistant's messages.

``mask.bin`` beside a store's tokens holds one byte per token, 1 where the loss counts the token. Chats are packed whole
into sequences of one length. The rest of a sequence is padded with end-of-sequence tokens, which the loss skips.
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
    """A tokenized chat. ids: (n,), the last is the end-of-sequence token. mask: (n,), True where the loss counts."""

    ids: np.ndarray
    mask: np.ndarray


class ChatTemplate:
    """A tokenizer with a Jinja template for chats. "" takes the template of its tokenizer_config.json.

    The loss counts the text inside ``{% generation %}``. Published templates rarely have this block. Without the
    block, the loss counts the text that the template adds for an answer, after the generation prompt.
    Raises GarbledDocument if there is no template.
    """

    def __init__(self, directory: Directory, template: str) -> None:
        from transformers import AutoTokenizer

        self._eos = load_tokenizer(directory).eos
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(directory.path))
        self._template = template or self._tokenizer.chat_template or ""
        self._special = [token for token in self._tokenizer.all_special_tokens if token]
        if not self._template:
            raise GarbledDocument(f"{directory.url} has no chat template; give TokenizeChats a template")

    def encode(self, where: str, messages: Any) -> Chat:
        """Tokenize one chat. where: its name in errors. messages: ``[{"role": "user", "content": "…"}, …]``.

        Raises GarbledDocument if messages is not a chat, if the assistant says nothing, or if a message spells a
        special token, which would end a turn in the middle of a text.
        """
        self._check(where, messages)
        ids, mask = self._tagged(messages) if GENERATION.search(self._template) else self._by_turns(where, messages)
        if not len(ids) or ids[-1] != self._eos:
            ids, mask = np.append(ids, self._eos), np.append(mask, False)
        if (ids[:-1] == self._eos).any():
            raise GarbledDocument(
                f"{where}: its template writes the end-of-sequence token inside a chat, where attention would end. "
                "Give the template another token for the end of a turn, or the tokenizer another one for the end of a "
                "document: PretrainedTokenizer(eos=…)"
            )
        if not mask.any():
            raise GarbledDocument(f"{where}: the assistant says nothing that the loss could count; remove the chat")
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
        """Return ids and mask for a template without ``{% generation %}``, by rendering the chat turn by turn.

        Raises GarbledDocument if the template writes an answer differently once other messages follow.
        """
        text = self._written(messages)
        mask = np.zeros(len(text), bool)
        for number, message in enumerate(messages):
            if message["role"] != ASSISTANT:
                continue
            before, after = self._written(messages[:number], answer=True), self._written(messages[: number + 1])
            if not (text.startswith(after) and after.startswith(before)):
                raise GarbledDocument(
                    f"{where}: its template writes message {number + 1} differently once others follow, so marin "
                    "cannot tell which tokens are the answer. Give a template with {% generation %} … "
                    "{% endgeneration %} around the assistant's text"
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
                    f"{where}: message {number} spells the special token {spelt[0]}, and the model would read it as "
                    "that token. Remove the chat or change its text"
                )
        if all(message["role"] != ASSISTANT for message in messages):
            raise GarbledDocument(f"{where}: no message has the role {ASSISTANT!r}; the loss would count no token")


def packed(chats: Iterable[Chat], seq_len: int, eos: int) -> Iterator[Chat]:
    """Yield the chats in order, padded so that none crosses the end of a sequence. None may exceed seq_len tokens."""
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
    """Write a token store with a mask. Raises the same errors as ``write_token_store``."""
    with out.open(MASK, "wb") as marks:

        def documents() -> Iterator[np.ndarray]:
            for chat in chats:
                marks.write(chat.mask.astype(np.uint8).tobytes())
                yield chat.ids

        return write_token_store(out, documents(), vocabulary=vocabulary, tokenizer=tokenizer, eos=eos)
