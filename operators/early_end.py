"""EarlyEnd: a training that may end before its last step, and says so in its output instead of failing."""

from __future__ import annotations

import json
from typing import Any

from marin import Checkpoint, Context, Directory, ExecutorStep, Report, value
from marin.errors import BadField, NonFiniteLoss
from operators.checkpoint_artifact import artifact_of
from operators.start import Fork, WarmStart

ENDED_EARLY = "ended_early.json"  # in the output of a training that diverged: {"step": …, "reason": "…"}


@value("early_end", kw_only=True)
class EarlyEnd:
    """Let a training end early: when its loss is not finite, or when a report cuts it.

    A training that diverges keeps its last good checkpoint, which may be the one before its first step, and writes
    ``ended_early.json``. A training that is cut does nothing: its output is the checkpoint that it starts from.

    cut: a report whose ``cut`` maps members to reasons (Halve), None for no cut. member: the training's name there.
    Raises BadField for a cut without a member.
    """

    cut: ExecutorStep[Report] | None = None
    member: str = ""

    def __post_init__(self) -> None:
        if (self.cut is None) is bool(self.member):
            raise BadField(f"EarlyEnd: cut is {self.cut}, member is {self.member!r}; give both or neither")

    def when_cut(self, ctx: Context, start: WarmStart | Fork | None) -> Checkpoint | None:
        """Make the output of a training that the report cuts: its start. Return None if it goes on."""
        if self.cut is None or start is None:
            return None
        cut: dict[str, str] = json.loads(ctx[self.cut].directory.read_text("report.json"))["cut"]
        if (reason := cut.get(self.member)) is None:
            return None
        from marin.training import checkpoint

        checkpoint.copy(ctx[start.checkpoint].directory, ctx.out)
        ctx.note(f"cut: {reason}")
        return artifact_of(ctx.out)


def keep_last_good(ctx: Context, saved: Directory, error: NonFiniteLoss) -> Checkpoint:
    """Make the output of a training that diverged: its last good checkpoint, and the reason. Raises the error if the
    training saved no checkpoint."""
    from marin.training import checkpoint

    steps = checkpoint.complete_steps(saved)
    if not steps:
        raise error
    checkpoint.copy(checkpoint.step_directory(saved, steps[-1]), ctx.out)
    reason = str(error).partition(". ")[0]
    ended: dict[str, Any] = {"step": steps[-1], "reason": reason}
    ctx.out.write_text(ENDED_EARLY, json.dumps(ended, indent=1) + "\n")
    ctx.note(f"diverged: {reason}. The output is the checkpoint of step {steps[-1]}")
    return artifact_of(ctx.out)


def read_early_end(output: Directory) -> str:
    """Return why the training with this output ended early, "" if it reached its last step."""
    return str(json.loads(output.read_text(ENDED_EARLY))["reason"]) if output.exists(ENDED_EARLY) else ""
