"""Read the facts of an artifact from its files, by kind. Every file is opened and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from marin.errors import InputError, MarinError
from marin.store.files.directory import Directory
from marin.store.files.manifest import FileEntry


def facts_of(kind: str, directory: Directory, entries: Sequence[FileEntry], where: str) -> dict[str, Any]:
    """Return the facts that an artifact's files hold; none for a kind that is not marin's own.

    directory: on this machine. where: its name for people. Raises InputError if the files are not such an artifact.
    """
    try:
        return _read(kind, directory, entries)
    except MarinError as error:
        why = str(error).removeprefix(f"{directory.url}: ").removeprefix(f"{directory.url} ")
    except ImportError:
        raise
    except Exception as error:  # libraries raise many errors for unreadable bytes
        why = f"{type(error).__name__}: {error}"
    why = why.replace(f"{directory.url}/", "").replace(directory.url, where)
    raise InputError(
        f"{where} cannot be opened as {kind}: {why}.\nNothing was adopted: "
        "name the right kind, or adopt it as raw_files and build the artifact with a step"
    )


def _read(kind: str, directory: Directory, entries: Sequence[FileEntry]) -> dict[str, Any]:
    match kind:
        case "documents":
            return _documents(directory)
        case "raw_files":
            return {"files": len(entries), "bytes": sum(entry.size for entry in entries)}
        case "tokenizer":
            from marin.data.tokenizer import load_tokenizer

            loaded = load_tokenizer(directory)
            return {"vocabulary": loaded.vocabulary, "digest": loaded.digest}
        case "tokens":
            return _tokens(directory, {entry.path: entry.sha256 for entry in entries})
        case "checkpoint":
            from marin.training.checkpoint import read_facts, verify

            verify(directory)
            facts = read_facts(directory)
            return {
                "step": facts.step,
                "tokens": facts.tokens,
                "parameters": facts.parameters,
                "architecture": facts.model.architecture.value,
                "loss": facts.loss,
            }
        case "scores":
            return {"metrics": json.loads(directory.read_bytes("scores.json"))["metrics"]}
        case "report":
            json.loads(directory.read_bytes("report.json"))
            return {}
        case "items":
            from marin.evaluation.items import read_items

            return {"items": len(read_items(directory))}
        case _:
            return {}


def _documents(directory: Directory) -> dict[str, Any]:
    from marin.data.documents import read_keyed, shard_names

    names = shard_names(directory)
    count = size = 0
    for name in names:
        for key, document in read_keyed(directory, name):
            if key != document.id:
                raise InputError(f"{name}: document {count} has the id {key!r}; wanted the xxh3-128 of its text")
            count, size = count + 1, size + len(document.text.encode())
    return {"documents": count, "bytes": size, "shards": len(names)}


def _tokens(directory: Directory, sha256: dict[str, str]) -> dict[str, Any]:
    from marin.data.token_store import TOKENS, TokenStore

    meta = TokenStore.open(directory).meta
    if sha256[TOKENS] != meta.sha256:
        raise InputError(f"{TOKENS} has the sha256 {sha256[TOKENS][:12]}, meta.json says {meta.sha256[:12]}")
    return {
        "tokens": meta.tokens,
        "documents": meta.documents,
        "vocabulary": meta.vocabulary,
        "tokenizer": meta.tokenizer,
    }
