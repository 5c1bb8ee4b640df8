"""A requested rebuild replaces the old output, and nothing continues with the old output."""

from __future__ import annotations

import shutil
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep, execution
from marin.plan.decision import Action
from marin.store.layout import CLAIMS
from marin.store.store import Store
from tests.plan.test_deleted_outputs import Lottery
from tests.support.toy import Blob, Milestone, Write, checkpoint, execute, planned, ran, record_of, run, statuses
from tests.support.visible import visible


class Training(ExecutorStep[Checkpoint], op="toy-training"):
    """Publish one milestone with the content of a file, then die as long as another file exists."""

    broken: str = execution(default="")
    weights: str = execution(default="")
    source: ExecutorStep[Blob] = Write(text="source", label="source")

    def published(self) -> Published:
        return Published(of=self, step=1, label="one")

    def run(self, ctx: Context) -> Checkpoint:
        kept = ctx.state / "one"
        if not kept.exists("count.txt"):
            kept.write_text("count.txt", Path(self.weights).read_text())
        if ctx.milestones:
            ctx.publish(self.published(), checkpoint(1), kept)
        if Path(self.broken).exists():
            raise RuntimeError("the power went out")
        ctx.out.write_text("count.txt", kept.read_text("count.txt"))
        return checkpoint(2)


class Published(ExecutorStep[Checkpoint], op="toy-published"):
    of: Training
    step: int

    @property
    def producer(self) -> Training:
        return self.of

    run = Milestone.run


class Score(ExecutorStep[Blob], op="toy-score"):
    of: ExecutorStep[Checkpoint]

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", ctx[self.of].directory.read_text("count.txt"))
        return Blob(bytes=1)


def test_a_reader_of_a_milestone_waits_for_a_training_run_that_is_made_anew(prefix: str, tmp_path: Path) -> None:
    """The reader may start at once only while the run that published the milestone continues."""
    broken, weights = tmp_path / "broken", tmp_path / "weights"
    broken.touch()
    weights.write_text("old")
    training = Training(broken=str(broken), weights=str(weights), label="training")
    middle = training.published()
    score = Score(of=middle, label="score")
    assert statuses(run(prefix, end=training, score=score))["toy-score/score"] == "ran"
    plan = planned(prefix, end=training, score=score)
    assert [plan.of(step).action for step in (training, middle, score)] == [Action.RUN, Action.CACHED, Action.CACHED]
    anew = planned(prefix, rebuild=("training",), end=training, score=score)
    assert [anew.of(step).action for step in (training, middle, score)] == [Action.RUN, *[Action.RECHECK] * 2]


def test_a_reader_of_a_milestone_waits_where_the_input_of_its_training_run_is_made_anew(
    prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    (tmp_path / "weights").write_text("old")
    training = Training(broken=str(tmp_path / "broken"), weights=str(tmp_path / "weights"), label="training")
    middle = training.published()
    score = Score(of=middle, label="score")
    run(prefix, score=score, end=training)
    plan = planned(prefix, rebuild=("source",), score=score, end=training)
    assert [plan.of(step).action for step in (training, middle, score)] == [Action.RUN, *[Action.RECHECK] * 2]


def test_a_rebuild_is_seen_where_claims_and_the_folder_are_gone(prefix: str, tmp_path: Path) -> None:
    """The rebuild takes the next number. With the old number, the old output and its digest would stay."""
    drawn = tmp_path / "drawn.txt"
    drawn.write_text("one")
    draw = Lottery(path=str(drawn), label="draw")
    run(prefix, end=draw)
    before = record_of(prefix, draw)
    shutil.rmtree(Path(prefix) / CLAIMS)
    shutil.rmtree(Path(prefix) / before.attempt)
    drawn.write_text("other")
    assert ran(run(prefix, rebuild=("draw",), end=draw)) == {"toy-lottery/draw"}
    after = record_of(prefix, draw)
    assert (after.root != before.root, after.token) == (True, before.token + 1)
    assert (Path(prefix) / after.attempt / "text.txt").read_text() == "other"
    assert visible(Store(prefix))


def test_what_another_driver_made_again_is_taken_and_not_made_a_third_time(prefix: str) -> None:
    """This driver made its plan before the other driver rebuilt the output."""
    step = Write(text="hello", label="a")
    run(prefix, end=step)
    plan = planned(prefix, rebuild=("a",), end=step)
    run(prefix, rebuild=("a",), end=step)
    newer = record_of(prefix, step)
    assert plan.of(step).record != newer
    assert statuses(execute(plan)) == {"toy-write/a": "cached"}
    assert record_of(prefix, step) == newer
