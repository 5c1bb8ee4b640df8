"""Label: give each document a number, from anything that can judge a text."""

from __future__ import annotations

from typing import Protocol

from marin import Context, Directory, Documents, DocumentScores, ExecutorStep, execution
from marin.errors import BadField


class Labeller(Protocol):
    """A @value class whose instances judge a text. Its code and fields are part of the step's identity."""

    def __call__(self, text: str) -> float: ...


class Label(ExecutorStep[DocumentScores], op="label", version=1):
    """The labeller's number for each document.

    labeller: ``marin.data.endpoint.Endpoint``, or your own @value class. at_once: the number of documents of a shard
    that the labeller judges at the same time. Finished shards stay when the step is killed. Raises InputError for an
    answer that is no finite number.
    """

    documents: ExecutorStep[Documents]
    labeller: Labeller
    at_once: int = execution(default=8)

    def check(self) -> None:
        if self.at_once < 1:
            raise BadField(f"Label.at_once is {self.at_once}; wanted at least 1")

    def run(self, ctx: Context) -> DocumentScores:
        from marin.data.documents import shard_names
        from marin.data.scores import described

        inputs = ctx[self.documents].directory
        work = [(inputs, name, self.labeller, self.at_once) for name in shard_names(inputs)]
        return described(ctx.write_shards(_label_shard, work, dict[float, int]))


def _label_shard(work: tuple[Directory, str, Labeller, int], out: Directory) -> dict[float, int]:
    from concurrent.futures import ThreadPoolExecutor

    from marin.data.documents import read_keyed
    from marin.data.endpoint import checked
    from marin.data.scores import write_scores

    inputs, name, labeller, at_once = work
    documents = list(read_keyed(inputs, name))
    with ThreadPoolExecutor(at_once) as pool:
        answers = pool.map(labeller, [document.text for _, document in documents])
        scores = [checked(answer, labeller) for answer in answers]
    return write_scores(out, name, zip((key for key, _ in documents), scores, strict=True))
