"""Describe a directory with a checkpoint as an artifact."""

from __future__ import annotations

from marin import Checkpoint, Directory


def artifact_of(directory: Directory) -> Checkpoint:
    """Return the artifact that describes the checkpoint in a directory. Raises UnreadableCheckpoint."""
    from marin.training.checkpoint import read_facts

    facts = read_facts(directory)
    return Checkpoint(
        step=facts.step,
        tokens=facts.tokens,
        parameters=facts.parameters,
        architecture=facts.model.architecture.value,
        loss=facts.loss,
    )
