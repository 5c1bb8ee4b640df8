"""A page draws a training whose metrics have gaps: values that were NaN or infinite are null there."""

import json
import math
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep
from marin.report.page.collect import describe
from marin.report.page.write import write_page
from marin.steps.resources import Work
from marin.steps.scale import Scale
from tests.support.toy import checkpoint, run


class Learn(ExecutorStep[Checkpoint], op="toy-gaps"):
    def work(self) -> Work:
        return Work(steps=4, tokens=4, flops=4.0)

    def run(self, ctx: Context) -> Checkpoint:
        rows = [
            {"step": step, "loss": 3.0 - step, "tokens": step, "grad_norm": None if step == 2 else 1.0}
            for step in range(4)
        ]
        ctx.out.write_text("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        return checkpoint(4)


def test_a_gap_is_left_out_and_the_curve_stays(tmp_path: Path) -> None:
    done = run(str(tmp_path / "store"), end=Learn(label="gaps"))
    [curve] = describe(done, Path(__file__), Scale.REHEARSAL, "once").runs
    assert curve.column("loss") == [3.0, 2.0, 1.0, 0.0]
    assert [value if math.isfinite(value) else None for value in curve.column("grad_norm")] == [1.0, 1.0, None, 1.0]
    page, _ = write_page(done, Path(__file__), Scale.REHEARSAL, "once")
    assert Path(page).exists()
