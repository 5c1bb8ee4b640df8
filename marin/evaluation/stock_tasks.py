"""Runs tasks of lm-evaluation-harness unchanged, over data on disk. Only the place of the items differs.

The harness looks nothing up on the hub.
"""

# pyright: basic
from __future__ import annotations

import json
import logging
import math
import os
import random
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from marin.errors import BadField, InputError, MissingDependency, NothingScored
from marin.evaluation.formats import Format
from marin.evaluation.generated_code import code_run_apart
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.results import ItemResult
from marin.store.files.directory import Directory
from marin.training.hub_offline import hub_offline

if TYPE_CHECKING:
    from lm_eval.api.model import LM

# Part of the names of the harness's files. A fixed date, so that an output's bytes do not depend on the time; the
# output's record has the time.
DATE = "1970-01-01T00-00-00.000000"
GROUP = "marin"  # the harness lets a task change settings only as the member of a group


@contextmanager
def loaded_task(task: HarnessTask, data: Path) -> Generator[dict[str, Any]]:
    """Yield what the harness's ``TaskManager.load`` returns, with all items. Meanwhile the hub is offline.

    data: the files of the task's dataset, as they are on the hub. Raises InputError for a task that the harness does
    not have, or whose data is missing; NothingScored for a task without items; BadField for a task that runs the
    model's code without runs_code; MissingDependency.
    """
    import datasets.config
    import lm_eval.tasks
    from datasets.exceptions import DatasetsError
    from jinja2 import TemplateError
    from lm_eval.tasks import TaskManager

    logging.getLogger("lm_eval").setLevel(logging.ERROR)  # the harness logs every request and every few-shot setting
    datasets.utils.disable_progress_bars()
    folder = Path(lm_eval.tasks.__file__).parent / task.folder
    manager = TaskManager(include_defaults=False, include_path=[str(folder)])
    kind = "group" if task.name in manager.all_groups else "task"
    if task.name not in manager.all_tasks or task.name in manager.all_tags:
        there = ", ".join([*manager.all_groups, *manager.all_subtasks][:5])
        raise InputError(f"lm-evaluation-harness has no task {task.name} in tasks/{task.folder}; there are: {there} …")
    settings: dict[str, Any] = {kind: task.name, "dataset_path": str(data)}
    if task.shots is not None:
        settings["num_fewshot"] = task.shots
    templates = {"doc_to_text": task.prompt, "doc_to_choice": task.choices, "doc_to_target": task.target}
    settings |= {key: template for key, template in templates.items() if template is not None}
    before = datasets.config.HF_DATASETS_CACHE, datasets.config.HF_HUB_OFFLINE
    with tempfile.TemporaryDirectory() as cache, hub_offline(), code_run_apart():
        datasets.config.HF_DATASETS_CACHE, datasets.config.HF_HUB_OFFLINE = Path(cache), True
        random.seed(0)  # the harness's own seeds: some tasks shuffle their choices
        np.random.seed(1234)
        try:
            # The group is a file and is loaded by name: a group given as a value overrides the "task" of each task,
            # and the harness takes the path of a group for a name.
            Path(cache, f"{GROUP}.yaml").write_text(json.dumps({"group": GROUP, "task": [settings]}))
            manager = TaskManager(include_defaults=False, include_path=[str(folder), cache])
            loaded: dict[str, Any] = dict(manager.load([GROUP]))
            for name, one in loaded["tasks"].items():
                if getattr(one, "UNSAFE_CODE", False) and not task.runs_code:
                    raise BadField(
                        f"task {name} runs the code that the model writes; allow it: HarnessTask(…, runs_code=True)"
                    )
                _must_have_items(name, one, task)
            loaded["groups"].pop(GROUP)
            loaded["group_map"].pop(GROUP)
            yield loaded
        except ModuleNotFoundError as error:
            raise MissingDependency(f"task {task.name} needs a package that is not installed: {error}") from error
        except (TemplateError, SyntaxError, IndexError) as error:
            if task.prompt is task.choices is task.target is None:
                raise
            raise InputError(
                f"task {task.name}: its templates fail on an item of {task.dataset}: {type(error).__name__} {error}; "
                "wanted prompt= a text, choices= a list, target= a choice or its place in the list, from fields that "
                "an item has"
            ) from error
        except (DatasetsError, OSError, KeyError, ValueError) as error:
            raise InputError(
                f"task {task.name}: the files of {task.dataset} in {data} do not hold the data of the task: "
                f"{type(error).__name__} {' '.join(str(error).split())[:300]}; download every file that the task needs "
                "(the dataset's README.md lists the files of each split); marin does not ask the hub now"
            ) from error
        finally:
            datasets.config.HF_DATASETS_CACHE, datasets.config.HF_HUB_OFFLINE = before


