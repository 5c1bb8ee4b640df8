"""Turn names given to ``marin compare`` into models: checkpoints, their evaluations, published models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, cast

from marin.errors import BadField, UnknownStep, did_you_mean
from marin.evaluation.published_models import MODELS, published_model
from marin.evaluation.results import RESULTS_FILE, read_results
from marin.evaluation.samples import Sample, read_logged
from marin.evaluation.side_by_side import Side
from marin.report.words import grouped
from marin.store.files.directory import Directory
from marin.store.inventory import Inventory
from marin.store.lookup import ambiguous, outputs_called, unknown
from marin.store.record import Record
from marin.store.store import Store

NUMBER = re.compile(r"[-_@.]\d+$")  # number of a run, after the name of its arm
SCORES, CHECKPOINT, REPORT = "scores", "checkpoint", "report"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One model, or one arm of several runs. about: where its numbers come from. samples: of the first run.

    scores, checkpoints: of each run, if the store has them.
    """

    side: Side
    about: str
    scores: Sequence[Record] = ()
    checkpoints: Sequence[Record] = ()
    samples: Mapping[tuple[str, str], Sample] = field(default_factory=dict[tuple[str, str], Sample])
    weights: Sequence[Directory] = ()  # of the checkpoints


def named(inventory: Inventory | None, names: Sequence[str], *, latest: bool = False) -> list[Compared]:
    """Return the model for each name. Outputs of the store come before published models.

    ``ARM=A,B,C``, ``A,B,C`` and a pattern such as ``A-*`` stand for the runs of one arm, which differ in their seed.
    Raises UnknownStep with near misses of both, or AmbiguousName. Raises BadField for an output that is neither scores
    nor checkpoint, and for runs of an arm that differ in more than their seed.
    """
    found = [_arm(inventory, name, latest=latest) for name in names]
    called = [each.side.name for each in found]
    if len(set(called)) < len(called):
        raise BadField(f"{' and '.join(names)}: {called[0]} is named twice; name different models")
    return found


def _arm(inventory: Inventory | None, given: str, *, latest: bool) -> Compared:
    name, _, listed = given.rpartition("=")
    runs = [each for part in listed.split(",") for each in _matching(inventory, part)]
    parts = [_named(inventory, run, latest=latest) for run in runs]
    if len(parts) == 1:
        return replace(parts[0], side=replace(parts[0].side, name=name)) if name else parts[0]
    _must_be_one_arm(inventory, given, parts)
    measured = [each for each in parts if each.scores]
    side = Side(
        name=name or (stems.pop() if len(stems := {NUMBER.sub("", run) for run in runs}) == 1 else given),
        metrics=[run for each in measured for run in each.side.metrics],
        results=[run for each in measured for run in each.side.results],
        items=[run for each in measured for run in each.side.items],
        groups={task: of for each in measured for task, of in each.side.groups.items()},
        read={task: what for each in parts for task, what in each.side.read.items()},
    )
    return Compared(
        side=side,
        about=f"{len(parts)} runs: {'; '.join(each.about for each in parts)}",
        scores=[record for each in parts for record in each.scores],
        checkpoints=[record for each in parts for record in each.checkpoints],
        samples=parts[0].samples,
        weights=[each for part in parts for each in part.weights],
    )


def _matching(inventory: Inventory | None, pattern: str) -> list[str]:
    """Return names and labels of checkpoints and scores that fit a pattern. A name without ``*`` and ``?`` stays."""
    if inventory is None or not {"*", "?"} & set(pattern):
        return [pattern]
    records = [each for each in inventory.newest_first() if each.kind in (SCORES, CHECKPOINT)]
    names = {each.name if "/" in pattern else each.label for each in records}
    if found := sorted(name for name in names if fnmatchcase(name, pattern)):
        return found
    raise unknown_model(pattern, {each.name for each in records}, inventory.store.prefix)


def _must_be_one_arm(inventory: Inventory | None, given: str, parts: Sequence[Compared]) -> None:
    """Raise BadField unless these are different runs of the store whose trainings differ only in their seed."""
    if any(each.side.published for each in parts) or inventory is None:
        raise BadField(f"{given}: a published model is no run of an arm; give it by itself")
    if any(bool(each.scores) != bool(parts[0].scores) for each in parts):
        lacking = ", ".join(each.side.name for each in parts if not each.scores)
        raise BadField(f"{given}: {lacking} has no evaluation, but other runs of the arm do; evaluate all runs alike")
    trainings = [_training(inventory, each) for each in parts]
    if len({each.identity for each in trainings}) < len(trainings):
        raise BadField(f"{given}: one run is named twice; name runs that differ in their seed")
    first = trainings[0]
    for other in trainings[1:]:
        keys = first.config.keys() | other.config.keys()
        if differing := sorted(key for key in keys - {"seed"} if first.config.get(key) != other.config.get(key)):
            raise BadField(
                f"{given}: {first.name} and {other.name} differ in {', '.join(differing)}; runs of one arm may differ "
                "only in their seed: name them as separate arms"
            )


