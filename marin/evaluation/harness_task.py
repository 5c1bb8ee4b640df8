"""A task of lm-evaluation-harness, by name: the questions, without their data."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import since, value


@value("harness_task")
class HarnessTask:
    """A task or group of the harness, with the harness's prompts, splits and metrics; only its data lies elsewhere.

    name: the harness's name for the task ("mmlu"). folder: the folder below the harness's ``tasks`` that defines the
    task ("mmlu/default"). dataset: the repository on the hub whose files the task reads. shots: examples before each
    question; None for the task's own number. runs_code: the task executes the code that the model writes. prompt,
    choices, target: templates (Jinja, over the fields of an item) of the question, of the list of choices, and of the
    right answer or its place in that list; None for the task's own. Templates ask the items in another form: see
    marin.evaluation.olmes.
    """

    name: str
    folder: str
    dataset: str
    shots: int | None = None
    runs_code: bool = False
    target: str | None = since(2, default=None)
    prompt: str | None = since(3, default=None)
    choices: str | None = since(3, default=None)

    def __post_init__(self) -> None:
        if self.shots is not None and self.shots < 0:
            raise BadField(f"HarnessTask {self.name}: shots is {self.shots}; wanted at least 0, or None for its own")
