"""Test the distance between two sets of weights against NumPy over whole arrays."""

from pathlib import Path

import numpy as np
import pytest

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import parameter_change
from marin.training.parameter_change import GroupChange, mean_changes, parameter_changes, weights_bytes
from tests.training.runs import LLAMA, QWEN3, VOCABULARY, random_checkpoint

# Levanter's own imports warn.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Directory]:
    made: dict[str, Directory] = {}
    for name, model, seed in (("first", LLAMA, 0), ("second", LLAMA, 1), ("qwen", QWEN3, 0)):
        made[name] = Directory(str(tmp_path_factory.mktemp(name)))
        random_checkpoint(made[name], model, VOCABULARY, seed=seed)
    return made


def test_groups_agree_with_whole_arrays_however_they_are_cut(
    checkpoints: dict[str, Directory], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = parameter_changes(checkpoints["first"], checkpoints["second"])
    monkeypatch.setattr(parameter_change, "AT_ONCE", 256)
    cut = parameter_changes(checkpoints["first"], checkpoints["second"])
    assert [each.relative for each in cut] == pytest.approx([each.relative for each in whole])
    by_name = {each.name: each for each in whole}
    arrays = [
        _whole(checkpoints[name], "model/transformer/layers/stacked/mlp/up_proj/weight") for name in ("first", "second")
    ]
    expected = np.linalg.norm(arrays[1] - arrays[0]) / np.linalg.norm(arrays[0])
    assert by_name["mlp/up_proj"].relative == pytest.approx(expected)
    assert by_name["mlp/up_proj"].parameters == arrays[0].size
    assert by_name["norm"].relative == 0  # both are ones
    assert sum(each.parameters for each in whole) * 4 == weights_bytes(checkpoints["first"])


def test_a_checkpoint_is_no_distance_from_itself(checkpoints: dict[str, Directory]) -> None:
    assert {each.relative for each in parameter_changes(checkpoints["first"], checkpoints["first"])} == {0.0}


def test_a_group_that_one_of_them_lacks_has_no_distance(checkpoints: dict[str, Directory]) -> None:
    changes = {each.name: each.relative for each in parameter_changes(checkpoints["first"], checkpoints["qwen"])}
    assert changes["self_attn/q_norm"] is None
    assert changes["self_attn/q_proj"] is not None


def test_what_is_no_checkpoint_is_refused(tmp_path: Path, checkpoints: dict[str, Directory]) -> None:
    with pytest.raises(UnreadableCheckpoint, match=r"holds no manifest.json"):
        parameter_changes(checkpoints["first"], Directory(str(tmp_path)))
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(UnreadableCheckpoint, match="garbled"):
        weights_bytes(Directory(str(tmp_path)))


def _whole(directory: Directory, path: str) -> np.ndarray:
    import tensorstore

    base = {"driver": "file", "path": directory.url}
    spec = {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": base, "path": path}}
    return np.asarray(tensorstore.open(spec, read=True, open=True).result().read().result())


def test_pairs_of_runs_are_averaged_group_by_group() -> None:
    def groups(relative: float | None) -> list[GroupChange]:
        return [
            GroupChange(name="mlp", parameters=4, relative=0.5),
            GroupChange(name="q", parameters=2, relative=relative),
        ]

    assert [each.relative for each in mean_changes([groups(0.1), groups(0.3)])] == [0.5, pytest.approx(0.2)]
    assert [each.relative for each in mean_changes([groups(0.1), groups(None)])] == [0.5, None]