def _must_have_items(name: str, task: Any, of: HarnessTask) -> None:
    found = len(task.eval_docs)
    if not found:
        raise NothingScored(f"task {name}: no item in its split of {of.dataset}; check the step that downloads it")
    shots = task.config.num_fewshot or 0 if of.shots is None else of.shots
    examples = len(list(task.fewshot_docs())) if shots else 0
    if examples < shots:
        raise InputError(
            f"task {name}: {examples} examples to choose from, but a prompt shows {shots}; download the split that "
            "has the examples"
        )


@dataclass(frozen=True)
class Answered:
    """An evaluated task.

    results: the return value of the harness's ``evaluate``, without samples. samples: by task, one for each item and
    filter."""

    results: dict[str, Any]
    samples: Mapping[str, list[dict[str, Any]]]


def prepared(loaded: Mapping[str, Any]) -> Iterator[Any]:
    """Yield each task, with the harness's seed for drawing examples."""
    for one in loaded["tasks"].values():
        if one.get_config("num_fewshot") is None:
            one.set_config(key="num_fewshot", value=0)
        one.set_fewshot_seed(seed=1234)  # the harness's own
        yield one


def evaluate_task(model: LM, task: HarnessTask, loaded: dict[str, Any], items: int | None) -> Answered:
    """Return the harness's results on a task. items: the number of first items to use; None for all.

    Raises the model's errors."""
    from lm_eval.evaluator import evaluate

    for _ in prepared(loaded):
        pass
    # Without this, the harness forks to estimate the error of some metrics (perplexity), and a process forked beside
    # Ray's threads may wait for ever.
    os.environ["DISABLE_MULTIPROC"] = "1"
    results = evaluate(model, loaded, limit=items, bootstrap_iters=1000, confirm_run_unsafe_code=task.runs_code)  # pyright: ignore[reportArgumentType]
    if results is None:
        raise BadField("lm-evaluation-harness gave no results: this is not its first process; set no RANK")
    found: dict[str, Any] = dict(results)
    samples = {name: sorted(held, key=_place) for name, held in found.pop("samples").items()}
    return Answered(found, samples)


def _place(sample: Mapping[str, Any]) -> tuple[int, str]:
    return sample["doc_id"], sample["filter"]


def write_answered(out: Directory, task: HarnessTask, answered: Answered, model: Mapping[str, Any]) -> None:
    """Write ``results_….json`` and ``samples_<task>_….jsonl`` in the harness's form, for the harness's tools.

    model: the harness's "config". Paths of this machine are left out.
    """
    from lm_eval.utils import handle_non_serializable, sanitize_list

    results: dict[str, Any] = {**answered.results, "config": dict(model), "date": 0.0, "git_hash": None}
    for config in results["configs"].values():
        config["dataset_path"] = task.dataset
        config["metadata"] = {key: held for key, held in config["metadata"].items() if key != "config_source"}
    written = json.dumps(results, indent=2, default=handle_non_serializable, ensure_ascii=False, sort_keys=True)
    out.write_text(f"results_{DATE}.json", written + "\n")
    for name, samples in sorted(answered.samples.items()):
        lines: list[str] = []
        for sample in samples:
            arguments = {
                f"gen_args_{number}": {f"arg_{place}": part for place, part in enumerate(parts)}
                for number, parts in enumerate(sample["arguments"])
            }
            row = {
                **sample,
                "arguments": arguments,
                "resps": sanitize_list(sample["resps"]),
                "filtered_resps": sanitize_list(sample["filtered_resps"]),
                "target": str(sample["target"]),
            }
            lines.append(json.dumps(row, default=handle_non_serializable, ensure_ascii=False) + "\n")
        out.write_text(f"samples_{name}_{DATE}.jsonl", "".join(lines))


