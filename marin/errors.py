"""Every error that marin raises on purpose.

MarinError
├── ExperimentError          the experiment file is invalid
│   ├── UnencodableValue     a field has no canonical encoding, so it cannot be part of an identity
│   ├── BadField             a field's value makes no sense (also: unknown or missing fields)
│   ├── UnseenCode           a step's code holds a value that exists only in this process
│   ├── PatchedCode          this process runs code that differs from the files
│   ├── CyclicSteps          a step depends on itself
│   └── LabelClash           two different steps have the same label
├── PlanError                the experiment does not fit the store; nothing was started
│   ├── Drift                other code than today's built a committed output
│   ├── Revoked              a needed output, or one of its inputs, was declared bad
│   ├── StalePlan            the store changed after planning: an output was rebuilt or deleted
│   ├── IdentityConflict     the target store of a mirroring holds other bytes under the same identity
│   ├── EgressOverBudget     more bytes would cross regions than the budget allows
│   ├── UnknownRegion        neither the store nor the user says where the store is
│   ├── UnknownStep          `--only`, `--rebuild` or a command names a step that does not exist
│   └── AmbiguousName        a name fits several outputs
├── StoreError               the store is damaged, or refuses a request
│   ├── BadPrefix            missing, malformed or unwritable prefix
│   ├── BadName              a file name that stores cannot keep, or that leaves its directory
│   ├── NotAFile             an output holds a pipe, a device, or a link that leaves it
│   ├── CorruptRecord        a record, claim or manifest cannot be parsed
│   ├── CorruptOutput        files of a committed output are missing, changed or truncated
│   │   └── InputRewritten   something wrote to an input while a step read it
│   ├── StoreFull            no space left
│   └── LeaseLost            another driver took over this step; this attempt may not commit
├── CodeChanged              somebody edited a step's code between planning and running
├── StepFailed               a step's run() raised; carries the step, the cause and the log
├── TrainingFailed           the training process died; carries its exit and the end of its log
├── Preempted                a step was told to stop from outside; it saved its work, and marin retries it
├── ProcessLost              a process of a step was killed or hung; marin retries while retries make progress
│   └── ProcessAborted       the process aborted itself (SIGABRT), as JAX does when it loses the other hosts
├── InputError               outside data is missing, garbled, or differs from its pin
│   ├── InputChanged         outside data changed after planning, or while a step read it
│   ├── MissingRevision      a dataset's pinned revision does not exist
│   ├── TruncatedShard       a shard ends early or does not decompress
│   └── GarbledDocument      a document does not have the form that its stage expects
├── GateError                a check stops a run that would seem to succeed
│   ├── StarvedSource        a training would read no sequence of a source
│   ├── TooManyEpochs        a training would repeat a source more often than its bound
│   ├── TokenizerMismatch    one mixture has token stores of different tokenizers
│   ├── EmptyOutput          an output has no document or item
│   ├── OverRemoval          a filter or deduplication removed more of a source than its bound
│   ├── UnreadableCheckpoint a checkpoint to resume from cannot be read (marin never starts from step 0 instead)
│   ├── RevokedBytes         a step produced the revoked bytes again
│   ├── NonFiniteLoss        a loss, gradient, update or weight became NaN or infinite
│   ├── NothingScored        an evaluation scored no item
│   ├── NothingLearned       a classifier tells good text from bad text hardly better than chance
│   ├── BadBatches           something is wrong with the batches of a training
│   └── ControlMissed        a search did not find the item planted as its control
├── NoCluster                Ray did not start here, or the named cluster does not answer
│   ├── TokenRefused         the cluster wants another token than the one configured here
│   └── ClusterLost          the cluster that ran the steps has died
└── MissingDependency        a needed package or program is not installed

Every message says which thing failed, the value found, the value wanted, and the next step for the user.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable


class MarinError(Exception):
    """Root of the tree above."""


class ExperimentError(MarinError): ...


class UnencodableValue(ExperimentError): ...


class BadField(ExperimentError): ...


class UnseenCode(ExperimentError): ...


class PatchedCode(ExperimentError): ...


class CyclicSteps(ExperimentError): ...


class LabelClash(ExperimentError): ...


class PlanError(MarinError): ...


class Drift(PlanError): ...


class Revoked(PlanError): ...


class StalePlan(PlanError): ...


class IdentityConflict(PlanError): ...


class EgressOverBudget(PlanError): ...


class UnknownRegion(PlanError): ...


class UnknownStep(PlanError): ...


class AmbiguousName(PlanError): ...


class StoreError(MarinError): ...


class BadPrefix(StoreError): ...


class BadName(StoreError): ...


class NotAFile(StoreError): ...


class CorruptRecord(StoreError): ...


class CorruptOutput(StoreError): ...


class InputRewritten(CorruptOutput): ...


class StoreFull(StoreError): ...


class LeaseLost(StoreError): ...


class CodeChanged(MarinError): ...


class StepFailed(MarinError): ...


class TrainingFailed(MarinError): ...


class Preempted(MarinError): ...


class ProcessLost(MarinError): ...


class ProcessAborted(ProcessLost): ...


class InputError(MarinError): ...


class InputChanged(InputError): ...


class MissingRevision(InputError): ...


class TruncatedShard(InputError): ...


class GarbledDocument(InputError): ...


class GateError(MarinError): ...


class StarvedSource(GateError): ...


class TooManyEpochs(GateError): ...


class TokenizerMismatch(GateError): ...


class EmptyOutput(GateError): ...


class OverRemoval(GateError): ...


class UnreadableCheckpoint(GateError): ...


class RevokedBytes(GateError): ...


class NonFiniteLoss(GateError): ...


class NothingScored(GateError): ...


class NothingLearned(GateError): ...


class ControlMissed(GateError): ...


class BadBatches(GateError): ...


class NoCluster(MarinError): ...


class TokenRefused(NoCluster): ...


class ClusterLost(NoCluster): ...


class MissingDependency(MarinError): ...


# Module → its distribution, where the two names differ.
BROUGHT_BY = {
    "aiohttp": "gcsfs",
    "datasets": "lm-eval",
    "evaluate": "lm-eval",
    "levanter": "marin-levanter",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
} | dict.fromkeys(
    ("equinox", "haliax", "jax", "jmp", "optax", "safetensors", "tensorstore", "transformers"), "marin-levanter"
)
_INSTEAD = {"ray": ", or run with --backend inline"}


def missing_dependency(error: BaseException, who: str = "this") -> MissingDependency | None:
    """Return the error to raise instead if a package of an extra is missing, else None. who: needs the package."""
    while isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
        if package and (extra := extra_with(package)) and _is_absent(package):
            remedy = f"pip install 'marin[{extra}]'{_INSTEAD.get(package, '')}"
            return MissingDependency(f"{who} needs {package}, which is not installed: {remedy}")
        # fsspec wraps an import error, and Ray a worker's error.
        error = error.__cause__ or getattr(error, "cause", None) or Exception()
    return None


def extra_with(module: str) -> str:
    """Return the smallest extra that installs a module; "" if none does."""
    distribution = BROUGHT_BY.get(module, module.replace("_", "-"))
    found = [(len(held), extra) for extra, held in _extras().items() if distribution in held]
    return min(found, default=(0, ""))[1]


@functools.cache
def _extras() -> dict[str, set[str]]:
    """Return the distributions of each extra, from the installed metadata of marin."""
    import importlib.metadata
    import re

    requirement = re.compile(r"([A-Za-z0-9._-]+).*;.*\bextra == ['\"]([\w-]+)['\"]")
    try:
        lines = importlib.metadata.requires("marin") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, set[str]] = {}
    for line in lines:
        if parts := requirement.match(line):
            found.setdefault(parts[2], set()).add(parts[1].lower().replace("_", "-"))
    return found


def _is_absent(package: str) -> bool:
    """Return whether a package is missing. A package that is installed but fails to import is not."""
    import importlib.util

    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return True


NAMES_SHOWN = 10  # by an error, if no known name is near


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return ``did you mean a or b?`` with the known names nearest to a name, or else a list of known names.

    Of known names such as ``op/label``, a part alone may be meant, too. otherwise: a text instead of the list.
    """
    import difflib

    every = sorted(set(known) - {""})
    parts = {part for each in every for part in each.split("/", 1)} if "/" not in name else set[str]()
    near = (
        difflib.get_close_matches(name, [*every, *(parts - set(every))], n=3, cutoff=0.5)
        or [each for each in every if name in each][:3]
    )
    if near:
        return f"did you mean {' or '.join(near)}?"
    more = f" and {len(every) - NAMES_SHOWN} more" if len(every) > NAMES_SHOWN else ""
    return otherwise or (f"there are {', '.join(every[:NAMES_SHOWN])}{more}" if every else "there is none")
