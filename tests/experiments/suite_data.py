"""A few rows of every dataset that the suites read, with the columns, configurations and splits of the hub."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from marin.evaluation.harness_task import HarnessTask
from tests.operators.stock_data import arc, gsm8k, put, repository

type Rows = list[dict[str, Any]]
COUNT = 12  # of a split: ten examples and an item
LETTERS = ["A", "B", "C", "D", "E"]


class Loose(yaml.SafeLoader):
    """A loader that also reads values that the harness marks as functions."""


Loose.add_multi_constructor("!", lambda loader, suffix, node: None)


def settings_of(task: HarnessTask) -> list[dict[str, Any]]:
    """Return the settings in the harness's files of the task's folder."""
    import lm_eval

    folder = Path(lm_eval.__file__).parent / "tasks" / task.folder
    texts = [yaml.load(path.read_text(), Loose) for path in folder.rglob("*") if path.suffix in (".yaml", "")]
    return [found for found in texts if isinstance(found, dict)]


def rows(count: int = COUNT, **columns: Any) -> Rows:
    """Rows with "#" for their number."""
    return [{name: _numbered(held, number) for name, held in columns.items()} for number in range(count)]


def _numbered(held: Any, number: int) -> Any:
    if isinstance(held, dict):
        return {name: _numbered(each, number) for name, each in held.items()}
    if isinstance(held, list):
        return [_numbered(each, number) for each in held]
    return held.replace("#", str(number)) if isinstance(held, str) else held


MATHS = rows(problem="What is #+1?", level="Level 5", type="Algebra", solution=r"It is $\boxed{#}$.")
SPLITS: Mapping[str, tuple[str, Mapping[str, Rows]]] = {  # configuration, "*" for each of the task's; rows by split
    "DigitalLearningGmbH/MATH-lighteval": ("*", {"train": MATHS, "test": MATHS}),
    "EleutherAI/lambada_openai": ("default", {"test": rows(text="stone # fell into the dark river")}),
    "Idavidrein/gpqa": (
        "*",
        {"train": rows(**{"Question": "Which is #?", "Correct Answer": "it #", "Incorrect Answer 1": "not #",
                          "Incorrect Answer 2": "none of #", "Incorrect Answer 3": "all of #"})},
    ),
    "Rowan/hellaswag": (
        "default",
        dict.fromkeys(
            ("train", "validation"),
            rows(ind=1, activity_label="Rowing", ctx_a="Boat # moves.", ctx_b="the man", ctx="Boat # moves. the man",
                 endings=["rows.", "flies.", "melts.", "sings #."], source_id="x", split="val", label="0"),
        ),
    ),
    "SaylorTwift/bbh": ("*", {}),
    "TIGER-Lab/MMLU-Pro": (
        "default",
        dict.fromkeys(
            ("validation", "test"),
            rows(question="Which is #?", options=["#", "not #", "none"], answer="A", answer_index=0, category="law",
                 cot_content=""),
        ),
    ),
    "allenai/ai2_arc": ("*", dict.fromkeys(("train", "validation", "test"), arc(COUNT))),
    "allenai/openbookqa": (
        "main",
        dict.fromkeys(
            ("train", "validation", "test"),
            rows(id="#", question_stem="Stone # is", choices={"text": ["hard", "soft"], "label": LETTERS[:2]},
                 answerKey="A"),
        ),
    ),
    "allenai/winogrande": (
        "winogrande_xl",
        dict.fromkeys(
            ("train", "validation"),
            rows(sentence="Cup # did not fit into the bag, _ was large.", option1="cup", option2="bag", answer="1"),
        ),
    ),
    "aps/super_glue": ("*", {}),
    "baber/piqa": (
        "default", dict.fromkeys(("train", "validation"), rows(goal="Lift #.", sol1="Up.", sol2="Down.", label=0)),
    ),
    "cais/mmlu": (
        "*",
        dict.fromkeys(
            ("dev", "test"), rows(question="Which is #?", subject="x", choices=["#", "a", "b", "c"], answer=0)
        ),
    ),
    "hails/agieval-lsat-ar": (
        "default", {"test": rows(query="Which is #? A:", choices=["(A)#", "(B)one", "(C)two"], gold=[0])},
    ),
    "lighteval/winograd_wsc": (
        "wsc273",
        {"test": rows(text="Jim # fell as he ran. He cried.", pronoun="he", pronoun_loc=14, quote="ran", quote_loc=17,
                      options=["Jim", "Bob"], label=0, source="x")},
    ),
    "openai/gsm8k": ("main", {"train": gsm8k(COUNT, 1), "test": gsm8k(2, 2)}),
    "openai/openai_humaneval": (
        "openai_humaneval",
        {"test": rows(2, task_id="#", prompt='def one():\n    """#"""\n', canonical_solution="    return 1\n",
                      test="def check(candidate):\n    assert candidate() == 1\n", entry_point="one")},
    ),
    "tau/commonsense_qa": (
        "default",
        dict.fromkeys(
            ("train", "validation"),
            rows(id="#", question="Where is #?", question_concept="x", answerKey="B",
                 choices={"label": LETTERS, "text": ["here", "there", "up", "down", "#"]}),
        ),
    ),
}  # fmt: skip
SUPER_GLUE = {
    "boolq": rows(question="is it #", passage="It is #.", idx=0, label=1),
    "copa": rows(premise="It rained #.", choice1="It got wet.", choice2="It dried.", question="effect", idx=0, label=0),
}


def write_data(task: HarnessTask, folder: Path) -> None:
    """The task's dataset as it is on the hub, in all configurations that the task reads."""
    config, splits = SPLITS[task.dataset]
    said = settings_of(task)
    configs = sorted({each["dataset_name"] for each in said if each.get("dataset_name")}) if config == "*" else [config]
    put(repository({name: splits or _splits(task, name, said) for name in configs}), folder)


def _splits(task: HarnessTask, config: str, said: list[dict[str, Any]]) -> dict[str, Rows]:
    if task.dataset == "aps/super_glue":
        return dict.fromkeys(("train", "validation"), SUPER_GLUE[config])
    # BBH uses the harness's examples, which have BBH's questions and forms of answers.
    held = next(each["fewshot_config"]["samples"] for each in said if each.get("dataset_name") == config)
    return {"test": [{"input": each["input"], "target": str(each["target"])} for each in held]}