def _training(inventory: Inventory, of: Compared) -> Record:
    """Return the record of the training behind a checkpoint if the store has it, else of the checkpoint or scores."""
    record = (*of.checkpoints, *of.scores)[0]
    training = record.config.get("training")  # in the fields of a milestone
    made_by = [each for each in record.inputs if str(training).endswith(f"#{each.identity[:12]}")]
    return next((found for each in made_by if (found := inventory.records.get(each.identity))), record)


def _named(inventory: Inventory | None, name: str, *, latest: bool) -> Compared:
    records = inventory.newest_first() if inventory is not None else []
    prefix = inventory.store.prefix if inventory is not None else ""
    outputs = outputs_called(name, records, prefix)
    if inventory is None or not outputs:
        model = published_model(name)
        if model is not None:
            side = Side(name=model.name, published=model.scores, read=model.read)
            return Compared(side=side, about=f"published: {model.source}")
        if inventory is not None and inventory.damage:
            raise unknown(name, records, prefix, inventory.damage.values())
        raise unknown_model(name, {each.name for each in records} | {*MODELS}, prefix)
    by_kind = grouped((record.kind, record) for record in outputs)
    of_kind = by_kind.get(SCORES) or by_kind.get(CHECKPOINT)
    if not of_kind:
        found = f"{name} is {outputs[0].kind} ({outputs[0].name})"
        raise BadField(f"{found}; wanted a checkpoint, its scores, or a published model")
    if len({record.root for record in of_kind}) > 1 and not latest:
        lines = [f"{record.name}  {record.identity[:12]}  {record.provenance.ended}" for record in of_kind]
        raise ambiguous(name, lines, "newest first; give the identity, or --latest")
    return _held(inventory, name, of_kind[0], records)


def unknown_model(name: str, known: Iterable[str], prefix: str) -> UnknownStep:
    where = f"in the store {prefix} or among published models" if prefix else "among published models"
    return UnknownStep(f"nothing {where} is called {name!r}; {did_you_mean(name, known)}")


def _held(inventory: Inventory, name: str, record: Record, records: Sequence[Record]) -> Compared:
    store = inventory.store
    if record.kind == SCORES:
        inputs = (inventory.records.get(each.identity) for each in record.inputs)
        scores, checkpoint = record, next((each for each in inputs if each and each.kind == CHECKPOINT), None)
    else:
        made = [each for each in records if each.kind == SCORES and record.root in [one.root for one in each.inputs]]
        scores, checkpoint = made[0] if made else None, record
    checkpoints = [checkpoint] if checkpoint is not None else []
    weights = [Directory(f"{store.prefix}/{each.attempt}") for each in checkpoints]
    if scores is None:
        about = f"{record.name} {record.identity[:12]}, which has no evaluation; Evaluate(checkpoint=…) adds one"
        return Compared(side=Side(name=name), about=about, checkpoints=checkpoints, weights=weights)
    directory = Directory(f"{store.prefix}/{scores.attempt}")
    logged = read_logged(directory)
    side = Side(
        name=name,
        metrics=[scores.facts.get("metrics", {})],
        results=[read_results(directory)] if directory.exists(RESULTS_FILE) else [],
        items=[logged.scores],
        groups=logged.groups,
        read=_read(store, scores, records),
    )
    of = f" of {checkpoint.name}" if checkpoint is not None else ""
    about = f"{scores.name} {scores.identity[:12]}{of}, {scores.provenance.ended}"
    return Compared(
        side=side,
        about=about,
        scores=[scores],
        checkpoints=checkpoints,
        samples=logged.samples,
        weights=weights,
    )


def _read(store: Store, scores: Record, records: Sequence[Record]) -> dict[str, str]:
    """Return, by task, the test items that this checkpoint was trained on, from reports on contamination."""
    found: dict[str, str] = {}
    for record in records:
        held = record.config.get("arms") if record.kind == REPORT else None
        arms = cast("dict[str, Any]", held) if isinstance(held, dict) else {}
        mine = [arm for arm, step in arms.items() if str(step).endswith(f"#{scores.identity[:12]}")]
        content = store.objects.read(f"{record.attempt}/report.json") if mine else None
        for arm in mine if content is not None else ():
            report = json.loads(content or b"{}")
            counted = report.get("exposure", {}).get(arm, {})
            for task in report.get("vetoes", {}).get(arm, ()):
                some = f"{counted['items']} of its {counted['of']} test items" if counted.get("items") else ""
                found.setdefault(task, some or "its test items")
    return found
