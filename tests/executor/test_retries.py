"""marin retries a step whose processes die or stand still while it makes progress. Preemptions do not count."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.hardware import tpu
from marin import Context, ExecutorStep
from marin.errors import PlanError, Preempted, ProcessLost
from marin.executor.run_results import RETRIES
from tests.support.toy import Blob, run, statuses


class Dies(ExecutorStep[Blob], op="toy-dies-on-its-way"):
    """A run of ``end`` steps whose attempts each make and save ``each``. preempted: preemptions before these."""

    end: int
    each: int
    preempted: int = 0

    def run(self, ctx: Context) -> Blob:
        names = ctx.state.names()
        done = sum(name.startswith("step") for name in names)
        if (times := len(names) - done) < self.preempted:
            ctx.state.write_text(f"preempted-{times}", "")
            raise Preempted("preempted")
        ctx.progress(done, self.end, "steps")
        if done < self.end:
            for step in range(done, done + self.each):
                ctx.state.write_text(f"step-{step}", "")
            raise ProcessLost("its process was killed")
        ctx.out.write_text("text.txt", "through")
        return Blob(bytes=done)


def test_as_often_as_it_makes_progress(tmp_path: Path) -> None:
    step = Dies(end=2 * RETRIES, each=1, label="slow")
    done = run(str(tmp_path / "store"), end=step)
    assert statuses(done) == {"toy-dies-on-its-way/slow": "ran"}


def test_a_few_times_without(tmp_path: Path) -> None:
    step = Dies(end=1, each=0, preempted=RETRIES + 2, label="stuck")
    done = run(str(tmp_path / "store"), end=step)
    assert statuses(done) == {"toy-dies-on-its-way/stuck": "failed"}
    assert done.results[step].error == "4 attempts lost a process; the last one: ProcessLost: its process was killed"
    attempts = list((tmp_path / "store/toy-dies-on-its-way").iterdir())
    assert len(attempts) == (RETRIES + 2) + (RETRIES + 1)


@pytest.mark.parametrize("chips", ["v4-2048", "v4-8"])
def test_chips_are_more_than_this_process_gives(chips: str, tmp_path: Path) -> None:
    step = Dies(end=0, each=0, label="wide", resources=tpu(chips))
    with pytest.raises(PlanError, match=rf"wide asks for {chips}, and --backend inline has no chips"):
        run(str(tmp_path / "store"), end=step)
