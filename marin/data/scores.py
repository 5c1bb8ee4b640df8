"""Sidecars with a number for each document: shards of the same names, with the same rows in the same order.

Numbers are rounded to six decimals. Counts of each number are therefore the same in any order of counting, and so is
any choice of documents by these counts.
"""

# pyright: basic
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from marin.data.artifacts import DocumentScores
from marin.data.documents import Document, read_keyed, read_rows, write_rows
from marin.errors import InputChanged, InputError
from marin.store.files.directory import Directory

SCHEMA = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("id", "score")])
DECIMALS = 6

Counts = Mapping[float, int]


def rounded(score: float) -> float:
    return round(score, DECIMALS) + 0.0  # no -0.0


def write_scores(out: Directory, name: str, scores: Iterable[tuple[str, float]]) -> dict[float, int]:
    """Write the sidecar of one shard. scores: id and number of each document, in order.

    Returns how often each number occurs.
    """
    counts = Counter[float]()

    def rows() -> Iterator[tuple[str, str]]:
        for key, score in scores:
            number = rounded(score)
            counts[number] += 1
            yield key, f"{number:.{DECIMALS}f}"

    write_rows(out, name, SCHEMA, rows())
    return counts


def read_scores(directory: Directory, name: str) -> Iterator[tuple[str, float]]:
    """Yield the ids and numbers that write_scores wrote. Raises TruncatedShard."""
    for key, score in read_rows(directory, name, SCHEMA):
        yield key, float(score)


def with_scores(documents: Directory, scores: Directory, name: str) -> Iterator[tuple[Document, float]]:
    """Yield the documents of one shard with their numbers. Raises InputChanged if the numbers fit other documents."""
    numbers = read_scores(scores, name)
    for row, (key, document) in enumerate(read_keyed(documents, name)):
        of, score = next(numbers, ("", 0.0))
        if of != key:
            raise InputChanged(
                f"{scores.url}/{name}, row {row}, is the score of document {of or '(none)'}; {documents.url} has {key} "
                "there. Give the scores of these documents"
            )
        yield document, score
    if (more := next(numbers, None)) is not None:
        raise InputChanged(
            f"{scores.url}/{name} goes on with {more[0]} after the last document of {documents.url}. Give the scores "
            "of these documents"
        )


def count_scores(work: tuple[Directory, str]) -> dict[float, int]:
    """Return how often each number occurs in one shard."""
    return Counter(score for _, score in read_scores(*work))


def described(counts: Iterable[Counts]) -> DocumentScores:
    """Return the summary of all scores. counts: of each shard. Raises InputError if there is no document."""
    parts = [each for each in counts if each]
    documents = sum(sum(each.values()) for each in parts)
    if not documents:
        raise InputError("there is no document to score; give documents")
    sums = math.fsum(score * count for each in parts for score, count in each.items())
    least, most = min(map(min, parts)), max(map(max, parts))
    return DocumentScores(documents=documents, least=least, mean=rounded(sums / documents), most=most)


def least_of_top(counts: Counts, fraction: float) -> float:
    """Return the greatest number that at least this share of all numbers reaches."""
    wanted = fraction * sum(counts.values())
    above = 0
    for score in sorted(counts, reverse=True):
        above += counts[score]
        if above >= wanted - 1e-9:
            return score
    raise InputError("there is no score to choose by; give documents")
