"""A task of lm-evaluation-harness, by name: what is asked, not yet with what data."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import since, value


@value("harness_task")
class HarnessTask:
    """A task or group as the harness has it: prompts, splits, metrics, all but where its items are read.

    name: what the harness calls it ("mmlu"). folder: where below the harness's ``tasks`` it is defined
    ("mmlu/default"). dataset: repository on the hub whose files it reads. shots: examples before each question; None
    for the task's own. runs_code: it executes what the model writes. prompt, choices, target: templates (Jinja, over
    the fields of an item) of the question, of the list of its choices, and of the right answer or its place in that
    list; None for the task's own. With them the same items are asked in another form: see marin.evaluation.olmes.
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
