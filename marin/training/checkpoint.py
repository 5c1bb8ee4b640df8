"""Checkpoint directories: their layout, and the operations that need no Levanter.

::

    checkpoint.json           Facts, and size and digest of every other file; written last: its presence means complete
    metrics.jsonl             one line for each optimizer step up to this one
    samples.jsonl             samples up to this step, if a Watch has prompts: see marin.training.writing
    metadata.json             Levanter's own marker
    manifest.json             name, shape and type of every array
    manifest.ocdbt, d/, …     the arrays (tensorstore, OCDBT):
        model/…               weights
        opt_state/…           optimizer state, with the history that clipping and skipping use
        model_averaging/…     moving average of the weights, if the recipe keeps one
        step, training_key

A run keeps its checkpoints side by side as ``step-160``, ``step-170`` … A run with adapters (LoRA) keeps only the
adapters' arrays below ``model/`` and ``opt_state/``. Its output holds the merged weights, and no optimizer state.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import xxhash

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training.lora import LoRA
from marin.training.model import ModelShape
from marin.training.optimizer import Optimizer
from marin.training.schedule import Schedule

if TYPE_CHECKING:
    from pydantic import TypeAdapter

MARKER = "checkpoint.json"
METRICS, SAMPLES = "metrics.jsonl", "samples.jsonl"
RESUMABLE, MERGED = "checkpoints", "merged"  # folders of a run's state; the second one if it trains adapters
FORMAT = 1
STEP_NAME = re.compile(r"step-(\d+)/")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """The origin of weights that marin did not train.

    source: ``hf:owner/name@commit``, or the URL of a folder. licence: as the model card names it, None if the card
    names none. tokenizer: SHA-256 of tokenizer.json. entries: number of the tokenizer's entries; the embedding may have
    more rows. stored: number type in the source's files, "BF16".
    """

    source: str
    licence: str | None
    tokenizer: str
    entries: int
    stored: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts that a checkpoint's marker records. Older checkpoints lack the five from finite to before."""

    step: int  # optimizer steps done, all phases
    tokens: int  # tokens trained on so far, all phases
    loss: float | None  # of the last step
    model: ModelShape
    vocabulary: int
    averaged: bool  # the checkpoint stores a moving average of the weights
    finite: bool = False  # the run checked every number before writing it, and found no NaN or infinity
    optimizer: Optimizer | None = None
    schedule: Schedule | None = None
    settings: dict[str, Any] = field(default_factory=dict[str, Any])  # see marin.training.settings
    before: int | None = None  # the token id in front of each text
    origin: Origin | None = None  # of a model that was trained elsewhere; its step, tokens and loss are 0, 0 and None
    lora: LoRA | None = None  # the adapters trained and merged into these weights, None if all weights were trained

    @property
    def separate_documents(self) -> bool:
        """Return whether attention stopped at the end of a document."""
        return bool(self.settings.get("separate_documents"))

    @property
    def parameters(self) -> int:
        return self.model.parameters(self.vocabulary)


@dataclass(frozen=True, kw_only=True)
class _Marker:
    """The content of checkpoint.json. files: size and xxh3-128 digest (None on object stores) by name."""

    format: int
    facts: Facts
    files: dict[str, tuple[int, str | None]]


def read_facts(directory: Directory) -> Facts:
    """Return the facts of a checkpoint. Raises UnreadableCheckpoint if the directory holds no complete checkpoint."""
    return _read_marker(directory).facts


def complete(directory: Directory, facts: Facts) -> None:
    """Write the marker: from now on the directory counts as a checkpoint."""
    files = {
        name: (stored.size, _digest(directory, name)) for name, stored in directory.listing().items() if name != MARKER
    }
    text = _adapter().dump_json(_Marker(format=FORMAT, facts=facts, files=files), indent=1).decode()
    if directory.is_local:
        directory.write_text(MARKER + ".tmp", text)
        os.replace(directory.path / (MARKER + ".tmp"), directory.path / MARKER)
    else:
        directory.write_text(MARKER, text)  # an object appears whole or not at all


