"""Real training runs, also in their own processes, killed for real."""

from __future__ import annotations

import dataclasses
import json
import os
import select
import shutil
from pathlib import Path
from typing import Any

import pytest

from marin.data.mixture import BatchSchedule
from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.main import LOCK
from marin.training.optimizer import ClipUpdateNorm, Muon
from marin.training.schedule import Decay, Rewarmup, Schedule
from marin.training.spec import Start, StartMode, TrainingSpec
from marin.training.transfer import stored_shapes
from tests.training.runs import QWEN3, Runs, resumes_of, small_spec, waiting_for

pytestmark = pytest.mark.slow

BATCH = {0: 8, 5: 6, 7: 8}
END, KEPT = 16, 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("training")
    spec = small_spec(
        folder / "uninterrupted", batch=BATCH, end_step=END, keep_steps=(KEPT,),
        schedule=Schedule(warmup=2, decay=Decay(12, 16)),
    )  # fmt: skip
    made = Runs(folder, spec)
    made.train(spec)
    return made


def damage(directory: Directory) -> None:
    """Flip a bit in the largest file of a checkpoint."""
    name = max(directory.names(), key=directory.size)
    content = bytearray(directory.read_bytes(name))
    content[len(content) // 2] ^= 1
    directory.write_bytes(name, bytes(content))


def test_the_loss_goes_down_and_every_step_is_there_once(runs: Runs) -> None:
    rows = runs.rows(runs.spec)
    assert [row["step"] for row in rows] == list(range(END))
    assert rows[-1]["loss"] < rows[0]["loss"] - 1


def test_the_batch_schedule_is_honoured(runs: Runs) -> None:
    schedule = BatchSchedule(BATCH)
    for row in runs.rows(runs.spec):
        assert sum(row["sources"].values()) == schedule.batch(row["step"])
        assert row["tokens"] == schedule.tokens(runs.spec.seq_len, 0, row["step"] + 1)


def test_the_rate_that_was_used_is_the_schedules(runs: Runs) -> None:
    for row in runs.rows(runs.spec):
        wanted = runs.spec.schedule.learning_rate(row["step"], runs.spec.optimizer.peak_lr)
        assert row["learning_rate"] == pytest.approx(wanted, rel=1e-6, abs=1e-12)
        # No rate, no update; and an update for every rate.
        assert (row["update_norm"] > 0) == (wanted > 0)


def test_the_last_two_and_the_kept_checkpoints_are_there(runs: Runs) -> None:
    assert checkpoint.complete_steps(Directory(runs.spec.state) / "checkpoints") == [12, 16]
    facts = checkpoint.read_facts(runs.checkpoint(runs.spec, 12))
    assert (facts.step, facts.averaged, facts.loss) == (12, True, runs.rows(runs.spec)[11]["loss"])


def test_a_resume_says_what_is_not_as_it_was(runs: Runs) -> None:
    spec = runs.named("resumed", checkpoint_every=2, code="other")
    shutil.copytree(runs.spec.state, spec.state)
    shutil.rmtree(runs.checkpoint(spec, END).path)
    timings = runs.train(spec)
    assert timings.began_at == KEPT
    changed = {"checkpoint_every": [4, 2], "code": ["", "other"]}
    assert resumes_of(spec) == [{"step": KEPT, "changed": changed}]
    assert f"changed since the checkpoint of step {KEPT}: checkpoint_every: 4 → 2" in timings.notes
    row, whole = runs.rows(spec)[KEPT], runs.rows(runs.spec)[KEPT]
    assert row["changed"] == [*whole.get("changed", []), "checkpoint_every: 4 → 2", "code:  → other"]
    assert {**row, "changed": 0} == {**whole, "changed": 0}  # every other value is as it was
    settings = checkpoint.read_facts(runs.checkpoint(spec, END)).settings
    assert (settings["checkpoint_every"], settings["optimizer.ema"], settings["stages.0"]) == (
        2, 0.8, "stride 1 0.75, stride 5 0.25",
    )  # fmt: skip
    assert settings.keys() >= {"machine.devices", "machine.processes", "version.jax", "batch.5", "seed"}


def test_a_checkpoint_that_was_never_completed_is_not_resumed(runs: Runs) -> None:
    spec = runs.named("half")
    shutil.copytree(runs.spec.state, spec.state)
    (runs.checkpoint(spec, 16).path / checkpoint.MARKER).unlink()
    timings = runs.train(spec)
    assert timings.began_at == 12
    assert "step 16 was never completed" in timings.notes[0]
    assert runs.rows(spec) == runs.rows(runs.spec)


def test_a_damaged_checkpoint_gives_way_to_the_one_before_it_loudly(runs: Runs) -> None:
    spec = runs.named("damaged")
    shutil.copytree(runs.spec.state, spec.state)
    damage(runs.checkpoint(spec, 16))
    timings = runs.train(spec)
    assert timings.began_at == 12
    assert "CANNOT RESUME from step 16" in timings.notes[0]
    assert runs.rows(spec) == runs.rows(runs.spec)
    for step in (12, 16):
        damage(runs.checkpoint(spec, step))
    with pytest.raises(UnreadableCheckpoint, match="will not start over by itself"):
        runs.train(spec)


def test_a_fork_with_the_optimizer_state_goes_on_as_if_nothing_had_happened(runs: Runs) -> None:
    source = runs.checkpoint(runs.spec, KEPT)
    spec = runs.named("fork", first_step=KEPT, start=Start(mode=StartMode.ALL, checkpoint=source.url))
    runs.train(spec)
    first, *others = runs.rows(spec)
    assert first.pop("guards") == runs.rows(runs.spec)[0]["guards"]  # in the first line of each run
    expected = runs.rows(runs.spec)[KEPT:]
    assert expected[0].pop("changed") == ["learning rate: hold → decay"]  # a fork lists changes since its checkpoint
    assert [first, *others] == expected
    assert "optimizer_state" not in report_of(spec)  # the fork read the whole state unchanged


def report_of(spec: TrainingSpec) -> dict[str, Any]:
    return json.loads(Directory(spec.state).read_text("warm_start.json"))


def alike(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> bool:
    """Up to the rounding of another program."""
    numbers = ("step", "loss", "learning_rate", "grad_norm", "update_norm")
    return [[row[name] for name in numbers] for row in rows] == [
        pytest.approx([other[name] for name in numbers], rel=1e-4) for other in others
    ]


def test_guards_are_switched_off_and_on_without_losing_the_moments(runs: Runs) -> None:
    """No guard triggers in so few steps, so the run trains exactly as the uninterrupted run did."""
    source, whole = runs.checkpoint(runs.spec, KEPT), runs.rows(runs.spec)
    unguarded = dataclasses.replace(runs.spec.optimizer, clip_update_norm=None, skip_bad_steps=None, ema=None)
    off = runs.named(
        "off", first_step=KEPT, end_step=KEPT + 2, optimizer=unguarded,
        start=Start(mode=StartMode.ALL, checkpoint=source.url), keep_steps=(),
    )  # fmt: skip
    notes = runs.train(off).notes
    assert alike(runs.rows(off), whole[KEPT : KEPT + 2])
    carried = report_of(off)["optimizer_state"]
    assert carried["fresh"] == {}
    assert {path.split("/")[-1].removeprefix("_skipstep_") for path in carried["dropped"]} == {
        "update_norms", "losses", "grad_norms", "valid_mask", "current_idx", "count",
    }  # fmt: skip
    assert "optimizer state: " in notes[1]
    assert "changed since that checkpoint: optimizer.ema 0.8 → None" in notes

    on = runs.named(
        "on", first_step=KEPT + 2, start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(off, KEPT + 2).url)
    )
    runs.train(on)
    assert alike(runs.rows(on), whole[KEPT + 2 :])
    again = report_of(on)["optimizer_state"]
    assert (again["fresh"].keys(), again["dropped"]) == (carried["dropped"].keys(), {})
    assert report_of(on)["changed"]["optimizer.skip_bad_steps.window"] == [None, 128]


def test_moments_are_kept_though_a_guard_before_them_is_gone(runs: Runs) -> None:
    """Without clipping of gradients every place in the optimizer's chain is another one."""
    spec = runs.named(
        "unclipped", first_step=KEPT, end_step=KEPT + 1,
        optimizer=dataclasses.replace(runs.spec.optimizer, max_grad_norm=None),
        start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(runs.spec, KEPT).url), keep_steps=(),
    )  # fmt: skip
    runs.train(spec)
    carried = report_of(spec)["optimizer_state"]
    assert (carried["fresh"], carried["dropped"]) == ({}, {})
    [row], whole = runs.rows(spec), runs.rows(runs.spec)[KEPT]
    # Adam's first update from empty moments would be as long as the rate for every weight.
    assert row["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert row["update_norm"] == pytest.approx(whole["update_norm"], rel=0.2)


def test_a_guard_with_another_window_begins_its_history_anew(runs: Runs) -> None:
    clip = ClipUpdateNorm(window=8)
    spec = runs.named(
        "window", first_step=KEPT, end_step=KEPT + 1, batch={0: 8}, seed=4,
        optimizer=dataclasses.replace(runs.spec.optimizer, clip_update_norm=clip),
        start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(runs.spec, KEPT).url), keep_steps=(),
    )  # fmt: skip
    runs.train(spec)
    fresh = report_of(spec)["optimizer_state"]["fresh"]
    assert {path.split("/")[-1] for path in fresh} == {"update_norms", "valid_mask", "current_idx", "count"}
    # The report lists changes of all settings, not only of the recipe.
    assert report_of(spec)["changed"] == {
        "batch.5": [6, None], "batch.7": [8, None], "optimizer.clip_update_norm.window": [128, 8], "seed": [3, 4],
    }  # fmt: skip


