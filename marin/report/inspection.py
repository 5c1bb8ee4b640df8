"""What the trainings of an experiment would read, looked at in the store; see marin.data.inspection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast, runtime_checkable

from marin.data.order_spec import Training, order_of
from marin.errors import ExperimentError, UnknownStep
from marin.report.contents import tokenizer_of
from marin.report.phases import TrainingRun
from marin.steps.experiment import Experiment
from marin.steps.step import ExecutorStep
from marin.store.files.directory import Directory
from marin.store.inventory import Inventory
from marin.store.lookup import hint
from marin.store.record import Record

if TYPE_CHECKING:
    from marin.data.inspection import Inspection

HELD_OUT_BYTES = 2_000_000  # of each set

type Step = ExecutorStep[Any]


@runtime_checkable
class Scoring(Protocol):
    """What says which held-out documents are scored, by name: an evaluation, or a training's watch."""

    domains: Mapping[str, Step]


class Looked(NamedTuple):
    """A training that was looked at. missing: held-out sets that the store does not hold."""

    name: str
    found: Inspection
    missing: list[str]


def trainings(experiment: Experiment, name: str = "") -> list[Step]:
    """Of the experiment, or the one with this name. Raises ExperimentError for none, UnknownStep for another name."""
    found: list[Step] = [step for step in experiment.steps() if isinstance(step, TrainingRun)]
    if not found:
        raise ExperimentError("the experiment trains nothing: no step of it has optimizer steps, a schedule and data")
    chosen = [step for step in found if name in ("", step.name, step.label)]
    if not chosen:
        raise UnknownStep(f"no training is called {name!r}; {hint(name, [step.name for step in found])}")
    return chosen


def look_at(
    step: Step, experiment: Experiment, inventory: Inventory, *, batches: int, seed: int = 0, bos: str = ""
) -> Looked:
    """Raises UnknownStep if its tokens are not in the store, and what the training itself would raise of them."""
    from marin.data.inspection import inspect_order
    from marin.data.token_store import TokenStore
    from marin.data.tokenizer import load_tokenizer

    spec = order_of(cast(Training[Step], step))
    records = {source: _record(inventory, source, step) for source in spec.stages.sources}
    stores = {source: TokenStore.open(inventory.store.output(record)) for source, record in records.items()}
    made = tokenizer_of(inventory, next(iter(records.values())))
    if made is None:
        raise UnknownStep(f"the store holds no tokenizer of the tokens that {step.name} reads; make it first")
    texts, missing = _held_out(experiment, inventory)
    found = inspect_order(spec, stores, load_tokenizer(made), texts, batches=batches, seed=seed, bos=bos)
    return Looked(step.name, found, missing)


def _record(inventory: Inventory, source: Step, step: Step) -> Record:
    record = inventory.find(source.identity)
    if record is None:
        raise UnknownStep(
            f"{step.name} reads {source.name}, which the store {inventory.store.prefix} does not hold; make it first: "
            "`marin run FILE --only RESULT`, of a result that reads it, such as an Inspect"
        )
    return record


def _held_out(experiment: Experiment, inventory: Inventory) -> tuple[dict[str, list[str]], list[str]]:
    """Texts by name, of what the experiment scores; and what of that the store does not hold."""
    from marin.evaluation.held_out_texts import texts_of_documents, texts_of_items

    documents, items = dict[str, Step](), dict[str, Step]()
    for step in experiment.steps():
        for scoring in (step, getattr(step, "watch", None)):
            if isinstance(scoring, Scoring):
                documents |= scoring.domains
                items |= cast(Mapping[str, Step], getattr(scoring, "tasks", {}))
    texts, missing = dict[str, list[str]](), list[str]()
    for sets, read in ((documents, texts_of_documents), (items, texts_of_items)):
        for name, step in sorted(sets.items()):
            record = inventory.find(step.identity)
            directory: Directory | None = None if record is None else inventory.store.output(record)
            if directory is None:
                missing.append(name)
            else:
                texts[name] = read(directory, HELD_OUT_BYTES)
    return texts, missing
