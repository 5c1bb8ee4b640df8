"""Evaluate: score one checkpoint on held-out text and on items, in every prompt format."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from marin import Checkpoint, Context, Directory, Documents, ExecutorStep, Items, Resources, Scores, Tokenizer, value
from marin.errors import BadField
from marin.evaluation.formats import Format
from operators.machines import must_hold_weights
from operators.on_hosts import with_all_chips
from operators.pretrained_model import FolderModel, PretrainedModel, is_its_tokenizer
from operators.tokenize import Tokenize
from operators.tokenize_chats import TokenizeChats
from operators.train import trained_by

if TYPE_CHECKING:
    from marin.evaluation.results import Outcome


@value("evaluated_weights")
class Weights(Enum):
    """LAST: the weights after the last optimizer step. AVERAGED: their moving average, if the checkpoint keeps one."""

    _value_: str
    LAST = "last"
    AVERAGED = "averaged"


class Evaluate(ExecutorStep[Scores], op="evaluate", version=2, uses_accelerator=True):
    """Scores of a checkpoint: bits per byte by domain; for items, gold and final-answer bits per byte and accuracy.

    domains: held-out documents by name. tasks: items by name, scored by likelihood and as a choice among ``choices``
    candidate solutions. references: items by name, scored by likelihood only. formats: prompt formats for tasks and
    references. bytes_per_document, bytes_per_domain, items_per_task: limits; the first documents and items count.
    window: tokens that the model sees at a time, at most the sequence length of the checkpoint's training. stride:
    tokens by which the window moves over a longer text. batch: windows computed at once. With an accelerator, all its
    chips on all hosts each hold a part of the weights and score some windows.
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
            raise BadField("Evaluate has nothing to score; give domains, tasks or references")
        if both := sorted(self.tasks.keys() & self.references.keys()):
            raise BadField(f"Evaluate: {', '.join(both)} is both a task and a reference; use two names")
        if (self.tasks or self.references) and not self.formats:
            raise BadField("Evaluate.formats is empty; wanted at least one prompt format for the items")
        if not 1 <= self.stride < self.window:
            raise BadField(f"Evaluate: stride {self.stride} and window {self.window}; wanted 1 <= stride < window")
        must_be_its_tokenizer("Evaluate", self.checkpoint, self.tokenizer)
        must_fit_chips("Evaluate", self.checkpoint, self.resources)
        training = trained_by(self.checkpoint)
        if training is not None and self.window > training.seq_len:
            raise BadField(
                f"Evaluate: window is {self.window} tokens, but {training.called()} trains on sequences of "
                f"{training.seq_len}; wanted at most as many"
            )
        for name in ("choices", "bytes_per_document", "bytes_per_domain", "items_per_task", "batch"):
            if getattr(self, name) < 1:
                raise BadField(f"Evaluate.{name} is {getattr(self, name)}; wanted at least 1")

    def evaluated_on(self) -> tuple[ExecutorStep[Any], ...]:
        return tuple(self.tasks.values())

    def run(self, ctx: Context) -> Scores:
        import itertools
        import json

        from marin.evaluation.results import SCORES_FILE, write_results
        from marin.training.checkpoint import read_facts

        if ctx.accelerator is not None:
            facts = read_facts(ctx[self.checkpoint].directory)
            must_hold_weights(self.name, facts.model, facts.vocabulary, ctx.accelerator)
        done = itertools.count(1)

        def hear(event: str, *, name: str = "") -> None:
            if event == "scored":
                ctx.progress(next(done), len(self.domains) + 1, "parts", name)

        asked = _Asked(
            checkpoint=ctx[self.checkpoint].directory,
            tokenizer=ctx[self.tokenizer].directory,
            averaged=self.weights is Weights.AVERAGED,
            domains={name: ctx[step].directory for name, step in self.domains.items()},
            tasks=tuple(
                (name, ctx[step].directory, choices)
                for group, choices in ((self.tasks, self.choices), (self.references, 1))
                for name, step in sorted(group.items())
            ),
            formats=self.formats,
            bytes_per_document=self.bytes_per_document,
            bytes_per_domain=self.bytes_per_domain,
            items_per_task=self.items_per_task,
            window=self.window,
            stride=self.stride,
            batch=self.batch,
        )
        outcome, counts = with_all_chips(ctx, functools.partial(_score, asked), hear)
        write_results(ctx.out, outcome.results)
        scores = {"metrics": dict(outcome.metrics), "stderr": dict(outcome.stderr), **counts}
        ctx.out.write_text(SCORES_FILE, json.dumps(scores, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Scores(metrics=dict(outcome.metrics))


@dataclass(frozen=True, kw_only=True)
class _Asked:
    """The questions and the model of an evaluation; fields as in Evaluate. tasks: (name, folder of items, choices)."""

    checkpoint: Directory
    tokenizer: Directory
    averaged: bool
    domains: Mapping[str, Directory]
    tasks: tuple[tuple[str, Directory, int], ...]
    formats: tuple[Format, ...]
    bytes_per_document: int
    bytes_per_domain: int
    items_per_task: int
    window: int
    stride: int
    batch: int


def _score(asked: _Asked, tell: Callable[..., None]) -> tuple[Outcome, dict[str, dict[str, int]]]:
    """Return the outcome, and the numbers of documents and items.

    Tells "worked" after each batch, and "scored" after each domain and after all tasks.
    """
    from marin.data.documents import read_documents
    from marin.evaluation.encoder import OffsetEncoder
    from marin.evaluation.excerpt import excerpt
    from marin.evaluation.items import read_items
    from marin.evaluation.scoring import Scoring
    from marin.evaluation.suite import TaskItems, evaluate_checkpoint
    from marin.training.checkpoint import read_facts
    from marin.training.scoring import load_model

    domains = {
        name: list(excerpt(read_documents(where), asked.bytes_per_document, asked.bytes_per_domain))
        for name, where in asked.domains.items()
    }
    tasks = [
        TaskItems(name, read_items(where)[: asked.items_per_task], choices) for name, where, choices in asked.tasks
    ]
    encoder = OffsetEncoder(asked.tokenizer, read_facts(asked.checkpoint).before)
    model = load_model(
        asked.checkpoint,
        averaged=asked.averaged,
        batch_tokens=asked.batch * asked.window,
        worked=lambda: tell("worked"),
        eos=encoder.eos,
    )
    scoring = Scoring(model, encoder, asked.window, asked.stride)
    outcome = evaluate_checkpoint(scoring, domains, tasks, asked.formats, lambda name: tell("scored", name=name))
    counts = {
        "documents": {name: len(held) for name, held in domains.items()},
        "items": {task.name: len(task.items) for task in tasks},
    }
    return outcome, counts


def must_fit_chips(operator: str, checkpoint: ExecutorStep[Checkpoint], resources: Resources) -> None:
    """Check that the chips can hold the weights of the model, if its training is a step. Raises BadField."""
    training = trained_by(checkpoint)
    if training is not None:
        for accelerator in resources.accelerators:
            must_hold_weights(operator, training.model, training.vocabulary, accelerator)


def must_be_its_tokenizer(
    operator: str, checkpoint: ExecutorStep[Checkpoint], tokenizer: ExecutorStep[Tokenizer]
) -> None:
    """Check that the tokenizer made the tokens of the checkpoint's training, as far as steps tell. Raises BadField."""
    if isinstance(checkpoint, PretrainedModel | FolderModel) and not is_its_tokenizer(checkpoint, tokenizer):
        raise BadField(
            f"{operator}: the tokenizer is {tokenizer.name}, which is not the tokenizer of {checkpoint.name}; evaluate "
            "with the model's own (its .tokenizer)"
        )
    training = trained_by(checkpoint)
    for source in training.data.sources if training is not None else ():
        if isinstance(source, Tokenize | TokenizeChats) and source.tokenizer != tokenizer:
            raise BadField(
                f"{operator}: the tokenizer is {tokenizer.name}, but the checkpoint's training reads {source.name}, "
                f"made by {source.tokenizer.name}; evaluate with that tokenizer"
            )