def norms_seen(source: Directory) -> int:
    """Return the number of update norms in the clip history of a checkpoint."""
    import jax
    import numpy as np
    from levanter.checkpoint import load_checkpoint

    [path] = [path for path in stored_shapes(source) if path.endswith("/update_norms")]
    where = path.removesuffix("update_norms") + "count"
    mesh = jax.make_mesh((1,), ("data",))  # pyright: ignore[reportUnknownMemberType]
    return int(load_checkpoint({where: np.zeros((), np.int32)}, source.url, axis_mapping={}, mesh=mesh)[where])


@pytest.mark.filterwarnings("ignore")  # Levanter's imports warn
def test_the_clip_begins_with_the_history_of_another_checkpoint(runs: Runs) -> None:
    """The clip was off for a while before, as between steps 74,000 and 80,000 of the 32B."""
    unclipped = dataclasses.replace(runs.spec.optimizer, clip_update_norm=None)
    source = runs.checkpoint(runs.spec, KEPT).url
    off = runs.named(
        "lost", first_step=KEPT, end_step=KEPT + 2, optimizer=unclipped, keep_steps=(),
        start=Start(mode=StartMode.ALL, checkpoint=source),
    )  # fmt: skip
    runs.train(off)
    there = runs.checkpoint(off, KEPT + 2).url
    on = runs.named(
        "found", first_step=KEPT + 2, end_step=KEPT + 3, keep_steps=(),
        start=Start(mode=StartMode.ALL, checkpoint=there, clip_history=source),
    )  # fmt: skip
    assert f"clip history: that of step {KEPT} of another run" in runs.train(on).notes
    assert report_of(on)["clip_history"]["step"] == KEPT
    assert norms_seen(runs.checkpoint(on, KEPT + 3)) == KEPT + 1
    nothing = Start(mode=StartMode.ALL, checkpoint=there, clip_history=there)
    missing = dataclasses.replace(on, state=on.state + "-none", start=nothing)
    with pytest.raises(UnreadableCheckpoint, match="has no history of update norms that fits this run's clip"):
        runs.train(missing)


