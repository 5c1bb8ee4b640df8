"""Test which weights a run takes from another run's checkpoint, and its refusal if no array fits."""

from __future__ import annotations

import pytest

from marin.errors import UnreadableCheckpoint
from marin.training.transfer import transfer_report


def test_a_checkpoint_without_one_parameter_of_the_model_is_refused() -> None:
    stored, wanted = {"h/attn": (2, 8), "wte": (9, 8)}, {"transformer/attn": (2, 8), "embeddings": (9, 8)}
    with pytest.raises(
        UnreadableCheckpoint, match="there: its 2 parameters and this model's 2 have none in common; start"
    ):
        transfer_report(stored, wanted, "there")


def test_a_parameter_of_another_shape_is_refused_and_the_rest_is_counted() -> None:
    stored, wanted = {"a": (2, 8), "old": (3,)}, {"a": (2, 8), "new": (5,)}
    report = transfer_report(stored, wanted, "there")
    assert (report["loaded"], report["fresh"], report["dropped"]) == ({"a": (2, 8)}, {"new": (5,)}, {"old": (3,)})
    assert [report[f"parameters_{part}"] for part in ("loaded", "fresh", "dropped")] == [16, 5, 3]
    with pytest.raises(UnreadableCheckpoint, match=r"a has shape \(2, 8\), but this model needs \(2, 9\)"):
        transfer_report(stored, {"a": (2, 9)}, "there")
