"""Models with published numbers, for comparisons: the result tables of Marin's two retrospectives.

The retrospectives measured every model with the defaults of lm-evaluation-harness. Model cards have other numbers, from
other prompts. The authors' caveat holds for every row: many of these test items are in everybody's pretraining data.
Amber 7B is left out, because the numbers of its row do not have the average that was printed beside them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

RETROSPECTIVE_32B = "https://marin.readthedocs.io/en/latest/reports/marin-32b-retro/"
RETROSPECTIVE_8B = "https://marin.readthedocs.io/en/latest/reports/marin-8b-retro/"

# Tasks by the harness's names. A row has their scores in percent, in this order.
TASKS_32B = (
    "agieval_lsat_ar arc_easy arc_challenge boolq commonsense_qa copa hellaswag lambada_openai openbookqa piqa "
    "winogrande wsc273 mmlu gpqa bbh mmlu_pro humaneval gsm8k math"
)
TABLE_32B = """
Marin 32B (Bison)            | 23.4  87.8  65.8  88.9  82.3  94.0 86.6  77.4  46.6 86.1  78.61 82.42 72.9  32.13 55.2  41.9  29.27 54.71 10.35
Marin 32B (Mantis)           | 24.8  88.0  65.7  89.4  82.8  93.0 86.9  77.2  46.4 85.9  79.3  79.5  74.7  34.0  59.6  45.1  42.7  69.1  15.3
OLMo 2 32B Base              | 22.6  85.9  61.86 83.0  78.6  93.0 85.9  78.3  47.2 83.08 78.85 86.81 71.85 32.21 56.07 42.0  23.78 76.35 12.69
Qwen 2.5 32B Base            | 30.43 80.81 55.89 87.65 88.45 87.0 84.11 77.62 44.4 82.4  75.7  80.95 80.83 39.01 67.35 57.9  48.78 89.31 36.25
Gemma 3 27B PT               | 22.17 88.17 65.44 87.09 73.38 93.0 83.02 78.07 45.0 84.06 79.01 91.94 75.33 35.74 61.36 49.44 17.6  82.03 25.83
Nemotron Nano 12B v2 Base    | 28.7  83.59 60.58 84.83 76.09 85.0 81.42 72.93 45.8 82.81 74.35 85.35 77.9  36.58 62.02 53.13 59.15 84.08 68.28
"""  # noqa: E501
TASKS_8B = (
    "agieval_lsat_ar arc_easy arc_challenge bbh boolq commonsense_qa copa gpqa hellaswag_0shot hellaswag "
    "lambada_openai mmlu mmlu_0shot mmlu_pro openbookqa piqa winogrande wsc273 gsm8k"
)
TABLE_8B = """
Marin 8B Base (Deeper Starling) | 20.9 86.5 63.1 50.6 85.9 79.1 92.0 30.3 82.3 83.6 74.7 67.6 65.9 36.5 44.2 84.4 74.5 82.1 61.3
Llama 3.1 8B Base               | 20.4 85.8 58.9 46.4 84.2 75.2 92.0 32.3 79.4 81.9 74.7 66.4 65.5 33.3 45.8 82.9 74.4 83.5 56.8
OLMo 2 7B Base                  | 17.4 85.0 60.7 44.4 85.5 75.4 89.0 26.8 80.5 81.7 73.1 63.9 61.9 30.6 46.2 82.5 74.3 86.1 67.6
MAP NEO 7B                      | 23.0 81.1 52.0 42.4 84.7 81.7 82.0 27.8 72.5 73.3 64.6 58.2 56.4 25.2 39.4 79.0 66.1 73.3 48.0
"""  # noqa: E501
# Models that trained on a task's test items, as the 32B's retrospective found.
READ = {"Marin 32B (Bison)": {"gsm8k": "its test items, in a cached bundle of mathematics"}}
# Words that a model's name may leave out.
OPTIONAL = {"base", "pt", "marin"}


@dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """A model with published scores.

    scores: shares by task. read: by task, the test items that the model was trained on. source: the page with the
    scores."""

    name: str
    source: str
    scores: Mapping[str, float]
    read: Mapping[str, str]


def _rows(table: str, tasks: str, source: str) -> dict[str, PublishedModel]:
    made: dict[str, PublishedModel] = {}
    for line in table.strip().splitlines():
        name, _, numbers = line.partition("|")
        shares = (float(number) / 100 for number in numbers.split())
        scores = dict(zip(tasks.split(), shares, strict=True))
        model = PublishedModel(name=name.strip(), source=source, scores=scores, read=READ.get(name.strip(), {}))
        made[model.name] = model
    return made


MODELS = _rows(TABLE_32B, TASKS_32B, RETROSPECTIVE_32B) | _rows(TABLE_8B, TASKS_8B, RETROSPECTIVE_8B)


def published_model(name: str) -> PublishedModel | None:
    """Return a model by name, in any case and punctuation: "olmo-2-32b", "Qwen 2.5 32B", "bison".

    None if no model matches, or more than one."""
    wanted = _words(name)
    exact = [model for model in MODELS.values() if wanted and _words(model.name) - OPTIONAL == wanted - OPTIONAL]
    within = [model for model in MODELS.values() if wanted and wanted <= _words(model.name)]
    found = exact or within
    return found[0] if len(found) == 1 else None


def _words(name: str) -> set[str]:
    """Return the words of a name: "OLMo-2-1124 32B" → olmo, 2, 1124, 32b. 2.5 stays one number."""
    return set(re.findall(r"[a-z]+|\d+(?:\.\d+)?[a-z]*", name.lower()))