@pytest.mark.filterwarnings("ignore")  # Levanter's imports warn
def test_a_rebuilt_optimizer_state_is_like_the_one_that_was_lost(runs: Runs) -> None:
    whole, source = runs.rows(runs.spec)[KEPT], runs.checkpoint(runs.spec, KEPT).url
    rows: dict[int, dict[str, Any]] = {}
    for rebuild in (0, 10):
        spec = runs.named(
            f"rebuilt {rebuild}", first_step=KEPT, end_step=KEPT + 1, keep_steps=(),
            start=Start(mode=StartMode.WEIGHTS, checkpoint=source, rebuild=rebuild),
        )  # fmt: skip
        notes = runs.train(spec).notes
        [rows[rebuild]] = runs.rows(spec)
    assert "optimizer state: rebuilt from the 10 batches from step 2 on, which changed no weight" in notes
    assert norms_seen(runs.checkpoint(spec, KEPT + 1)) == 10 + 1
    # The weights and the learning rate equal the checkpoint's.
    for name in ("loss", "learning_rate", "grad_norm"):
        assert rows[10][name] == pytest.approx(whole[name], rel=1e-5)
    # A first update from nothing is as long as the rate for every weight; one with moments is shorter.
    assert whole["update_norm"] < rows[0]["update_norm"] / 2
    assert rows[10]["update_norm"] == pytest.approx(whole["update_norm"], rel=0.5)