@dataclass(frozen=True)
class Numbers:
    """The numbers of a task or group.

    metrics, stderr: by metric ("acc", "exact_match,strict-match"). items: the number of items."""

    metrics: dict[str, float]
    stderr: dict[str, float]
    items: int


def numbers_of(task: HarnessTask, answered: Answered) -> Numbers:
    """Return the headline numbers of a task or group. A group without its own metrics has the mean of its tasks."""
    results = answered.results["results"]
    own = {key: float(held) for key, held in results.get(task.name, {}).items() if _is_number(key, held)}
    if not own:
        tasks = [results[name] for name in answered.samples]
        shared = set.intersection(*({key for key, held in one.items() if _is_number(key, held)} for one in tasks))
        own = {key: float(np.mean([one[key] for one in tasks])) for key in shared if "_stderr," not in key}
    plain = {key.removesuffix(",none"): held for key, held in sorted(own.items()) if np.isfinite(held)}
    return Numbers(
        {key: held for key, held in plain.items() if "_stderr" not in key},
        {key.replace("_stderr", ""): held for key, held in plain.items() if "_stderr" in key},
        sum(len({sample["doc_id"] for sample in samples}) for samples in answered.samples.values()),
    )


def choice_results(name: str, loaded: Mapping[str, Any], answered: Answered) -> dict[tuple[str, str], list[ItemResult]]:
    """Return the bits of each item's right choice, by task and prompt form.

    Empty if the model writes its answers, or if an item has no single right choice. name: "arc_easy", or
    "arc_easy/olmes" for a form other than the harness's own. An item has the same id in every form.
    """
    task, _, form = name.partition("/")
    form = form or Format.LM_EVAL
    items: list[ItemResult] = []
    for of, one in loaded["tasks"].items():
        if one.OUTPUT_TYPE != "multiple_choice":
            return {}
        for sample in {sample["doc_id"]: sample for sample in answered.samples[of]}.values():
            choices, right = one.doc_to_choice(sample["doc"]), _right(one, sample["doc"])
            if right is None:
                return {}
            likelihoods = np.array([response[0][0] for response in sample["resps"][: len(choices)]], float)
            shares = np.exp(likelihoods - likelihoods.max())
            items.append(
                ItemResult(
                    task=task,
                    format=form,
                    id=item_id(of, sample["doc_id"]),
                    bits=-float(likelihoods[right]) / math.log(2),
                    bytes=len(sample["arguments"][right][1].encode()),
                    choice_probability=float(shares[right] / shares.sum()),
                )
            )
    return {(task, form): items}


def item_id(task: str, number: int) -> str:
    """Return the id of an item, by its number in the harness's order: equal in all prompt forms and evaluations."""
    return f"{task}/{number}"


def choice_metrics(results: Mapping[tuple[str, str], list[ItemResult]]) -> dict[str, float]:
    """Return ``<task>/<form>/bpb`` over all bytes, and the mean as ``<task>/<form>/choice_probability``."""
    found: dict[str, float] = {}
    for (task, form), items in results.items():
        found[f"{task}/{form}/bpb"] = sum(one.bits for one in items) / sum(one.bytes for one in items)
        probabilities = [one.choice_probability for one in items if one.choice_probability is not None]
        found[f"{task}/{form}/choice_probability"] = float(np.mean(probabilities))
    return found


def _right(task: Any, doc: Any) -> int | None:
    """Return the place of the right choice; None if several are right, or none."""
    right = task.doc_to_text(doc) if task.multiple_input else task.doc_to_target(doc)
    if isinstance(right, list) and len(right) == 1:
        (right,) = right
    choices = task.doc_to_choice(doc)
    if isinstance(right, str):
        return choices.index(right) if right in choices else None
    return right if isinstance(right, int) and 0 <= right < len(choices) else None


def _is_number(key: str, held: Any) -> bool:
    return "," in key and isinstance(held, int | float)
