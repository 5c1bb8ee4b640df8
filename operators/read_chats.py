"""ReadChats: read conversations as lists of role and content, from datasets with other field names too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from marin import Context, ExecutorStep, RawFiles, value
from marin.errors import BadField

if TYPE_CHECKING:
    from marin.data.chat_fields import Read
    from marin.store.files.directory import Directory


@value("chat_fields", kw_only=True)
class ChatFields:
    """The fields of a record that hold its chat.

    turns: field with the list of turns, each with a ``role`` and a ``content``; "" for none. prompt: field with the
    user's text, for records without turns. answer: field with the last answer, if no turn holds the answer. A list of
    answers gives its first one with a ``content`` or, with ``best``, the answer with the highest number in that field.
    system: field with the text before all turns; "" for none.
    """

    turns: str = "messages"
    role: str = "role"
    content: str = "content"
    prompt: str = ""
    answer: str = ""
    best: str = ""
    system: str = ""

    def __post_init__(self) -> None:
        if bool(self.turns) == bool(self.prompt) or (self.prompt and not self.answer):
            raise BadField(f"{self}: give turns, or prompt and answer")


class ReadChats(ExecutorStep[RawFiles], op="read-chats"):
    """JSON lines with a list of messages ``{"role": …, "content": …}`` in ``messages``, one file for each input file.

    Roles become system, user and assistant; the step also knows human and gpt. The step leaves out records without an
    answer or with turns of another role, and counts them in the log. max_dropped: the share of records that it may
    leave out. Raises GarbledDocument for a file that cannot be read, OverRemoval if too many records are no chats.
    """

    files: ExecutorStep[RawFiles]
    fields: ChatFields = ChatFields()
    max_dropped: float = 0.05

    def check(self) -> None:
        if not 0 <= self.max_dropped < 1:
            raise BadField(f"ReadChats.max_dropped is {self.max_dropped}; wanted a share below 1")

    def run(self, ctx: Context) -> RawFiles:
        from marin.data.chat_fields import must_be_chats
        from marin.data.raw_records import is_readable

        raw = ctx[self.files].directory
        names = [name for name in raw.names() if is_readable(name)]
        work = [(raw, name, self.fields, ctx.out, index) for index, name in enumerate(names)]
        found = ctx.map(_read_file, work)
        ctx.log(must_be_chats(self.name, raw, found, self.max_dropped))
        return RawFiles(files=len(found), bytes=sum(one.bytes for one in found))


def _read_file(work: tuple[Directory, str, ChatFields, Directory, int]) -> Read:
    from marin.data.chat_fields import read_file

    raw, name, fields, out, index = work
    return read_file(raw, name, fields, out, f"chats-{index:05d}.jsonl.gz")
