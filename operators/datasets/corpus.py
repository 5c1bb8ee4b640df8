"""Corpus: one named source of the catalogue, at both scales, with its published weight.

Every file of this folder is data: the name of each source in the retrospective's tables, its origin at a pinned
revision, its licence, and the text that replaces it in a rehearsal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marin import Documents, ExecutorStep, RawFiles, Scale, Size
from marin.data.http_file import HttpFile
from marin.errors import MissingRevision
from marin.text.presets import SHORT
from marin.text.quality import Quality
from operators.download import HttpIndex, HuggingFace, Keep, ReadDocuments

# Nemotron-CC's 10.7 TiB of compressed text hold 6.3 T tokens.
COMPRESSED_BYTES_PER_TOKEN = 1.87

NOT_LOOKED = "unknown: no source of this catalogue says"

type Raw = ExecutorStep[Documents] | ExecutorStep[RawFiles]


@dataclass(frozen=True, kw_only=True)
class Hub:
    """A dataset on the Hugging Face hub.

    revision: a commit, or None if no commit is public. excludes: globs over matching files to leave out.
    """

    repo: str
    revision: str | None
    patterns: tuple[str, ...] = ("**",)
    excludes: tuple[str, ...] = ()
    text_field: str = "text"
    template: str = ""
    keep: tuple[Keep, ...] = ()

    def documents(self, label: str, size: Size | None = None) -> ExecutorStep[Documents]:
        """Return the step that reads the documents. size: the published size of the files.

        Raises MissingRevision, naming the dataset, if no commit is pinned.
        """
        if self.revision is None:
            raise MissingRevision(
                f"{label}: no public commit of {self.repo} is known; look one up on its page under Files → History, "
                "write it into operators.datasets, or plan with --scale rehearsal"
            )
        files = HuggingFace(
            repo=self.repo,
            revision=self.revision,
            patterns=self.patterns,
            excludes=self.excludes,
            size=size,
            label=label,
        )
        return ReadDocuments(
            files=files, text_field=self.text_field, template=self.template, keep=self.keep, label=label
        )


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Files that a publisher lists in an index, pinned by the index's checksum."""

    index: HttpFile
    base: str
    patterns: tuple[str, ...]
    excludes: tuple[str, ...] = ()

    def documents(self, label: str, size: Size | None = None) -> ExecutorStep[Documents]:
        files = HttpIndex(
            index=self.index, base=self.base, patterns=self.patterns, excludes=self.excludes, size=size, label=label
        )
        return ReadDocuments(files=files, label=label)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One source of training text.

    name: exactly as in the published tables. weight: the published raw weight from which shares follow, in trillions of
    tokens (Nemotron-CC: TiB). tokens: the published count, None if there is none. published: the data that the run
    itself read, if these differ from ``full``, and why. rules: the quality rules for its kind of text. rehearsal_rules:
    the rules for its replacement in a rehearsal, if this is text of another kind. kind: the kind of text.
    contamination: evaluation items that it is known to hold.
    """

    name: str
    weight: float
    licence: str
    kind: str
    full: Hub | Listing
    rehearsal: Raw
    tokens: float | None = None
    published: str = ""
    contamination: str = NOT_LOOKED
    rules: Quality = SHORT
    rehearsal_rules: Quality | None = None

    def rules_for(self, scale: Scale) -> Quality:
        return self.rehearsal_rules or self.rules if scale is Scale.REHEARSAL else self.rules

    def raw(self, scale: Scale) -> Raw:
        """Return the step that brings the text: Documents, or RawFiles of HTML still to be extracted."""
        return self.full.documents(self.name, self.size) if scale is Scale.FULL else self.rehearsal

    @property
    def size(self) -> Size | None:
        """Return the size of its compressed text, by the published count of its tokens."""
        if self.tokens is None:
            return None
        return Size(bytes=round(self.tokens * COMPRESSED_BYTES_PER_TOKEN), tokens=round(self.tokens))


def by_name(*corpora: Corpus) -> dict[str, Corpus]:
    """Return the corpora by name. Raises ValueError if two have one name."""
    found: dict[str, Any] = {corpus.name: corpus for corpus in corpora}
    if len(found) != len(corpora):
        raise ValueError(f"two corpora share a name among {sorted(corpus.name for corpus in corpora)}")
    return found