def test_the_optimizer_is_swapped_at_a_fork_and_back(runs: Runs) -> None:
    """Embeddings, output and norms are Adam's under Muon too, and keep their moments; the guards keep their history."""
    guards = runs.spec.optimizer
    muon = Muon(ema=guards.ema, clip_update_norm=guards.clip_update_norm, skip_bad_steps=guards.skip_bad_steps)
    swapped = runs.named(
        "muon", first_step=KEPT, end_step=KEPT + 2, optimizer=muon, keep_steps=(),
        start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(runs.spec, KEPT).url),
    )  # fmt: skip
    notes = runs.train(swapped).notes
    assert "changed since that checkpoint: optimizer Adam → Muon" in notes
    there = report_of(swapped)["optimizer_state"]
    assert all("/momentum_buffer/" in path or "/hyperparams" in path or path.endswith("/count")
               for path in there["fresh"])  # fmt: skip
    assert sum("/momentum_buffer/" in path for path in there["fresh"]) == 7  # the matrices of a layer
    kept = {path.split("/mu/")[1] for path in there["kept"] if "/mu/" in path}
    assert {"embeddings/token_embeddings/weight", "lm_head/weight", "transformer/norm/weight"} <= kept
    assert sum("update_norms" in path or "_skipstep_" in path for path in there["kept"]) == 6
    assert {path.split("/mlp/")[1] for path in there["dropped"] if "/mu/" in path and "/mlp/" in path} == {
        "gate_proj/weight", "up_proj/weight", "down_proj/weight",
    }  # fmt: skip
    assert all(abs(row["loss"] - other["loss"]) < 0.3 for row, other in zip(
        runs.rows(swapped), runs.rows(runs.spec)[KEPT : KEPT + 2], strict=True))  # fmt: skip

    back = runs.named(
        "back", first_step=KEPT + 2, end_step=KEPT + 3, keep_steps=(),
        start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(swapped, KEPT + 2).url),
    )  # fmt: skip
    runs.train(back)
    again = report_of(back)["optimizer_state"]
    assert {path.split("/mu/")[1] for path in again["kept"] if "/mu/" in path} == kept
    assert any("/momentum_buffer/" in path for path in again["dropped"])


