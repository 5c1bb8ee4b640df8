"""The prompts of OLMES for tasks that lm-evaluation-harness asks in another form.

OLMES asks each question in two forms: with its choices by letter, and without choices (Gu et al., "OLMES: A Standard
for Language Model Evaluations", 2024, arXiv 2406.08446, section 3). This module has the form that the harness does not
use for a task, so that the same items are asked in both forms. The harness draws the examples; they are not OLMES' own.
"""

from __future__ import annotations

from dataclasses import replace

from marin.errors import BadField
from marin.evaluation.harness_task import HarnessTask

SHOTS = 5

type Templates = tuple[str, str, str | None]  # question, list of choices, right choice (None: the task's own target)


def _letters(question: str, choices: str, right: str | None = None) -> Templates:
    """Return templates with the choices by letter.

    Each choice has a line of its own that starts with a space, so that " A" is one token there and in the answer."""
    listed = f"{{% for choice in {choices} %}} {{{{ 'ABCDE'[loop.index0] }}}}. {{{{ choice }}}}\n{{% endfor %}}"
    return f"{question}\n{listed}Answer:", f"{{{{ ['A', 'B', 'C', 'D', 'E'][:{choices} | length] }}}}", right


PROMPTS: dict[str, Templates] = {
    "arc_challenge": _letters("Question: {{question}}", "choices.text"),
    "arc_easy": _letters("Question: {{question}}", "choices.text"),
    "boolq": _letters("{{passage}}\nQuestion: {{question}}?", "['yes', 'no']", "{{ 1 - label }}"),
    "commonsense_qa": (
        "Question: {{ question.strip() }}\nAnswer:",
        "{{ choices.text }}",
        "{{ choices.label.index(answerKey) }}",
    ),
    "hellaswag": _letters("{{query}}\nChoose the best continuation:", "choices"),
    "mmlu": ("Question: {{ question.strip() }}\nAnswer:", "{{ choices }}", None),
    "openbookqa": _letters("Question: {{question_stem}}", "choices.text"),
    "piqa": _letters("Goal: {{goal}}", "[sol1, sol2]"),
    "winogrande": _letters(
        "Fill in the blank: {{ sentence.replace('_', '___') }}", "[option1, option2]", "{{ answer | int - 1 }}"
    ),
}


def as_olmes(task: HarnessTask) -> HarnessTask:
    """Return the task with OLMES' prompts and five examples. Raises BadField for a task that is not in PROMPTS."""
    if task.name not in PROMPTS:
        raise BadField(
            f"no prompts of OLMES are known for {task.name}, only for {', '.join(PROMPTS)}; give your own: "
            "HarnessTask(…, prompt='…{{question}}…', choices='{{…}}')"
        )
    prompt, choices, target = PROMPTS[task.name]
    return replace(task, shots=SHOTS, prompt=prompt, choices=choices, target=target)
