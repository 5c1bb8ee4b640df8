"""One side of a diff: an experiment as plain data, described by the code beside it.

It runs as a script (``python -P describe.py FILE SCALE SETTINGS FORGET…``) in a process of its own, so that each side
imports its own modules, ``marin`` included. It uses only features that every revision of the engine has. The exception
is SETTINGS, a JSON list of --set changes. FORGET: folders that the other side imports from. The script writes one JSON
object to stdout; output of the experiment goes to stderr.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import sys
import traceback
from typing import Any


def describe_experiment(file: str, scale_name: str, settings: list[str]) -> dict[str, Any]:
    """Return everything that a diff compares."""
    files, scales = engine("steps.experiment_file", "experiment_file"), engine("steps.scale", "scale")
    code_fingerprint = engine("fingerprint.of_step", "fingerprint").code_fingerprint
    build, source = files.load_build(file)
    experiment = files.built_by(build, source, scales.Scale(scale_name))
    if settings:
        experiment = engine("steps.overrides", "steps.overrides").with_changes(experiment, settings)
    codes: dict[str, dict[str, str]] = {}
    texts: dict[str, str] = {}
    steps: list[dict[str, Any]] = []
    for step in experiment.steps():
        code = code_fingerprint(step)
        if code.digest not in codes:
            codes[code.digest] = dict(code.units)
            texts |= {code.units[name]: text for name, text in code.sources.items()}
        steps.append(describe_step(step, code.digest))
    return {
        "experiment": source.stem,
        "issue": experiment.issue,
        "question": experiment.question,
        "results": {name: step.identity for name, step in experiment.results.items()},
        "steps": steps,
        "codes": codes,
        "texts": texts,
    }


def describe_step(step: Any, code: str) -> dict[str, Any]:
    fields, values = engine("plan.missing", "reasons"), engine("steps.value", "value")
    work, accelerator = step.work(), step.resources.accelerator
    execution = {
        spec.name: json.loads(json.dumps(fields.describe(getattr(step, spec.name)), default=str))
        for spec in dataclasses.fields(step)
        if values.EXECUTION in spec.metadata and spec.name not in ("label", "beside")  # a name; a place
    }
    return {
        "op": step.op,
        "label": step.label,
        "name": step.name,
        "version": step.version,
        "identity": step.identity,
        "fields": fields.describe_fields(step),
        "execution": execution,
        "inputs": [dependency.identity for dependency in step.dependencies],
        "code": code,
        "work": None if work is None else dataclasses.asdict(work),
        "accelerator": None if accelerator is None else dataclasses.asdict(accelerator),
    }


def engine(name: str, earlier: str) -> Any:
    """Return a module of the engine beside the experiment. earlier: its name in revisions before November 2026."""
    try:
        return importlib.import_module(f"marin.{name}")
    except ModuleNotFoundError as error:
        if not f"marin.{name}.".startswith(f"{error.name}."):
            raise
        return importlib.import_module(f"marin.{earlier}")


def main(file: str, scale_name: str, settings: str, *forget: str) -> int:
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) not in forget]
    sys.dont_write_bytecode = True
    try:
        described = describe_experiment(file, scale_name, json.loads(settings))
    except Exception as error:
        from marin.errors import MarinError

        notes = list(getattr(error, "__notes__", ()))
        if not isinstance(error, MarinError):
            notes = ["".join(traceback.format_exception(error)).rstrip()]
        described = {"error": "\n".join([f"{type(error).__name__}: {error}", *notes])}
    with output:
        json.dump(described, output)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
