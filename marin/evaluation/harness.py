"""Runs lm-evaluation-harness on items on disk, in our own prompt formats.

This module reads nothing from the network and no task from the harness's collection. Importing the harness takes
1 to 3 s, so import this module only where ``evaluate_items`` runs.
"""

# pyright: basic
from __future__ import annotations

import logging
import math
from collections.abc import Sequence

import numpy as np
from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import Task
from lm_eval.config.task import TaskConfig
from lm_eval.evaluator import evaluate

from marin.errors import NothingScored
from marin.evaluation.candidates import candidates
from marin.evaluation.formats import Format
from marin.evaluation.harness_model import HarnessModel
from marin.evaluation.items import Item
from marin.evaluation.scoring import Scoring, TokenBits
from marin.training.hub_offline import hub_offline

# The harness logs every request, and warns of generation settings that no task here uses.
logging.getLogger("lm_eval").setLevel(logging.ERROR)


class ScoringModel(HarnessModel):
    """A harness model that tokenizes each continuation together with its prompt, as in training.

    The model remembers every continuation token by token, for spans and for other tasks.
    """

    def __init__(self, scoring: Scoring) -> None:
        super().__init__(scoring.model, scoring.encoder)
        self.scoring = scoring
        self.scored: dict[tuple[str, str], TokenBits] = {}

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """Return (natural log-likelihood, whether every token is the likeliest) of each continuation."""
        asked: list[tuple[str, str]] = [request.arguments for request in requests]
        new = [pair for pair in dict.fromkeys(asked) if pair not in self.scored]
        self.scored.update(zip(new, self.scoring.continuations(new), strict=True))
        return [(-self.scored[pair].total * math.log(2), bool(self.scored[pair].greedy.all())) for pair in asked]


class ItemTask(Task):
    """A harness task of items in one prompt format.

    Each item has gold_bits_per_byte (of the worked solution after the prompt). With choices > 1 an item also has acc
    (the right worked solution is the likeliest candidate) and choice_probability (the right solution's share of the
    candidates' probability). bits_per_byte weighs golds by bytes, not by items.
    """

    VERSION = 1
    OUTPUT_TYPE = "loglikelihood"

    def __init__(self, name: str, items: Sequence[Item], form: Format, choices: int) -> None:
        self.items, self.form, self.choices = list(items), form, choices
        super().__init__()
        # Task.__init__ of 0.4.13 passes its config argument on as the task's name.
        self._config = TaskConfig(task=name, output_type="loglikelihood", num_fewshot=0)
        self.set_fewshot_seed(0)

    def download(self, *args, **kwargs) -> None:
        """Download nothing: the items are here already."""

    def has_training_docs(self) -> bool:
        return False

    def has_validation_docs(self) -> bool:
        return False

    def has_test_docs(self) -> bool:
        return True

    def test_docs(self) -> list[dict[str, object]]:
        return [
            {
                "id": item.id,
                "prompt": self.form.prompt(item),
                "golds": [self.form.gold(candidate) for candidate in candidates(item, self.choices)],
            }
            for item in self.items
        ]

    def doc_to_text(self, doc) -> str:
        return doc["prompt"]

    def doc_to_target(self, doc) -> str:
        return doc["golds"][0]

    def construct_requests(self, doc, ctx, **kwargs) -> list[Instance]:
        return [
            Instance("loglikelihood", doc=doc, arguments=(ctx, gold), idx=index, metadata=kwargs["metadata"])
            for index, gold in enumerate(doc["golds"])
        ]

    def process_results(self, doc, results) -> dict[str, object]:
        likelihoods = np.array([likelihood for likelihood, _ in results])
        bits, size = -likelihoods[0] / math.log(2), len(doc["golds"][0].encode())
        metrics = {"gold_bits_per_byte": bits / size, "bits_per_byte": (bits, size)}
        if self.choices > 1:
            shares = np.exp(likelihoods - likelihoods.max())
            metrics["acc"] = float(likelihoods[0] > likelihoods[1:].max())
            metrics["choice_probability"] = float(shares[0] / shares.sum())
        return metrics

    def aggregation(self) -> dict[str, object]:
        return {"gold_bits_per_byte": mean, "bits_per_byte": _by_bytes, "acc": mean, "choice_probability": mean}

    def higher_is_better(self) -> dict[str, bool]:
        return {"gold_bits_per_byte": False, "bits_per_byte": False, "acc": True, "choice_probability": True}


def _by_bytes(pairs: Sequence[tuple[float, int]]) -> float:
    return sum(bits for bits, _ in pairs) / sum(size for _, size in pairs)


def evaluate_items(model: ScoringModel, tasks: Sequence[ItemTask]) -> dict[str, dict]:
    """Return by task name the task's metrics ("acc", "acc_stderr", …) and the metrics of each item.

    {"metrics": {name: value}, "items": [{"id", "acc", …} in item order]}. Raises NothingScored for a task
    without items.
    """
    for task in tasks:
        if not task.items:
            raise NothingScored(f"task {task.task_name}: there is no item to score; check the step that made its items")
    with hub_offline():
        results = evaluate(model, {task.task_name: task for task in tasks}, bootstrap_iters=1)
    assert results is not None, "only a second process gets no results, and there is none"
    out = {}
    for task in tasks:
        found = results.get("results", {})[task.task_name]
        samples = sorted((results.get("samples") or {})[task.task_name], key=lambda sample: sample["doc_id"])
        out[task.task_name] = {
            "metrics": {
                key.removesuffix(",none"): float(held)
                for key, held in sorted(found.items())
                if key.endswith(",none") and isinstance(held, int | float)
            },
            "items": [{"id": s["doc"]["id"], **{name: s[name] for name in s["metrics"]}} for s in samples],
        }
    return out
