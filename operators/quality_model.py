"""TrainClassifier, Score, Select: train a quality model on examples, score every document, keep the best documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from marin import Classifier, Context, Directory, Documents, DocumentScores, ExecutorStep, Size
from marin.errors import BadField, InputError, NothingLearned
from marin.text.classifier import HashedWords
from operators.split import side

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved

LEAST_HELD_OUT = 10  # examples of each side
BATCH = 256  # documents scored at once


class TrainClassifier(ExecutorStep[Classifier], op="train-classifier", version=1):
    """A model that tells the good documents from the bad ones.

    held_out: share of the examples that are held out of the training, chosen by their texts, to measure the model's
    separation. least_separation: the step raises NothingLearned below this separation, because the scores would mean
    nothing. Raises InputError if a side has fewer than 10 held-out examples.
    """

    good: tuple[ExecutorStep[Documents], ...]
    bad: tuple[ExecutorStep[Documents], ...]
    recipe: HashedWords = HashedWords()
    held_out: float = 0.1
    least_separation: float = 0.6

    def check(self) -> None:
        if not self.good or not self.bad:
            raise BadField("TrainClassifier needs documents on both sides; give good and bad")
        if not 0 < self.held_out < 1:
            raise BadField(f"TrainClassifier.held_out is {self.held_out}; wanted a fraction between 0 and 1")
        if not 0.5 <= self.least_separation <= 1:
            raise BadField(f"TrainClassifier.least_separation is {self.least_separation}; wanted 0.5 (chance) to 1")

    def run(self, ctx: Context) -> Classifier:
        from marin.text.classifier import Model, separation, train

        def texts(steps: tuple[ExecutorStep[Documents], ...], *, held: bool) -> Iterator[str]:
            from marin.data.documents import read_documents

            for step in steps:
                for document in read_documents(ctx[step].directory):
                    if (side(document.id, self.recipe.seed) < self.held_out) is held:
                        yield document.text

        good, bad = train(self.recipe, texts(self.good, held=False), texts(self.bad, held=False), ctx.out)
        model = Model(ctx.out)
        asked = [list(texts(steps, held=True)) for steps in (self.good, self.bad)]
        if min(map(len, asked)) < LEAST_HELD_OUT:
            raise InputError(
                f"{self.name}: {len(asked[0])} good and {len(asked[1])} bad examples are held out; wanted at least "
                f"{LEAST_HELD_OUT} of each; give more examples, or raise held_out"
            )
        apart = separation(*(model.scores(each) for each in asked))
        if apart < self.least_separation:
            raise NothingLearned(
                f"{self.name}: a good document scores above a bad one in {apart:.1%} of held-out pairs, and chance is "
                f"50%; wanted {self.least_separation:.1%}. Give more examples, or good and bad ones that differ more"
            )
        return Classifier(good=good, bad=bad, separation=round(apart, 4))


class Score(ExecutorStep[DocumentScores], op="score", version=1):
    """The model's logarithm of the odds that each document is good; at 0, good and bad are equally likely."""

    documents: ExecutorStep[Documents]
    classifier: ExecutorStep[Classifier]

    def run(self, ctx: Context) -> DocumentScores:
        from marin.data.documents import shard_names
        from marin.data.scores import described

        inputs, model = ctx[self.documents].directory, ctx[self.classifier].directory
        work = [(inputs, model, name) for name in shard_names(inputs)]
        return described(ctx.write_shards(_score_shard, work, dict[float, int]))


def _score_shard(work: tuple[Directory, Directory, str], out: Directory) -> dict[float, int]:
    import itertools

    from marin.data.documents import read_keyed
    from marin.data.scores import write_scores
    from marin.text.classifier import Model

    inputs, directory, name = work
    model = Model(directory)

    def scored() -> Iterator[tuple[str, float]]:
        for batch in itertools.batched(read_keyed(inputs, name), BATCH):
            found = model.scores([document.text for _, document in batch])
            yield from zip((key for key, _ in batch), found, strict=True)

    return write_scores(out, name, scored())


class Select(ExecutorStep[Documents], op="select", version=1):
    """Documents chosen by their scores: the best ``fraction``, or all with ``least`` <= score < ``below``.

    The step keeps all documents with the score at the limit, so it may keep more than the fraction. It counts removed
    documents as "low_score" or "high_score", and their scores are in the sidecar. Raises InputChanged if the scores
    belong to other documents, OverRemoval if nothing stays.
    """

    documents: ExecutorStep[Documents]
    scores: ExecutorStep[DocumentScores]
    fraction: float | None = None
    least: float | None = None
    below: float | None = None

    def check(self) -> None:
        if (self.fraction is None) is (self.least is None and self.below is None):
            raise BadField("Select: give either fraction, or least and below (or one of these two)")
        if self.fraction is not None and not 0 < self.fraction <= 1:
            raise BadField(f"Select.fraction is {self.fraction}; wanted a share above 0, up to 1")
        if self.least is not None and self.below is not None and self.least >= self.below:
            raise BadField(f"Select: least is {self.least} and below {self.below}; wanted least < below")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.documents)  # at most

    def run(self, ctx: Context) -> Documents:
        from collections import Counter

        from marin.data.documents import shard_names
        from marin.data.dropped import Sieved, remaining
        from marin.data.scores import count_scores, least_of_top

        inputs, scores = ctx[self.documents].directory, ctx[self.scores].directory
        names, least = shard_names(inputs), self.least
        if self.fraction is not None:
            counts = Counter[float]()
            for part in ctx.map(count_scores, [(scores, name) for name in names]):
                counts.update(part)
            least = least_of_top(counts, self.fraction)
            ctx.log(f"keeping documents with scores of at least {least}")
        work = [(inputs, scores, name, least, self.below) for name in names]
        written = ctx.write_shards(_select_shard, work, Sieved)
        return remaining(self.name, self.documents.name, written, 1 - 1e-12, ctx.out, ctx.log)


def _select_shard(work: tuple[Directory, Directory, str, float | None, float | None], out: Directory) -> Sieved:
    from marin.data.dropped import Dropped, write_sieved
    from marin.data.scores import with_scores

    inputs, scores, name, least, below = work

    def verdicts() -> Iterator[Document | Dropped]:
        for document, score in with_scores(inputs, scores, name):
            if least is not None and score < least:
                yield Dropped(document.id, "low_score", {"score": score}, len(document.text.encode()))
            elif below is not None and score >= below:
                yield Dropped(document.id, "high_score", {"score": score}, len(document.text.encode()))
            else:
                yield document

    return write_sieved(out, int(name[6:11]), int(name[15:20]), verdicts())
