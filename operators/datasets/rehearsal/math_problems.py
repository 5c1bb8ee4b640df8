"""Generated problems: items to evaluate on, and documents made from them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import batched
from typing import TYPE_CHECKING

from marin import Context, Documents, ExecutorStep, Items, RawFiles
from marin.errors import BadField
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split

if TYPE_CHECKING:
    from marin.data.documents import Document


class GenerateItems(ExecutorStep[Items], op="generate-items", version=1):
    """Word problems with worked steps. A question belongs to one split only, for every seed and count."""

    seed: int
    count: int
    split: Split

    def check(self) -> None:
        if self.count < 1:
            raise BadField(f"GenerateItems.count is {self.count}; wanted at least 1")

    def run(self, ctx: Context) -> Items:
        from marin.evaluation.items import write_items
        from operators.datasets.rehearsal.problems import generate_items

        return Items(items=write_items(ctx.out, generate_items(self.seed, self.count, self.split)))


class ProblemDocuments(ExecutorStep[Documents], op="problem-documents", version=1):
    """Items written as training text. The metadata of each document names its items.

    per_document: problems in one document, in item order.
    """

    items: ExecutorStep[Items]
    form: Form
    per_document: int = 1

    def check(self) -> None:
        if self.per_document < 1:
            raise BadField(f"ProblemDocuments.per_document is {self.per_document}; wanted at least 1")

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document, write_documents
        from marin.evaluation.items import read_items
        from operators.datasets.rehearsal.problem_forms import write_problem

        items = read_items(ctx[self.items].directory)

        def documents() -> Iterator[Document]:
            for group in batched(items, self.per_document):
                text = "\n\n".join(write_problem(item, self.form) for item in group)
                yield Document(text, f"problems/{self.form.value}", {"items": [item.id for item in group]})

        count, size, shards = write_documents(ctx.out, documents())
        return Documents(documents=count, bytes=size, shards=shards)


class ProblemChats(ExecutorStep[RawFiles], op="problem-chats"):
    """Items as chats, in JSON lines: the user asks the question, and the assistant answers with the worked steps."""

    items: ExecutorStep[Items]

    def run(self, ctx: Context) -> RawFiles:
        import json

        from marin.evaluation.items import read_items
        from operators.datasets.rehearsal.problem_forms import write_problem

        lines: list[str] = []
        for item in read_items(ctx[self.items].directory):
            worked = write_problem(item, Form.INSTRUCTION).partition(f"{item.question}\n\n")[2]
            turns = (("user", item.question), ("assistant", worked))
            lines.append(json.dumps({"messages": [{"role": role, "content": text} for role, text in turns]}))
        content = "\n".join([*lines, ""])
        ctx.out.write_text("chats.jsonl", content)
        return RawFiles(files=1, bytes=len(content.encode()))


class Bundle(ExecutorStep[Documents], op="bundle", version=1):
    """Several document sets one after the other, in contiguous blocks, like a published bundle of files."""

    parts: tuple[ExecutorStep[Documents], ...]

    def check(self) -> None:
        if not self.parts:
            raise BadField("Bundle.parts is empty; wanted at least one document set")

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import read_documents, write_documents

        parts = [ctx[part].directory for part in self.parts]
        count, size, shards = write_documents(ctx.out, (d for part in parts for d in read_documents(part)))
        return Documents(documents=count, bytes=size, shards=shards)
