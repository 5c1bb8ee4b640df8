"""``marin compare hf:…``: score published models with the evaluation of a model of the store."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from marin.cli.make_steps import make_steps
from marin.cli.new_model import GivenModel, names_model
from marin.cli.origin import experiment_of, module_of, origin_of
from marin.errors import BadField, UnknownStep
from marin.steps.scale import Scale
from marin.store.inventory import Inventory
from marin.store.lookup import published_as
from marin.store.record import Record

if TYPE_CHECKING:
    from marin.report.side_by_side import Compared
    from marin.steps.step import ExecutorStep

HOW = "docs/howto/compare-published.md has an experiment that compares them on your text and questions"


def with_scores(inventory: Inventory, models: tuple[str, ...], *, latest: bool) -> tuple[str, ...]:
    """Return the names to compare: for each published model, NAME=IDENTITY of its scores.

    marin scores each published model with the evaluation of the first other model that has scores in the store: the
    same items and texts, as a cached step. Without another model, the newest scores of each published model count.
    Raises BadField if neither a model nor stored scores name an evaluation, ExperimentError if the experiment of that
    evaluation is not in this folder, and errors of the plan or a step.
    """
    given = {name: GivenModel(each) for name in models if names_model(each := name.rpartition("=")[2])}
    if not given:
        return models
    called = {name: name.rpartition("=")[0] or model.name for name, model in given.items()}
    scored = _first_scored(inventory, [name for name in models if name not in given], latest=latest)
    if scored is None:
        there = {name: _newest_scores(inventory, model) for name, model in given.items()}
        if lacking := [name for name, record in there.items() if record is None]:
            raise BadField(
                f"{', '.join(lacking)}: the store {inventory.store.prefix} has no scores of it, and no other named "
                "model has scores. So marin does not know which tasks or text to use. Name a checkpoint "
                f"or scores of the store, too (marin ls --kind scores). Or write an experiment: {HOW}"
            )
        return tuple(f"{called[name]}={there[name].identity}" if name in given else name for name in models)  # pyright: ignore
    evaluation, scale = _evaluation(inventory, scored)

    def steps(model_step: Callable[[GivenModel], Any]) -> dict[str, ExecutorStep[Any]]:
        return {name: _asked_of(evaluation, model_step(model), called[name]) for name, model in given.items()}

    question = f"{', '.join(called.values())} by the evaluation {scored.name}."
    made = make_steps(inventory.store, list(given.values()), steps, question, scale)
    return tuple(f"{called[name]}={made[name].identity}" if name in given else name for name in models)


def _first_scored(inventory: Inventory, names: Sequence[str], *, latest: bool) -> Record | None:
    """Return the scores of the first model that has scores. A model is anything that can be a column."""
    from marin.report.side_by_side import named

    others: list[Compared] = named(inventory, names, latest=latest) if names else []
    return next((each.scores[0] for each in others if each.scores), None)


def _newest_scores(inventory: Inventory, model: GivenModel) -> Record | None:
    records = inventory.newest_first()
    weights = {each.root for each in records if published_as(each) == model.canonical}
    found = (each for each in records if each.kind == "scores" and weights & {one.root for one in each.inputs})
    return next(found, None)


def _evaluation(inventory: Inventory, scores: Record) -> tuple[ExecutorStep[Any], Scale]:
    """Return the step that made the scores, from the experiment in this folder. Raises ExperimentError, UnknownStep."""
    origin, scale = origin_of(scores, inventory), Scale(scores.provenance.scale or Scale.REHEARSAL)
    experiment = experiment_of(module_of(origin), origin, scale)
    for step in experiment.steps():
        if step.identity == scores.identity:
            return step, scale
    raise UnknownStep(
        f"{origin} has no step {scores.name} {scores.identity[:12]} any more, so marin cannot evaluate other models "
        f"in the same way. Run it first (marin run {origin}), or name other scores. Or write an experiment: {HOW}"
    )


def _asked_of(evaluation: ExecutorStep[Any], model: Any, label: str) -> ExecutorStep[Any]:
    """Return the same evaluation of a published model, with the model's own tokenizer."""
    names = {each.name for each in dataclasses.fields(evaluation)}
    if not {"checkpoint", "tokenizer"} <= names:
        raise BadField(
            f"{evaluation.name} has no fields checkpoint and tokenizer, so marin cannot evaluate {model.name} with it; "
            "name scores of Evaluate or EvaluateTasks"
        )
    fields: dict[str, Any] = {"checkpoint": model, "tokenizer": model.tokenizer, "label": label}
    if "weights" in names:  # a published model has no average beside its weights
        weights = getattr(evaluation, "weights")
        fields["weights"] = weights.LAST
    return dataclasses.replace(evaluation, **fields)
