"""TaskItems: read the items that a task of lm-evaluation-harness asks, and no others of its dataset."""

from __future__ import annotations

from marin import Context, ExecutorStep, Items, RawFiles
from marin.evaluation.harness_task import HarnessTask


class TaskItems(ExecutorStep[Items], op="task-items", version=1, isolated=True):
    """Each item of the task, with its id in the results of EvaluateTasks, for Exposure and Decontaminate.

    ReadSuite instead reads all files of the dataset, with its examples and training split. data: the files of the
    dataset, as for EvaluateTasks. If the task does not find its items in the data, raises the same errors as
    EvaluateTasks. Raises GarbledDocument for an item without a question.
    """

    task: HarnessTask
    data: ExecutorStep[RawFiles]

    def run(self, ctx: Context) -> Items:
        from dataclasses import replace

        from marin.evaluation.items import write_items
        from marin.evaluation.published import item_of
        from marin.evaluation.stock_tasks import item_id, loaded_task

        with loaded_task(self.task, ctx[self.data].directory.path) as loaded:
            items = [
                replace(item_of(doc, name, str(number)), id=item_id(name, number))
                for name, one in loaded["tasks"].items()
                for number, doc in enumerate(one.eval_docs)
            ]
        return Items(items=write_items(ctx.out, items))
