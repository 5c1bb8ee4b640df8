"""Evaluate: how well one checkpoint predicts held-out text and solves items, in every prompt format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from marin import Checkpoint, Context, Documents, ExecutorStep, Items, Scores, Tokenizer, value
from marin.errors import BadField
from marin.evaluation.formats import Format
from marin_operators.train import Milestone, Train


@value("evaluated_weights")
class Weights(Enum):
    """LAST: as the last optimizer step left them. AVERAGED: their moving average, where the checkpoint keeps one."""

    _value_: str
    LAST = "last"
    AVERAGED = "averaged"


class Evaluate(ExecutorStep[Scores], op="evaluate", version=1, isolated=True):
    """Scores of a checkpoint: bits per byte by domain; for items, gold and final-answer bits per byte and accuracy.

    domains: held-out documents by name. tasks: items by name, scored by likelihood and as a choice among
    ``choices`` candidate solutions. references: items by name, scored by likelihood only. formats: prompt formats
    of both. The bounds take the first documents and items: documents cut to bytes_per_document, bytes_per_domain
    in all, items_per_task. window, stride (tokens): what the model sees at a time, and how far that moves over
    a longer text; a window may not exceed the checkpoint's sequence length. batch: rows computed at once.
    """

    checkpoint: ExecutorStep[Checkpoint]
    tokenizer: ExecutorStep[Tokenizer]
    domains: Mapping[str, ExecutorStep[Documents]] = field(default_factory=dict[str, ExecutorStep[Documents]])
    tasks: Mapping[str, ExecutorStep[Items]] = field(default_factory=dict[str, ExecutorStep[Items]])
    references: Mapping[str, ExecutorStep[Items]] = field(default_factory=dict[str, ExecutorStep[Items]])
    formats: tuple[Format, ...] = (Format.LM_EVAL, Format.OLMES)
    choices: int = 4
    bytes_per_document: int = 4_000
    bytes_per_domain: int = 40_000
    items_per_task: int = 128
    # An average over 200 steps (decay .995) holds mostly early weights in a run of 192: LAST unless runs are long.
    weights: Weights = Weights.LAST
    window: int = 128
    stride: int = 96
    batch: int = 64

    def check(self) -> None:
        if not self.domains and not self.tasks and not self.references:
            raise BadField("Evaluate has nothing to score: give domains, tasks or references")
        if both := sorted(self.tasks.keys() & self.references.keys()):
            raise BadField(f"Evaluate: {', '.join(both)} is both a task and a reference; use two names")
        if (self.tasks or self.references) and not self.formats:
            raise BadField("Evaluate.formats is empty; wanted at least one prompt format for the items")
        if not 1 <= self.stride < self.window:
            raise BadField(f"Evaluate: stride {self.stride} and window {self.window}; wanted 1 <= stride < window")
        training = self.checkpoint.training if isinstance(self.checkpoint, Milestone) else self.checkpoint
        if isinstance(training, Train) and self.window > training.model.seq_len:
            raise BadField(
                f"Evaluate: window is {self.window} tokens, {training.called()} is shaped for {training.model.seq_len}"
                "; wanted at most as many"
            )
        for name in ("choices", "bytes_per_document", "bytes_per_domain", "items_per_task", "batch"):
            if getattr(self, name) < 1:
                raise BadField(f"Evaluate.{name} is {getattr(self, name)}; wanted at least 1")

    def run(self, ctx: Context) -> Scores:
        import itertools
        import json

        from marin.data.documents import read_documents
        from marin.evaluation.encoder import OffsetEncoder
        from marin.evaluation.items import read_items
        from marin.evaluation.results import SCORES_FILE, write_results
        from marin.evaluation.scoring import Scoring
        from marin.evaluation.suite import TaskItems, evaluate_checkpoint, excerpt
        from marin.training.scoring import load_scorer

        domains = {
            name: list(excerpt(read_documents(ctx[step].directory), self.bytes_per_document, self.bytes_per_domain))
            for name, step in self.domains.items()
        }
        tasks = [
            TaskItems(name, read_items(ctx[step].directory)[: self.items_per_task], choices)
            for group, choices in ((self.tasks, self.choices), (self.references, 1))
            for name, step in sorted(group.items())
        ]
        scorer = load_scorer(ctx[self.checkpoint].directory, averaged=self.weights is Weights.AVERAGED)
        encoder = OffsetEncoder(ctx[self.tokenizer].directory)
        scoring = Scoring(scorer, encoder, self.window, self.stride, self.batch)
        done = itertools.count(1)

        def scored(name: str) -> None:
            ctx.progress(next(done), len(domains) + 1, "parts", name)

        outcome = evaluate_checkpoint(scoring, domains, tasks, self.formats, scored)
        write_results(ctx.out, outcome.results)
        scores = {
            "metrics": dict(outcome.metrics),
            "stderr": dict(outcome.stderr),
            "documents": {name: len(held) for name, held in domains.items()},
            "items": {task.name: len(task.items) for task in tasks},
        }
        ctx.out.write_text(SCORES_FILE, json.dumps(scores, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Scores(metrics=dict(outcome.metrics))
