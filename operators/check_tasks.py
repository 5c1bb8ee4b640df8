"""CheckTasks: check that the items of evaluations are there before the training begins."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from marin import Context, ExecutorStep, RawFiles, Report, Scores
from marin.evaluation.harness_task import HarnessTask
from operators.evaluate_tasks import EvaluateTasks
from operators.inspect import Passed


class CheckTasks(ExecutorStep[Report], op="check-tasks", version=1, isolated=True):
    """The number of items of each task, in ``report.json``. The step loads each task and makes its first questions.

    tasks: tasks of lm-evaluation-harness, each with the files of its dataset; may be empty. If a task does not find its
    items or its examples in the data, raises the same errors as EvaluateTasks: NothingScored, InputError, BadField,
    MissingDependency.
    """

    tasks: tuple[tuple[HarnessTask, ExecutorStep[RawFiles]], ...]

    @classmethod
    def of(cls, evaluations: Iterable[ExecutorStep[Scores]], label: str) -> Self:
        """Return a check of each task of these evaluations, once for all checkpoints."""
        asked = {
            (task, each.data[task.dataset])
            for each in evaluations
            if isinstance(each, EvaluateTasks)
            for task in each.tasks.values()
        }
        return cls(label=label, tasks=tuple(sorted(asked, key=lambda pair: (repr(pair[0]), pair[1].identity))))

    @property
    def passed(self) -> Passed:
        """Return the gate for ``Train.gates``."""
        return Passed(report=self, label=self.label)

    def run(self, ctx: Context) -> Report:
        import json

        from marin.evaluation.questions import questions_in_parts
        from marin.evaluation.stock_tasks import loaded_task

        items: dict[str, int] = {}
        for task, data in self.tasks:
            with loaded_task(task, ctx[data].directory.path) as loaded:
                questions_in_parts(loaded, 1)
                items |= {name: len(one.eval_docs) for name, one in loaded["tasks"].items()}
            ctx.log(f"{task.name}: {sum(items[name] for name in loaded['tasks']):,} items")
        ctx.out.write_text("report.json", json.dumps({"items": items}, indent=1, sort_keys=True) + "\n")
        return Report(
            headline=[f"{len(items)} tasks of lm-evaluation-harness, {sum(items.values()):,} items: all there"]
        )
