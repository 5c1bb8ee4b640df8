"""Build the microannealing of a dataset that is in no experiment yet; `marin microanneal` writes and runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from marin import Documents, ExecutorStep, Experiment, Items, Tokens, blend, mixture
from marin.errors import BadField, UnknownStep
from operators.decontaminate import Decontaminate
from operators.download import FsspecFiles, HuggingFace, ReadDocuments, ReadItems
from operators.evaluate import Evaluate
from operators.evaluate_tasks import EvaluateTasks
from operators.exact_dedup import ExactDedup
from operators.microanneal import CONTROL, Microanneal
from operators.pretrained_model import FolderModel, PretrainedModel
from operators.read_suite import ReadSuite
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Milestone, Train, trained_by

WINDOW = 1024  # tokens that a published model sees at a time when it is evaluated

type Evaluation = Evaluate | EvaluateTasks


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """The text of a candidate: a folder, file, glob or URL for TextFiles, or a dataset of the hub at one commit."""

    path: str = ""
    repo: str = ""
    revision: str = ""
    patterns: tuple[str, ...] = ("**/*.parquet", "**/*.jsonl*", "**/*.json")
    text_field: str = "text"

    def documents(self, label: str) -> ExecutorStep[Documents]:
        if bool(self.path) == bool(self.repo):
            raise BadField(f"candidate {label}: give either path, or repo with a revision")
        if self.path:
            return TextFiles(path=self.path, text_field=self.text_field, label=label)
        files = HuggingFace(repo=self.repo, revision=self.revision, patterns=self.patterns, label=label)
        return ReadDocuments(files=files, text_field=self.text_field, label=label)


def microanneal_of(
    origin: Experiment,
    *,
    checkpoint: str,
    candidates: Mapping[str, Candidate],
    share: float = 0.3,
    tokens: int | None = None,
    primary: tuple[str, ...] = (),
    question: str | None = None,
    label: str = "microanneal",
    **settings: Any,
) -> Experiment:
    """Return the experiment that judges these candidates for a checkpoint of ``origin``.

    checkpoint: a step of origin, by name, label or identity. The control is the mixture that its training read last.
    share: the share of each candidate in its mixture. The text of a candidate goes through exact deduplication and
    decontamination against the evaluation's items; then it is tokenized as the training's text was.
    The evaluations are the checkpoint's own, or else the evaluations of the first checkpoint of origin that has tasks.
    Of tasks of lm-evaluation-harness, decontamination uses those that primary names, with all their downloaded data.
    tokens: None for one token a parameter. primary: () for bits per byte of every task of Evaluate in its last format.
    settings: further fields of Microanneal.
    Raises UnknownStep for a checkpoint that origin does not have, BadField if origin lacks something for a verdict.
    """
    if not 0 < share < 1:
        raise BadField(f"{label}: the share of a candidate is {share}; wanted more than 0 and less than 1, 0.3 say")
    base = _checkpoint(origin, checkpoint)
    parent = trained_by(base)
    assert parent is not None
    step = base.step if isinstance(base, Milestone) else base.end_step
    control = parent.data.active(step - 1)
    evaluations = _evaluations(origin, base)
    primary = primary or tuple(
        f"{task}/{each.formats[-1].value}/bpb"
        for each in evaluations
        if isinstance(each, Evaluate)
        for task in each.tasks
    )
    items = _items(evaluations, primary)
    made = {name: _tokens(name, each, control.sources, items) for name, each in candidates.items()}
    gates: dict[str, Any] = {"allow_starved": parent.allow_starved, "max_epochs": parent.max_epochs}
    annealed = Microanneal(
        base=base,
        control=control,
        candidates={name: blend((1 - share, control), (share, mixture({made[name]: 1.0}))) for name in made},
        tokens=tokens or parent.model.parameters(parent.vocabulary),
        evaluations=evaluations,
        primary=primary,
        label=label,
        **gates | settings,
    )
    return replace(origin, question=question or origin.question, results={"verdict": annealed.verdict})


def microanneal_published(
    model: PretrainedModel | FolderModel,
    *,
    control: Candidate,
    candidates: Mapping[str, Candidate],
    questions: Mapping[str, str],
    peak_lr: float,
    question: str | None,
    share: float = 0.3,
    tokens: int | None = None,
    primary: tuple[str, ...] = (),
    bos: bool = False,
    label: str = "microanneal",
    **settings: Any,
) -> Experiment:
    """Return the experiment that judges these candidates for a published model, which gives its shape and vocabulary.

    control: ordinary text like the model's own. questions: by task, a file of JSON lines with ``question`` and
    ``answer``, as ReadItems reads it. Text is deduplicated, decontaminated against the questions, and tokenized by the
    model's own tokenizer. bos: each text begins with the token that the tokenizer puts first. The other arguments: as
    for ``microanneal_of``.
    """
    if not 0 < share < 1:
        raise BadField(f"{label}: the share of a candidate is {share}; wanted more than 0 and less than 1, 0.3 say")
    if model.shape is None or model.vocabulary is None:
        raise BadField(f"{label}: {model.name} gives no shape and vocabulary; `marin new model` writes them")
    items = {
        name: ReadItems(files=FsspecFiles(urls=(path,), label=name), label=name) for name, path in questions.items()
    }
    read = {
        name: Tokenize(
            documents=_clean(name, each, tuple(items.values())), tokenizer=model.tokenizer, bos=bos, label=name
        )
        for name, each in {CONTROL: control, **candidates}.items()
    }
    usual = mixture({read[CONTROL]: 1.0})
    window = min(model.shape.seq_len, WINDOW)
    scores = Evaluate(
        checkpoint=model,
        tokenizer=model.tokenizer,
        tasks=items,
        window=window,
        stride=window * 3 // 4,
        label="published",
    )
    annealed = Microanneal(
        base=model,
        peak_lr=peak_lr,
        control=usual,
        candidates={name: blend((1 - share, usual), (share, mixture({read[name]: 1.0}))) for name in candidates},
        tokens=tokens or model.shape.parameters(model.vocabulary),
        evaluations=(scores,),
        primary=primary or tuple(f"{task}/{scores.formats[-1].value}/bpb" for task in items),
        label=label,
        **settings,
    )
    results = {"published": scores, "verdict": annealed.verdict}
    return Experiment(issue=1, repository="", question=question, results=results)


def _checkpoint(origin: Experiment, name: str) -> Milestone | Train:
    """Return the checkpoint of that name, label or identity. Raises UnknownStep."""
    there = [step for step in origin.steps() if isinstance(step, Milestone | Train)]
    for step in there:
        if name in (step.name, step.label) or (len(name) >= 12 and step.identity.startswith(name)):
            return step
    names = ", ".join(step.name for step in there) or "none"
    raise UnknownStep(f"the experiment has no checkpoint called {name!r}; its checkpoints are {names}")


def _evaluations(origin: Experiment, base: ExecutorStep[Any]) -> tuple[Evaluation, ...]:
    """Return the evaluations of the base, or of another checkpoint. Raises BadField if no evaluation has tasks."""
    there = [step for step in origin.steps() if isinstance(step, Evaluate | EvaluateTasks) and step.tasks]
    there.sort(key=lambda step: step.checkpoint != base)
    if not there:
        raise BadField(
            "the experiment evaluates no tasks, and a verdict goes by tasks, not by loss; give one of its Evaluate "
            "steps tasks={…}, or evaluate the checkpoint with EvaluateTasks"
        )
    return tuple(step for step in there if step.checkpoint == there[0].checkpoint)


def _items(evaluations: tuple[Evaluation, ...], primary: tuple[str, ...]) -> tuple[ExecutorStep[Items], ...]:
    """Return the items that no text of a candidate may hold. Raises BadField if primary is empty."""
    tasks = [name for each in evaluations if isinstance(each, EvaluateTasks) for name in each.tasks]
    if not primary:
        raise BadField(f"name what decides among {', '.join(sorted(tasks))}: primary=('{sorted(tasks)[0]}/acc',), say")
    found: list[ExecutorStep[Items]] = []
    for each in evaluations:
        if isinstance(each, Evaluate):
            found += each.tasks.values()
            continue
        deciding = {task.dataset for name, task in each.tasks.items() if any(m.startswith(f"{name}/") for m in primary)}
        found += (ReadSuite(files=each.data[dataset], label=dataset) for dataset in sorted(deciding))
    return tuple(dict.fromkeys(found))


def _tokens(
    name: str, candidate: Candidate, usual: tuple[ExecutorStep[Tokens], ...], items: tuple[ExecutorStep[Items], ...]
) -> ExecutorStep[Tokens]:
    like = next((source for source in usual if isinstance(source, Tokenize)), None)
    if like is None:
        raise BadField(
            f"candidate {name}: the training reads no output of Tokenize, so marin does not know the tokenizer of its "
            "text; take a training on Tokenize steps"
        )
    clean = _clean(name, candidate, items)
    return Tokenize(documents=clean, tokenizer=like.tokenizer, bos=like.bos, label=name)


def _clean(name: str, candidate: Candidate, items: tuple[ExecutorStep[Items], ...]) -> Decontaminate:
    """Return the candidate's text without exact copies and without the items."""
    once = ExactDedup(documents=candidate.documents(name), label=name)
    return Decontaminate(documents=once, against=items, label=name)
