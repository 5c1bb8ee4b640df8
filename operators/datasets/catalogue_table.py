"""Write the catalogue as a page: ``./py -m operators.datasets.catalogue_table > docs/reference/datasets.md``."""

from __future__ import annotations

import sys
from typing import Any

from marin import ExecutorStep
from marin.store.numbers import write_count
from operators.datasets import paloma
from operators.datasets.catalogue import CORPORA
from operators.datasets.chats import SETS
from operators.datasets.corpus import Corpus, Hub
from operators.datasets.rehearsal.math_problems import Bundle, ProblemDocuments
from operators.datasets.rehearsal.python_text import Docstrings, LanguageReference, PydocPages, StandardLibraryCode

HEAD = """# Datasets

After this page you can choose a dataset of Marin 8B and 32B, and say exactly which files a run reads.

The table lists every dataset that the two retrospectives name. operators.datasets.catalogue_table writes this page from
[operators/datasets](../../operators/datasets). "Unknown" means that no public source gives the value.

- **Tokens**: the published count, mostly by Llama 3's tokenizer.
- **Weight**: the weight in the runs, in trillions of tokens; for Nemotron-CC in TiB.
- **Read at full scale**: a repository of the Hugging Face hub or a publisher's listing, at a commit or checksum, and
  the files that a run reads.

"""
SOURCES = (
    "| source | kind of text | tokens | weight | licence | known contamination | read at full scale | in a rehearsal |"
)
CHATS = """
## Chats that the 8B was fine-tuned on

Each set has its number of chats as its weight. The runs' code states only the first digits of each commit; the hub
finds the full commit. A rehearsal uses worked problems as chats in place of each set.

| set | repository | commit | files | chats | licence |
|---|---|---|---|---|---|
"""
PALOMA = f"""
## Paloma

Paloma is held-out text, scored in bits per byte for each source. marin reads `SOURCE/val/val*.jsonl.gz` of each source
from {paloma.REPOSITORY} @ {paloma.REVISION}… (gated; no more digits are public). Licence: {paloma.LICENCE}.

| source | in the paper | in a rehearsal |
|---|---|---|
"""


def page() -> str:
    sources = [SOURCES, "|---|---|---|---|---|---|---|---|", *map(_source, CORPORA.values())]
    differs = [f"- `{name}`: {each.published}." for name, each in CORPORA.items() if each.published]
    chats = [
        f"| `{each.name}` | {each.repo} | {each.revision}… | {_files(each.files)} | {each.chats:,} | {each.licence} |"
        for each in SETS.values()
    ]
    notes = ["", "## Differences from the runs", "", *differs]
    held_out = [f"| `{name}` | {each.called} | {_paragraphs(each)} |" for name, each in paloma.SOURCES.items()]
    parts = [
        HEAD,
        "\n".join([*sources, *notes]),
        "\n",
        CHATS,
        "\n".join(chats),
        "\n",
        PALOMA,
        "\n".join(held_out),
        "\n",
    ]
    return "".join(parts)


def stand_in(raw: ExecutorStep[Any]) -> str:
    """Return in words the text that a rehearsal reads instead of a source."""
    match raw:
        case PydocPages():
            return f"pydoc's pages of the standard library, {_share(raw)}"
        case StandardLibraryCode():
            return f"code of the standard library, {_share(raw)}"
        case Docstrings():
            return f"docstrings of the standard library as {raw.form.value}, {_share(raw)}"
        case LanguageReference():
            return f"Python's language reference, {_share(raw)}"
        case ProblemDocuments():
            return f"worked problems as {raw.form.value.replace('_', ' ')}"
        case Bundle():
            return "; ".join(dict.fromkeys(stand_in(part) for part in raw.parts))
        case _:
            return raw.name


def _paragraphs(source: paloma.Source) -> str:
    spaced = ", each with a space at its end" if source.ending else ""
    return f"paragraphs of held-out {source.stand_in}{spaced}" if source.stand_in else "left out"


def _files(patterns: tuple[str, ...]) -> str:
    return ", ".join(f"`{pattern}`" for pattern in patterns)


def _share(raw: PydocPages | StandardLibraryCode | Docstrings | LanguageReference) -> str:
    return f"{raw.share.stop - raw.share.start} of {raw.share.of}"


def _source(each: Corpus) -> str:
    full = each.full
    if isinstance(full, Hub):
        where = f"{full.repo} @ {full.revision[:12] if full.revision else 'no public commit'}"
    else:
        where = f"{full.index.url} (SHA-256 {full.index.sha256[:12]}…)"
    files = _files(full.patterns) + "".join(f", without `{pattern}`" for pattern in full.excludes)
    tokens = "unknown" if each.tokens is None else write_count(round(each.tokens))
    cells = (
        f"`{each.name}`",
        each.kind,
        tokens,
        f"{each.weight:g}",
        each.licence,
        each.contamination,
        f"{where}: {files}",
        stand_in(each.rehearsal),
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.write(page())
