"""Decide which arrays a run takes from another run's checkpoint, and report on them."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory

type Shapes = dict[str, tuple[int, ...]]
CHAIN = re.compile(r"(.*/inner_state)/(\d+)/(.*)")  # the place of a transformation in an optax chain
SKIP_HISTORY, CLIP_HISTORY = "_skipstep_", "update_norms"


def stored_shapes(source: Directory) -> Shapes:
    """Return the shape of every array of a checkpoint, by path. Raises UnreadableCheckpoint."""
    from levanter.checkpoint_manifest import read_manifest

    manifest = read_manifest(source.url)
    if manifest is None:
        raise UnreadableCheckpoint(f"{source.url} has no manifest.json; rebuild the run that made it")
    return {array.path: tuple(array.shape) for array in manifest.arrays}


def below(part: str, shapes: Shapes) -> Shapes:
    """Return the shapes of one part of a checkpoint, by their paths below the part."""
    return {path.removeprefix(f"{part}/"): shape for path, shape in shapes.items() if path.startswith(f"{part}/")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Carried:
    """The arrays that one optimizer's state carries over to another optimizer.

    An array is identified by its transformation, not by the transformation's place in the chain. The place changes when
    an earlier guard is switched on or off, and when Muon takes over a part of Adam's parameters. A guard's history is
    carried over whole or not at all. Muon's momentum never comes from Adam's first moment: the first moment forgets
    faster (.9 against .98) and averages clipped gradients. Seeding the momentum from it had no measurable gain.
    """

    wanted: Shapes  # of the new optimizer, by path
    stored: Shapes  # of the old optimizer, by path
    only: str = ""  # carry over this guard's history only; "" for all arrays

    @functools.cached_property
    def source(self) -> dict[str, str]:
        """The path in the checkpoint of each array that is carried over, by its path in the new state."""
        there, keys = {key: path for path, key in _keys(self.stored).items()}, _keys(self.wanted)
        found = {
            path: there[key]
            for path, key in keys.items()
            if key in there and self.stored[there[key]] == self.wanted[path]
        }
        torn = {_history(keys[path]) for path in self.wanted.keys() - found.keys()} - {""}
        whole = {path: at for path, at in found.items() if _history(keys[path]) not in torn}
        return {path: at for path, at in whole.items() if not self.only or _history(keys[path]) == self.only}

    def report(self) -> dict[str, Shapes]:
        """Return kept, fresh, dropped: shapes by path in the new state (dropped: by path in the old state)."""
        return {
            "kept": {path: self.wanted[path] for path in sorted(self.source)},
            "fresh": {path: self.wanted[path] for path in sorted(self.wanted.keys() - self.source.keys())},
            "dropped": {path: self.stored[path] for path in sorted(self.stored.keys() - set(self.source.values()))},
        }


def _keys(paths: Iterable[str]) -> dict[str, str]:
    """Map each path to a key that names the transformation by the fields of its state, not by its place."""
    found = {path: CHAIN.fullmatch(path) for path in paths}
    fields: dict[tuple[str, str], set[str]] = {}
    for match in filter(None, found.values()):
        fields.setdefault((match[1], match[2]), set()).add(match[3].partition("/")[0])
    return {
        path: path if match is None else f"{'+'.join(sorted(fields[match[1], match[2]]))}/{match[3]}"
        for path, match in found.items()
    }


def _history(key: str) -> str:
    """Return the guard whose history an array is part of; "" for no guard."""
    return next((name for name in (SKIP_HISTORY, CLIP_HISTORY) if name in key), "")


def transfer_report(stored: Shapes, wanted: Shapes, where: str) -> dict[str, Any]:
    """Report the parameters that are loaded, fresh (only wanted) and dropped (only stored), with shapes and counts.

    Raises UnreadableCheckpoint if a stored and a wanted parameter differ in shape, or if no parameter is common.
    """
    for path in sorted(stored.keys() & wanted.keys()):
        if stored[path] != wanted[path]:
            raise UnreadableCheckpoint(
                f"{where}: {path} has shape {stored[path]}, but this model needs {wanted[path]}; "
                "start from a model with the same sizes"
            )
    if not stored.keys() & wanted.keys():
        raise UnreadableCheckpoint(
            f"{where}: its {len(stored)} parameters and this model's {len(wanted)} have none in common; start from a "
            "checkpoint of a related architecture"
        )
    groups = {
        "loaded": {path: wanted[path] for path in wanted if path in stored},
        "fresh": {path: wanted[path] for path in wanted if path not in stored},
        "dropped": {path: stored[path] for path in stored if path not in wanted},
    }
    counts = {f"parameters_{name}": sum(math.prod(s) for s in shapes.values()) for name, shapes in groups.items()}
    return {**counts, **{name: dict(sorted(shapes.items())) for name, shapes in groups.items()}}


def describe(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report in lines for a log."""
    yield (
        f"begins with {report['parameters_loaded']:,} parameters of another run's checkpoint, "
        f"{report['parameters_fresh']:,} fresh, {report['parameters_dropped']:,} left out"
    )
    if carried := report.get("optimizer_state"):
        kept, fresh, dropped = (len(carried[part]) for part in ("kept", "fresh", "dropped"))
        yield f"optimizer state: {kept} arrays kept, {fresh} fresh, {dropped} left out"
    if seeded := report.get("clip_history"):
        yield f"clip history: that of step {seeded['step']:,} of another run"
    if rebuilt := report.get("rebuilt"):
        yield (
            f"optimizer state: rebuilt from the {rebuilt['steps']:,} batches from step {rebuilt['first']:,} on, which "
            "changed no weight"
        )
    for field, (then, now) in report["changed"].items():
        yield f"changed since that checkpoint: {field} {then} → {now}"
