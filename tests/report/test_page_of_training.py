"""Test the page's section about trainings: fields, speed, hardware, and the reading of each source."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from infra.hardware import gpu
from marin import BatchSchedule, ByTokens, Checkpoint, Context, ExecutorStep, Mixture, Stages, Tokens
from marin.report.page.collect import describe
from marin.report.page.render import render
from marin.report.section import Bold
from marin.steps.resources import Work
from marin.steps.scale import Scale
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from marin.training.spec import PROFILE
from tests.report.reading import Reading
from tests.support.toy import checkpoint, run
from tests.training.test_health import rows as healthy_rows

CHANGED = ["batch: 1 → 2 sequences", "seed: 1 → 2", "code: a → b", "ema: 3 → 4"]


class Make(ExecutorStep[Tokens], op="page-tokens"):
    tokens: int

    def run(self, ctx: Context) -> Tokens:
        ctx.out.write_text("tokens.txt", "x" * self.tokens)
        return Tokens(tokens=self.tokens, documents=1, vocabulary=9, tokenizer="t")


class Learn(ExecutorStep[Checkpoint], op="page-learn"):
    """40 steps as planned, but for its data and, where it has one, its clip."""

    optimizer: Adam
    schedule: Schedule
    batch: BatchSchedule
    data: Stages[ExecutorStep[Tokens]]
    seq_len: int = 8
    first_step: int = 0
    end_step: int = 40

    def work(self) -> Work:
        return Work(steps=40, tokens=480, flops=4.8e18)

    def run(self, ctx: Context) -> Checkpoint:
        rows = [
            {
                "step": step, "loss": 9.0 if step < 2 else 3.0 - step / 40, "tokens": 16 * (step + 1),
                "sources": {"web": 1, "code": 1} if step >= 20 else {"web": 1}, "seconds": 0.5, "mfu": 0.25,
                "tokens_per_second": 10.0 if step == 0 else 32.0,
                "learning_rate": self.schedule.learning_rate(step, self.optimizer.peak_lr),
                **({"clipped": step in (30, 31), "skipped": False} if self.optimizer.clip_update_norm else {}),
                **({"changed": CHANGED} if step == 9 else {}),
                **({"process": {"devices": 16, "device": "NVIDIA H100"}} if step in (0, 9) else {}),
            }
            for step in range(40)
        ]  # fmt: skip
        ctx.out.write_text("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return checkpoint(40)


def arms_of(kind: type[Learn], **peaks: float) -> dict[str, Learn]:
    web, code = Make(label="web", tokens=160), Make(label="code", tokens=1600)
    return {
        name: kind(
            label=name, optimizer=Adam(peak_lr=peak, clip_update_norm=None), schedule=Schedule(warmup=4),
            batch=BatchSchedule({0: 1, 20: 2}), data=Stages({0: Mixture({web: 0.75, code: 0.25})}),
        )
        for name, peak in peaks.items()
    }  # fmt: skip


def test_fields_speed_and_sources_of_runs_are_shown(tmp_path: Path) -> None:
    arms = arms_of(Learn, low=1e-4, high=1e-3)
    done = run(str(tmp_path / "store"), **arms)
    page = describe(done, Path(__file__), Scale.REHEARSAL, "once")
    # The second event is a resume's; the batch event comes from the plan.
    events = {event.text: event.step for event in page.runs[0].events}
    assert events == {"batch 2": 20, "seed: 1 → 2; code: a → b, 1 more": 9}
    _, apart, common = page.trainings
    assert list(apart.rows) == [["optimizer.peak lr", "0.0001", "0.001"]]
    assert ["schedule.warmup", "4"] in common.rows
    assert ["seq len", "8"] in common.rows
    assert common.folded
    assert not any("data" in str(row) for row in common.rows)
    reading = Reading(render(describe(done, Path(__file__), Scale.REHEARSAL, "once")))
    assert reading.row("optimizer.peak lr")[1:] == ["0.0001", "0.001"]
    # For both arms, 40 sequences of 8 tokens are two epochs of web (160 tokens), and 20 are a tenth of code (1,600).
    read = [row for row in page.mixtures[-1].rows if isinstance(row, list)]
    assert read == [["web", "40", "2.00", "40", "2.00"], ["code", "20", "0.10", "20", "0.10"]]
    assert isinstance(read[0][2], Bold)
    assert reading.row("web")[1:] == ["75.00"]  # of all arms
    [drawn] = [data for data in reading.data if "phases" in data]
    assert drawn["axes"] == ["step", "tokens", "hours"]
    assert drawn["panels"] == ["loss (nats per token)", "learning rate", "tokens/s"]
    assert [run["y"]["tokens/s"][:2] for run in drawn["runs"]] == [[10, 32]] * 2


def test_what_was_planned_stands_over_what_happened(tmp_path: Path) -> None:
    plain = arms_of(Learn, plain=1e-4)["plain"]
    guarded = replace(plain, label="guarded", optimizer=Adam(peak_lr=1e-4), resources=gpu("h100", count=8))
    run(str(tmp_path / "store"), plain=plain, guarded=replace(guarded, resources=plain.resources))
    done = run(str(tmp_path / "store"), plain=plain, guarded=guarded)
    rows = Reading(render(describe(done, Path(__file__), Scale.REHEARSAL, "once"))).rows
    cells = [[" ".join(cell.split()) for cell in row] for row in rows]
    begin = cells.index(["guarded"])
    heads = next(row for row in reversed(cells[:begin]) if "steps" in row)[1:]
    planned, happened = (dict(zip(heads, cells[begin + n][1:], strict=True)) for n in (1, 2))
    assert [cells[begin + n][0] for n in (1, 2)] == ["planned", "actual"]
    exactly = {"steps": "0–39", "tokens": "480", "batch": "1 → 2", "learning rate": "0 → 0.0001"}
    assert planned == exactly | {
        "data": "web 75.0%, code 25.0%", "machines": "h100, 8 chips", "tokens/s": "0.316", "MFU": "40%",
        "time": "25 min 17 s", "guards": "gradient norm ≤ 0.2, clip at 2σ, skip at 6σ", "loss": "",
    }  # fmt: skip
    assert happened == exactly | {
        "data": "web 66.7%, code 33.3%", "machines": "16 × NVIDIA H100, resumed at 9", "tokens/s": "32", "MFU": "25.0%",
        "time": "20 s", "guards": "2 updates clipped, 0 updates skipped", "loss": "9.000 → 2.037",
    }  # fmt: skip
    account = describe(done, Path(__file__), Scale.REHEARSAL, "once").trainings[0].rows[-1]
    assert isinstance(account, list)
    assert [cell for cell in account if isinstance(cell, Bold)] == ["web 66.7%, code 33.3%"]


def test_shares_that_go_by_tokens_are_planned_as_they_were_counted(tmp_path: Path) -> None:
    web, code = Make(label="web", tokens=160), Make(label="code", tokens=1600)
    arm = replace(arms_of(Learn, arm=1e-4)["arm"], data=Stages({0: ByTokens({web: 1.0, code: 0.3})}))
    page = describe(run(str(tmp_path / "store"), arm=arm), Path(__file__), Scale.REHEARSAL, "once")
    at = [column.name for column in page.trainings[0].columns].index("data")
    rows = [row[at] for row in page.trainings[0].rows if isinstance(row, list)]
    assert rows == ["code 75.0%, web 25.0%", "code 33.3%, web 66.7%"]
    assert isinstance(rows[1], Bold)


def test_shares_that_whole_sequences_miss_are_as_planned(tmp_path: Path) -> None:
    web, code = Make(label="web", tokens=160), Make(label="code", tokens=1600)
    arm = replace(arms_of(Learn, arm=1e-4)["arm"], data=Stages({0: Mixture({web: 0.66, code: 0.34})}))
    page = describe(run(str(tmp_path / "store"), arm=arm), Path(__file__), Scale.REHEARSAL, "once")
    assert [row for row in page.trainings[0].rows if isinstance(row, list)][1].count("as planned") == 1
    assert page.trainings[0].title == "Plan and outcome: no difference"


class Fails(Learn, op="page-fails"):
    def run(self, ctx: Context) -> Checkpoint:
        raise ValueError("no step was made")


def test_what_a_training_planned_that_failed_is_there(tmp_path: Path) -> None:
    done = run(str(tmp_path / "store"), **arms_of(Fails, arm=1e-3))
    reading = Reading(render(describe(done, Path(__file__), Scale.REHEARSAL, "once")))
    assert reading.row("planned")[1:5] == ["0–39", "480", "1 → 2", "0 → 0.001"]
    assert not any(reading.row("actual")[1:])


class Spiky(Learn, op="page-spiky"):
    def run(self, ctx: Context) -> Checkpoint:
        made = healthy_rows()
        made[300]["loss"] += 2
        ctx.out.write_text(PROFILE, "a trace")
        ctx.out.write_text("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in made))
        return checkpoint(600)


def test_what_its_metrics_show_is_said(tmp_path: Path) -> None:
    done = run(str(tmp_path / "store"), **arms_of(Spiky, arm=1e-3))
    reading = Reading(render(describe(done, Path(__file__), Scale.REHEARSAL, "once")))
    text = " ".join(reading.text.split())
    [drawn] = [data for data in reading.data if "phases" in data]
    assert {"step": 300, "text": "spike", "bad": True} in drawn["marks"]
    assert "step 300: spike" in text
    assert "arm: findings of marin status arm --health" in text
    assert "Step 300: the loss spikes by" in text
    assert "Profile of arm: page-spiky/arm-" in text
    assert PROFILE in text
