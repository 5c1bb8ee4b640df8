"""The settings of a run, recorded in its checkpoints, so that a run that continues one can report all changes.

Fields of the specification, machines and versions, flat: ``{"optimizer.max_grad_norm": 0.2, "machine.devices": …}``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any, cast

from marin.training.checkpoint import Facts
from marin.training.spec import TrainingSpec

# These fields differ between any two runs: first and last step, inputs and outputs, tracker and watch.
READS = frozenset({"first_step", "end_step", "start", "state", "keep_steps", "sources"})
OWN = READS | {"before", "tracked", "watch", "process", "hang_minutes", "tensor"}
PACKAGES = ("jax", "marin-levanter")


def settings(spec: TrainingSpec) -> dict[str, Any]:
    fields = {name: held for name, held in vars(spec).items() if name not in OWN}
    fields["stages"] = {  # one line each
        step: ", ".join(f"{name} {share:.4g}" for name, share in sorted(shares.items(), key=lambda each: -each[1]))
        + (f", over {over} steps" if (over := spec.interpolations.get(step)) else "")
        for step, shares in spec.stages.items()
    }
    del fields["interpolations"]
    fields["lora"] = None if spec.lora is None else str(spec.lora)
    return {place: held for name, value in fields.items() for place, held in _flat(name, value)}


def machine() -> dict[str, Any]:
    """Return this process's devices, number of processes and package versions. Imports JAX."""
    import jax

    devices: list[Any] = cast(Any, jax).devices()
    found: dict[str, Any] = {
        "machine.devices": f"{len(devices)} × {devices[0].device_kind}",
        "machine.processes": len({device.process_index for device in devices}),
    }
    for package in PACKAGES:
        try:
            found[f"version.{package}"] = version(package)
        except PackageNotFoundError:
            found[f"version.{package}"] = None
    return found


def changes(facts: Facts, now: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the settings that changed since a checkpoint, [then, now]: ``{"optimizer.max_grad_norm": [1.0, 0.2]}``.

    Older checkpoints record only model, optimizer and schedule, or nothing.
    """
    then = facts.settings
    if not then:
        parts = {"model": facts.model, "optimizer": facts.optimizer, "schedule": facts.schedule}
        known = {name: part for name, part in parts.items() if part is not None}
        then = {place: held for name, part in known.items() for place, held in _flat(name, part)}
        now = {place: held for place, held in now.items() if place.partition(".")[0] in known}
    return {
        place: [then.get(place), now.get(place)]
        for place in sorted(then.keys() | now.keys())
        if then.get(place) != now.get(place)
    }


def _flat(name: str, held: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(held):
        yield name, type(held).__name__
        for field in dataclasses.fields(held):
            yield from _flat(f"{name}.{field.name}", getattr(held, field.name))
    elif isinstance(held, Mapping):
        for key, item in held.items():  # pyright: ignore[reportUnknownVariableType]
            yield from _flat(f"{name}.{key}", item)
    elif isinstance(held, tuple):
        for number, item in enumerate(held):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            yield from _flat(f"{name}.{number}", item)
    else:
        yield name, getattr(held, "value", held)
