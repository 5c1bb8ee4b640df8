"""EvaluateTasks: evaluate a checkpoint on unchanged tasks of lm-evaluation-harness, with data downloaded before."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marin import Checkpoint, Context, Directory, ExecutorStep, RawFiles, Scores, Tokenizer
from marin.data.chosen_files import matches
from marin.errors import BadField, TokenizerMismatch
from marin.evaluation.harness_task import HarnessTask
from operators.download import HuggingFace
from operators.evaluate import Weights, must_be_its_tokenizer, must_fit_chips
from operators.machines import must_hold_weights
from operators.on_hosts import shards_with_all_chips

if TYPE_CHECKING:
    from marin.evaluation.harness_model import HarnessModel
    from marin.evaluation.questions import Answers, Question
    from marin.evaluation.results import ItemResult
    from marin.evaluation.stock_tasks import Numbers


class EvaluateTasks(ExecutorStep[Scores], op="evaluate-tasks", version=3, isolated=True, uses_accelerator=True):
    """Metrics ``<name>/<metric>`` of a checkpoint, as lm-evaluation-harness computes them, with each item's numbers.

    tasks: by their names in the results; "arc_easy/olmes" is arc_easy in another form of prompt. data: the files of
    each dataset, by its repository, as the hub has them. Include README.md, which assigns files to splits; the step
    does not use the network. max_new_tokens: the most tokens of an answer, to shorten a task's own limit for models
    with short sequences. items: the number of first items of each task, None for all. Numbers of fewer items do not
    compare with published ones. separated: whether every prompt stands after the separator of documents, as in
    training (the harness's own ``hf`` model puts there the tokens that the tokenizer adds). run_generated_code: allows
    tasks that run programs by the model (HumanEval). marin.evaluation.generated_code describes the limits on such a
    program, and their gaps.

    Tasks with choices also get ``<task>/<form>/bpb``, the bits per byte of the right choice, and
    ``<task>/<form>/choice_probability``; the harness's own form is called lm_eval.

    Output: ``scores.json``; ``items.jsonl`` for tasks with choices, as Evaluate writes it; for each name a folder with
    the harness's own ``results_….json`` and ``samples_….jsonl``.

    The step answers 256 items at a time. Each part is a task of the cluster, and finished parts stay. With an
    accelerator, all its hosts answer one part after the other, and each chip holds a part of the weights. The step
    loads all tasks and counts their items before it loads the model. Raises NothingScored, InputError for data that a
    task does not find, TokenizerMismatch.
    """

    checkpoint: ExecutorStep[Checkpoint]
    tokenizer: ExecutorStep[Tokenizer]
    tasks: Mapping[str, HarnessTask]
    data: Mapping[str, ExecutorStep[RawFiles]]
    weights: Weights = Weights.LAST
    separated: bool = True
    max_new_tokens: int | None = None
    items: int | None = None
    run_generated_code: bool = False

    def check(self) -> None:
        if not self.tasks:
            raise BadField("EvaluateTasks.tasks is empty; wanted at least one task")
        for name, task in self.tasks.items():
            of, _, form = name.partition("/")
            plain = self.tasks.get(of, task)
            if (plain.name, plain.dataset) != (task.name, task.dataset):
                raise BadField(
                    f"EvaluateTasks: {name} asks {task.name} of {task.dataset}, {of} asks {plain.name} of "
                    f"{plain.dataset}; another form of prompt asks the same items, so give it another name"
                )
            if "/" in form or (not form and name != of):
                raise BadField(f"EvaluateTasks: a task is called {name!r}; wanted 'arc_easy', or 'arc_easy/olmes'")
        missing = {task.dataset: name for name, task in self.tasks.items() if task.dataset not in self.data}
        if missing:
            each = ", ".join(f"{dataset} (of {name})" for dataset, name in sorted(missing.items()))
            raise BadField(
                f"EvaluateTasks: no data for {each}, and evaluation does not use the network; give "
                "data={repository: HuggingFace(repo=…, revision=…)}"
            )
        for repo, step in sorted(self.data.items()):
            if isinstance(step, HuggingFace) and not matches("README.md", step.patterns):
                raise BadField(
                    f"EvaluateTasks: {step.name} does not download README.md, which assigns the files of {repo} to "
                    f'splits; add "README.md" to its patterns {list(step.patterns)}'
                )
        programs = sorted(name for name, task in self.tasks.items() if task.runs_code)
        if programs and not self.run_generated_code:
            raise BadField(
                f"EvaluateTasks: {', '.join(programs)} would run code by the model on your machines; leave the task "
                "out, or give run_generated_code=True and run the step on machines without credentials"
            )
        for field in ("max_new_tokens", "items"):
            held = getattr(self, field)
            if held is not None and held < 1:
                raise BadField(f"EvaluateTasks.{field} is {held}; wanted at least 1, or None")
        must_be_its_tokenizer("EvaluateTasks", self.checkpoint, self.tokenizer)
        must_fit_chips("EvaluateTasks", self.checkpoint, self.resources)

    def evaluated_on(self) -> tuple[ExecutorStep[Any], ...]:
        return tuple(self.data[task.dataset] for task in self.tasks.values())

    def run(self, ctx: Context) -> Scores:
        import json

        from marin.evaluation.questions import AnsweredModel, Answers, questions_in_parts
        from marin.evaluation.results import SCORES_FILE, Results, write_results
        from marin.evaluation.stock_tasks import (
            choice_metrics,
            choice_results,
            evaluate_task,
            loaded_task,
            numbers_of,
            write_answered,
        )
        from marin.training.checkpoint import read_facts

        checkpoint, tokenizer = ctx[self.checkpoint].directory, ctx[self.tokenizer]
        facts = read_facts(checkpoint)
        if ctx.accelerator is not None:
            must_hold_weights(self.name, facts.model, facts.vocabulary, ctx.accelerator)
        if tokenizer.vocabulary > facts.vocabulary:
            raise TokenizerMismatch(
                f"{self.name}: {self.tokenizer.name} has {tokenizer.vocabulary:,} entries, but {self.checkpoint.name} "
                f"a vocabulary of {facts.vocabulary:,}; evaluate with the tokenizer of the checkpoint's training"
            )
        asked: dict[str, list[list[Question]]] = {}
        for name, task in sorted(self.tasks.items()):
            with loaded_task(task, ctx[self.data[task.dataset]].directory.path) as loaded:
                ctx.log(f"{name}: {sum(len(one.eval_docs) for one in loaded['tasks'].values()):,} items")
                asked[name] = questions_in_parts(loaded, self.items)
        model = _Model(
            checkpoint=checkpoint,
            tokenizer=tokenizer.directory,
            averaged=self.weights is Weights.AVERAGED,
            separated=self.separated,
            max_new_tokens=self.max_new_tokens,
        )
        work = [(model, part) for parts in asked.values() for part in parts]
        answers = iter(ctx.write_shards(_answer, work, Answers, by=shards_with_all_chips(ctx)))
        settings = {"separated": self.separated, "max_new_tokens": self.max_new_tokens, "averaged": model.averaged}
        found: dict[str, Numbers] = {}
        choices: dict[tuple[str, str], list[ItemResult]] = {}
        for name, parts in asked.items():
            task, replies = self.tasks[name], AnsweredModel(parts, [next(answers) for _ in parts])
            with loaded_task(task, ctx[self.data[task.dataset]].directory.path) as loaded:
                answered = evaluate_task(replies, task, loaded, self.items)
                choices |= choice_results(name, loaded, answered)
            held = {"model": "marin", "model_args": settings, "limit": self.items}
            write_answered(ctx.out / name, task, answered, held)
            found[name] = numbers_of(task, answered)
        if choices:
            write_results(ctx.out, Results(choices))
        metrics = {f"{name}/{key}": held for name, one in found.items() for key, held in one.metrics.items()}
        metrics |= choice_metrics(choices)
        scores = {
            "metrics": metrics,
            "stderr": {f"{name}/{key}": held for name, one in found.items() for key, held in one.stderr.items()},
            "items": {name: one.items for name, one in found.items()},
        }
        ctx.out.write_text(SCORES_FILE, json.dumps(scores, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Scores(metrics=metrics)


@dataclass(frozen=True, kw_only=True)
class _Model:
    """The checkpoint and settings from which an evaluation loads its model."""

    checkpoint: Directory
    tokenizer: Directory
    averaged: bool
    separated: bool
    max_new_tokens: int | None


@functools.lru_cache(maxsize=1)
def _loaded(model: _Model) -> HarnessModel:
    """Return the loaded model; each process loads it once."""
    from marin.evaluation.encoder import OffsetEncoder
    from marin.evaluation.harness_model import HarnessModel
    from marin.training.checkpoint import read_facts
    from marin.training.scoring import load_model

    encoder = OffsetEncoder(model.tokenizer, read_facts(model.checkpoint).before)
    return HarnessModel(
        load_model(model.checkpoint, averaged=model.averaged, eos=encoder.eos),
        encoder,
        separated=model.separated,
        max_new_tokens=model.max_new_tokens,
    )


def _answer(work: tuple[_Model, Sequence[Question]], out: Directory) -> Answers:
    from marin.evaluation.questions import answers_of

    return answers_of(_loaded(work[0]), work[1])
