"""The artifacts that operators exchange: documents, tokens, checkpoints, scores."""

from __future__ import annotations

import dataclasses

from marin.steps.artifact import Artifact

OTHER_PART = "in the other part"  # in ``Documents.dropped``: no reason, because nothing went


class Documents(Artifact, kind="documents"):
    """Sharded documents: ``shard-00000-of-00004.parquet`` with columns id, text, source, metadata.

    bytes: UTF-8 bytes of text. dropped: how many documents this stage removed, by reason.
    """

    documents: int
    bytes: int
    shards: int
    dropped: dict[str, int] = dataclasses.field(default_factory=dict[str, int])


class RawFiles(Artifact, kind="raw_files"):
    """Files as they came: one directory, any formats."""

    files: int
    bytes: int


class DocumentScores(Artifact, kind="document_scores"):
    """A number for each document: see marin.data.scores for the files. least, mean, most: of these numbers."""

    documents: int
    least: float
    mean: float
    most: float


class Classifier(Artifact, kind="classifier"):
    """A model of good and bad text: see marin.text.classifier. good, bad: examples.

    separation: the chance that a good text scores above a bad one, of documents that it was not trained on; .5 for a
    model that knows nothing.
    """

    good: int
    bad: int
    separation: float


class Tokenizer(Artifact, kind="tokenizer"):
    """A Hugging Face ``tokenizer.json`` (and ``tokenizer_config.json``)."""

    vocabulary: int
    digest: str


class Tokens(Artifact, kind="tokens"):
    """A token store: see marin.data.token_store for the files.

    tokens counts the separators. tokenizer: digest of the tokenizer.json that made it.
    """

    tokens: int
    documents: int
    vocabulary: int
    tokenizer: str


class Checkpoint(Artifact, kind="checkpoint"):
    """Model and optimizer state after ``step`` optimizer steps, with metrics so far.

    parameters: how many. tokens: trained on so far, all phases. loss: the last training loss.
    """

    step: int
    tokens: int
    parameters: int
    architecture: str
    loss: float | None = None


class HuggingFaceModel(Artifact, kind="hugging_face_model"):
    """A model as transformers loads it, in the one folder below.

    folder: its name, ``step192000-tokens3264B``. The others as a checkpoint has them.
    """

    folder: str
    step: int
    tokens: int
    parameters: int
    architecture: str


class Scores(Artifact, kind="scores"):
    """Results of an evaluation: ``scores.json`` and per-item ``items.jsonl``. metrics: the headline numbers."""

    metrics: dict[str, float]


class Report(Artifact, kind="report"):
    """A comparison for people: ``report.json``. headline: one line per finding."""

    headline: list[str]


class Items(Artifact, kind="items"):
    """Evaluation items, ``items.jsonl``: one ``{"id", "question", "answer", "final"}`` a line.

    answer is GSM8K style: steps with ``<<16-7=9>>`` tags, then ``#### 9``; final is "9".
    """

    items: int
