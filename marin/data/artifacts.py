"""The artifacts that operators exchange: documents, tokens, checkpoints, scores."""

from __future__ import annotations

import dataclasses

from marin.steps.artifact import Artifact

OTHER_PART = "in the other part"  # a key of ``Documents.dropped`` for documents that were not lost


class Documents(Artifact, kind="documents"):
    """Sharded documents: ``shard-00000-of-00004.parquet`` with columns id, text, source, metadata.

    bytes: UTF-8 bytes of text. dropped: how many documents this stage removed, by reason.
    """

    documents: int
    bytes: int
    shards: int
    dropped: dict[str, int] = dataclasses.field(default_factory=dict[str, int])


class RawFiles(Artifact, kind="raw_files"):
    """Files as published: one directory, any formats."""

    files: int
    bytes: int


class DocumentScores(Artifact, kind="document_scores"):
    """A number for each document. marin.data.scores describes the files. least, mean, most: of these numbers."""

    documents: int
    least: float
    mean: float
    most: float


class Classifier(Artifact, kind="classifier"):
    """A model that tells good text from bad: see marin.text.classifier. good, bad: number of examples.

    separation: the chance that a good text scores above a bad one, measured on documents outside the training set.
    A model that knows nothing has .5.
    """

    good: int
    bad: int
    separation: float


class Tokenizer(Artifact, kind="tokenizer"):
    """A Hugging Face ``tokenizer.json`` (and ``tokenizer_config.json``)."""

    vocabulary: int
    digest: str


class Tokens(Artifact, kind="tokens"):
    """A token store. marin.data.token_store describes the files.

    tokens: with the separators. tokenizer: digest of the tokenizer.json that encoded the text.
    """

    tokens: int
    documents: int
    vocabulary: int
    tokenizer: str


class Checkpoint(Artifact, kind="checkpoint"):
    """Model and optimizer state after ``step`` optimizer steps, with metrics so far.

    parameters: their number. tokens: trained on so far, in all phases. loss: the last training loss.
    """

    step: int
    tokens: int
    parameters: int
    architecture: str
    loss: float | None = None


class HuggingFaceModel(Artifact, kind="hugging_face_model"):
    """A model that transformers can load, in one folder below the output.

    folder: the folder's name, ``step192000-tokens3264B``. The other fields are those of Checkpoint.
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