def test_a_warm_start_can_keep_the_optimizer_state_of_what_it_takes_over(runs: Runs) -> None:
    source, whole = runs.checkpoint(runs.spec, KEPT), runs.rows(runs.spec)
    updates: dict[StartMode, float] = {}
    for mode in (StartMode.WARM, StartMode.WARM_ALL):
        spec = runs.named(
            f"kept {mode.value}", model=QWEN3, first_step=KEPT, end_step=KEPT + 1, keep_steps=(),
            start=Start(mode=mode, checkpoint=source.url),
        )  # fmt: skip
        runs.train(spec)
        [row] = runs.rows(spec)
        updates[mode] = row["update_norm"]
    carried = report_of(spec)["optimizer_state"]
    assert {path.split("/")[-2] for path in carried["fresh"]} == {"q_norm", "k_norm"}
    assert sum("/mu/" in path for path in carried["fresh"]) == 2
    assert carried["dropped"] == {}
    near = whole[KEPT]["update_norm"]
    assert abs(updates[StartMode.WARM_ALL] - near) < abs(updates[StartMode.WARM] - near)


def test_an_optimizer_state_of_another_step_is_refused(runs: Runs) -> None:
    spec = runs.named(
        "step", first_step=KEPT + 1, start=Start(mode=StartMode.ALL, checkpoint=runs.checkpoint(runs.spec, KEPT).url)
    )
    with pytest.raises(UnreadableCheckpoint, match=f"is at step {KEPT}, this run begins at step {KEPT + 1}"):
        runs.train(spec)


def test_llama_warm_starts_qwen3(runs: Runs) -> None:
    source = runs.checkpoint(runs.spec, KEPT)
    spec = runs.named(
        "warm", model=QWEN3, first_step=KEPT, end_step=KEPT + 3, schedule=Schedule(rewarmups=(Rewarmup(KEPT, 2),)),
        start=Start(mode=StartMode.WARM, checkpoint=source.url), keep_steps=(),
    )  # fmt: skip
    runs.train(spec)
    report = report_of(spec)
    attention = "transformer/layers/stacked/self_attn"
    assert report["fresh"] == {f"{attention}/k_norm/weight": [2, 8], f"{attention}/q_norm/weight": [2, 8]}
    assert report["dropped"] == {}
    assert report["parameters_loaded"] == runs.spec.model.parameters(spec.vocabulary)
    assert report["parameters_fresh"] == 2 * 2 * 8
    rows = runs.rows(spec)
    assert [row["step"] for row in rows] == [12, 13, 14]
    assert [row["learning_rate"] for row in rows] == pytest.approx([0, 5e-3, 1e-2])
    # Below the first loss from scratch: what Llama learned is there.
    assert rows[0]["loss"] < runs.rows(runs.spec)[0]["loss"] - 0.5


def test_a_checkpoint_of_other_sizes_is_refused_with_both_shapes(runs: Runs) -> None:
    spec = runs.named(
        "sizes", model=dataclasses.replace(QWEN3, intermediate=96), first_step=KEPT,
        start=Start(mode=StartMode.WARM, checkpoint=runs.checkpoint(runs.spec, KEPT).url),
    )  # fmt: skip
    with pytest.raises(UnreadableCheckpoint, match=r"has shape \(2, 32, 64\), but this model needs \(2, 32, 96\)"):
        runs.train(spec)


def test_runs_that_differ_in_their_seed_share_their_compiled_programs(runs: Runs) -> None:
    from jax import monitoring

    compiled: list[int] = []
    monitoring.register_event_listener(
        lambda event, **_: (
            compiled.append(compiled.pop() + 1) if event == "/jax/compilation_cache/cache_misses" else None
        )
    )
    for name, seed in (("seed", 8), ("again", 8), ("other", 9)):
        compiled.append(0)
        runs.train(runs.named(name, seed=seed, end_step=1, keep_steps=()))
    _, again, other = compiled
    assert other == again


def test_the_trainer_dies_with_its_parent(runs: Runs) -> None:
    spec = runs.named("orphan", end_step=100_000, checkpoint_every=100_000, max_epochs=1e9)
    parent = waiting_for(spec, runs.folder / "orphan")
    trainer = os.pidfd_open(int((Path(spec.state) / LOCK).read_text()))
    parent.kill()
    ended, _, _ = select.select([trainer], [], [], 60)
    assert ended == [trainer]
    os.close(trainer)
    parent.communicate()
