"""Test that a NaN or infinite value stops the run, and that no run saves, publishes or continues such weights."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.metrics import MetricsLog, read_metrics
from marin.training.schedule import Schedule
from marin.training.spec import Start, StartMode
from tests.training.broken import LM_HEAD, garble_marker, lose_array, poison, truncate
from tests.training.runs import Runs, small_spec, strict_rows

KEPT = (2, 4, 6, 8, 10, 12)
HUGE = 1e38


def test_metrics_are_json_whatever_happens(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    older = '{"step": 0, "loss": 2.0, "grad_norm": Infinity}'
    log = MetricsLog(directory, "metrics.jsonl", [older])
    log.add({"step": 1, "loss": math.nan, "grad_norm": math.inf, "update_norm": -math.inf})
    log.add({"step": 2, "loss": 1.0, "grad_norm": 0.5})
    rows = strict_rows(directory)
    assert rows == [
        {"step": 0, "loss": 2.0, "grad_norm": None, "non_finite": {"grad_norm": "inf"}},
        {
            "step": 1, "loss": None, "grad_norm": None, "update_norm": None,
            "non_finite": {"loss": "nan", "grad_norm": "inf", "update_norm": "-inf"},
        },
        {"step": 2, "loss": 1.0, "grad_norm": 0.5},
    ]  # fmt: skip
    assert read_metrics(directory) == rows
    assert log.text() == directory.read_text("metrics.jsonl")


@pytest.mark.filterwarnings("ignore")  # Levanter's own imports warn
@pytest.mark.slow
def test_every_array_of_a_state_is_looked_at() -> None:
    import haliax
    import jax.numpy as jnp

    from marin.training.finite import non_finite_arrays

    weights = haliax.zeros(haliax.Axis("width", 3))
    good = {"model": weights, "count": jnp.zeros((), int), "moments": (jnp.ones(2), None)}
    assert non_finite_arrays(good) == []
    assert non_finite_arrays({**good, "moments": (jnp.array([1.0, math.inf]), None)}) == ["moments/0"]
    assert non_finite_arrays({**good, "model": weights + math.nan}) == ["model"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("non-finite")
    spec = small_spec(folder / "good", keep_steps=KEPT)
    made = Runs(folder, spec)
    made.train(spec)
    assert checkpoint.complete_steps(Directory(spec.state) / "checkpoints") == list(KEPT)
    return made


@pytest.mark.slow
def test_an_update_that_is_not_finite_stops_before_its_weights_are_saved(runs: Runs) -> None:
    """The loss of that step is finite, because the step computes it with the weights before the update."""
    spec = runs.named("first update", schedule=Schedule(), end_step=1, keep_steps=(1,))
    said = runs.diverging(spec, peak_lr=HUGE)
    for fact in ("step 0", "update_norm is inf", "learning rate of 1e+38", "No checkpoint was saved", "lower the"):
        assert fact in said, said


@pytest.mark.slow
def test_it_goes_on_from_the_last_good_checkpoint_and_says_so(runs: Runs) -> None:
    spec = runs.continued("bad checkpoints")
    breakages: dict[int, tuple[Callable[[Directory], None], str]] = {
        12: (poison, f"NaN or infinite numbers in {LM_HEAD}"),
        10: (truncate, "bytes"),
        8: (lose_array, LM_HEAD),
        6: (garble_marker, "garbled"),
        4: (lambda at: poison(at, "model_averaging/model/lm_head/weight"), "model_averaging/model/lm_head/weight"),
    }
    for step, (damage, _) in breakages.items():
        damage(runs.checkpoint(spec, step))
    announced: list[int] = []
    timings = runs.train(spec, checkpoint=announced.append)
    assert timings.began_at == 2
    for note, (step, (_, fact)) in zip(timings.notes, breakages.items(), strict=False):
        assert f"CANNOT RESUME from step {step}" in note
        assert fact in note
    assert "from step 2" in timings.notes[-1]
    # A milestone is announced when it is good: at once, or when it was trained again.
    assert announced == list(KEPT)
    assert runs.rows(spec) == runs.rows(runs.spec)
    for step in KEPT:
        damaged = runs.checkpoint(spec, step)
        poison(damaged)
    with pytest.raises(UnreadableCheckpoint, match="will not start over by itself") as refused:
        runs.train(spec)
    assert all(f"step {step}: " in str(refused.value) for step in KEPT)
    assert "--rebuild" in str(refused.value)
    assert checkpoint.complete_steps(Directory(spec.state) / "checkpoints") == list(KEPT), "nothing is thrown away"


@pytest.mark.slow
def test_a_milestone_that_was_left_behind_is_published_only_if_it_is_good(runs: Runs) -> None:
    spec = runs.continued("left behind")
    poison(runs.checkpoint(spec, 6))
    truncate(runs.checkpoint(spec, 4))
    announced: list[int] = []
    timings = runs.train(spec, checkpoint=announced.append)
    assert timings.began_at == 12
    assert announced == [2, 8, 10, 12]
    assert all(any(f"step {step} " in note for note in timings.notes) for step in (4, 6))


@pytest.mark.slow
@pytest.mark.parametrize("mode", [StartMode.WARM, StartMode.ALL])
def test_another_run_is_not_begun_from_weights_that_are_not_finite(runs: Runs, mode: StartMode) -> None:
    source = runs.folder / f"source {mode.value}"
    shutil.copytree(runs.checkpoint(runs.spec, 8).path, source)
    poison(Directory(str(source)))
    spec = runs.named(f"begun {mode.value}", first_step=8, start=Start(mode=mode, checkpoint=str(source)))
    with pytest.raises(UnreadableCheckpoint, match=f"NaN or infinite numbers in {LM_HEAD}"):
        runs.train(spec)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [truncate, lose_array])
def test_another_run_is_not_begun_from_a_checkpoint_that_lacks_a_part(
    runs: Runs, harm: Callable[[Directory], None]
) -> None:
    """A truncated file by its size, a lost tensor by its name: before a step is made."""
    source = runs.folder / f"source {harm.__name__}"
    shutil.copytree(runs.checkpoint(runs.spec, 8).path, source)
    harm(Directory(str(source)))
    start = Start(mode=StartMode.ALL, checkpoint=str(source))
    spec, made = runs.named(f"begun {harm.__name__}", first_step=8, start=start), list[int]()
    with pytest.raises(UnreadableCheckpoint, match=f"source {harm.__name__}"):
        runs.train(spec, step=lambda done, _: made.append(done))
    assert made == []
