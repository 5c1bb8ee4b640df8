"""What a page says of trainings: fields, speed, hardware, what they read of each source."""

from __future__ import annotations

import json
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep, Mixture, Stages, Tokens, value
from marin.report.page.content import describe, render
from marin.report.page.drawing import tables
from marin.steps.resources import Work
from marin.steps.scale import Scale
from tests.report.reading import Reading
from tests.support.toy import checkpoint, run


@value("page-rates")
class Rates:
    peak: float
    warmup: int


class Make(ExecutorStep[Tokens], op="page-tokens"):
    tokens: int

    def run(self, ctx: Context) -> Tokens:
        ctx.out.write_text("tokens.txt", "x" * self.tokens)
        return Tokens(tokens=self.tokens, documents=1, vocabulary=9, tokenizer="t")


class Learn(ExecutorStep[Checkpoint], op="page-learn"):
    rates: Rates
    data: Stages[ExecutorStep[Tokens]]
    seq_len: int = 8
    first_step: int = 0
    end_step: int = 40

    def work(self) -> Work:
        return Work(steps=40, tokens=40 * 16, flops=4.0)

    def run(self, ctx: Context) -> Checkpoint:
        rows = [
            {
                "step": step, "loss": 9.0 if step < 2 else 3.0 - step / 40, "tokens": 16 * (step + 1),
                "sources": {"web": 1, "code": 1 if step % 2 else 0}, "seconds": 0.5,
                "tokens_per_second": 10.0 if step == 0 else 32.0,
            }
            for step in range(40)
        ]  # fmt: skip
        ctx.out.write_text("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return checkpoint(40)


def test_fields_speed_and_sources_of_runs_are_shown(tmp_path: Path) -> None:
    web, code = Make(label="web", tokens=160), Make(label="code", tokens=1600)
    data = Stages({0: Mixture({web: 0.75, code: 0.25})})
    arms = {
        name: Learn(label=name, rates=Rates(peak=peak, warmup=3), data=data)
        for name, peak in (("low", 1e-4), ("high", 1e-3))
    }
    done = run(str(tmp_path / "store"), **arms)
    page = describe(done, Path(__file__), Scale.REHEARSAL, "once")
    apart, common = tables.settings(page.settings, ["low", "high"])
    assert [(each.name, each.values) for each in apart] == [("rates.peak", {"low": "0.0001", "high": "0.001"})]
    assert ("rates.warmup", "3") in common
    assert ("seq len", "8") in common
    assert not any("data" in name for name, _ in common)
    reading = Reading(render(done, Path(__file__), Scale.REHEARSAL, "once", "").decode())
    assert reading.row("low")[1:] == ["0–39", "640", "9.000", "2.037", "", "32", "20 s", "1 CPU"]
    assert reading.row("rates.peak")[1:] == ["0.0001", "0.001"]
    # Of both arms: 40 sequences of 8 of the 160 tokens of web are two epochs; 20 of the 1,600 of code a tenth of one.
    assert reading.row("web")[-4:] == ["40", "2.00", "40", "2.00"]
    assert reading.row("code")[-4:] == ["20", "0.10", "20", "0.10"]
    text = " ".join(reading.text.split())
    assert "the loss of low at 2 of 40 steps, 9 at most, at step 1." in text
    assert "Loss: mean over 5 steps around each" in text