def verify(directory: Directory) -> None:
    """Check every file against the marker. Raises UnreadableCheckpoint naming the first file that differs."""
    present = directory.listing()
    for name, (size, digest) in _read_marker(directory).files.items():
        where = f"checkpoint {directory.url}: {name}"
        if name not in present:
            raise UnreadableCheckpoint(f"{where} is missing; resume from an earlier checkpoint or rebuild the run")
        if present[name].size != size:
            raise UnreadableCheckpoint(
                f"{where} has {present[name].size} bytes, {size} were written; "
                "resume from an earlier checkpoint or rebuild the run"
            )
        if digest is not None and _digest(directory, name) != digest:
            raise UnreadableCheckpoint(
                f"{where} changed after it was written; resume from an earlier checkpoint or rebuild the run"
            )


def step_directory(directory: Directory, step: int) -> Directory:
    return directory / f"step-{step}"


def complete_steps(directory: Directory) -> list[int]:
    """Return the steps with a complete checkpoint below ``directory``, ascending."""
    return sorted(step for step, whole in _steps(directory).items() if whole)


def half_written_steps(directory: Directory) -> list[int]:
    """Return the steps whose checkpoint was begun and never completed, ascending."""
    return sorted(step for step, whole in _steps(directory).items() if not whole)


def remove(directory: Directory) -> None:
    """Delete a checkpoint: the marker first, so that a half-deleted checkpoint never counts as complete."""
    if directory.is_local:
        (directory.path / MARKER).unlink(missing_ok=True)
        shutil.rmtree(directory.path)
        return
    import fsspec

    filesystem, path = cast(tuple[Any, str], fsspec.url_to_fs(directory.url))  # pyright: ignore[reportUnknownMemberType]
    if directory.exists(MARKER):
        filesystem.rm(f"{path}/{MARKER}")
    filesystem.rm(path, recursive=True)


def copy(source: Directory, target: Directory) -> None:
    """Copy a complete checkpoint, without other files of its directory; the marker comes last.

    On one local disk the copy shares the files' bytes. Within one store the bytes do not pass through this machine.
    """
    source.share(_read_marker(source).files, target)
    source.share([MARKER], target)


def _steps(directory: Directory) -> dict[int, bool]:
    found: dict[int, bool] = {}
    for name in directory.names():
        match = STEP_NAME.match(name)
        if match:
            step = int(match[1])
            found[step] = found.get(step, False) or name == f"step-{step}/{MARKER}"
    return found


def _read_marker(directory: Directory) -> _Marker:
    if not directory.exists(MARKER):
        raise UnreadableCheckpoint(
            f"{directory.url} holds no complete checkpoint: {MARKER}, which is written last, is missing; "
            "check the path, or rebuild the training run"
        )
    try:
        held = _adapter().validate_json(directory.read_bytes(MARKER))
    except ValueError as error:  # pydantic's ValidationError is one
        raise UnreadableCheckpoint(
            f"{directory.url}/{MARKER} is garbled; resume from an earlier checkpoint or rebuild the run: {error}"
        ) from error
    if held.format != FORMAT:
        raise UnreadableCheckpoint(
            f"{directory.url} has checkpoint format {held.format}, this build reads {FORMAT}; "
            "use the build that wrote it"
        )
    return held


def _adapter() -> TypeAdapter[_Marker]:
    from pydantic import TypeAdapter

    return TypeAdapter(_Marker)


def _digest(directory: Directory, name: str) -> str | None:
    # marin does not read back a remote checkpoint of terabytes: there, the size must be enough.
    if not directory.is_local:
        return None
    state = xxhash.xxh3_128()
    with directory.open(name) as handle:
        while block := handle.read(1 << 22):
            state.update(block)
    return state.hexdigest()
