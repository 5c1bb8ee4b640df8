"""Every error that marin raises on purpose.

MarinError
├── ExperimentError          what the experiment file says cannot be meant
│   ├── UnencodableValue     a field has no canonical encoding, so it cannot be part of an identity
│   ├── BadField             a field's value makes no sense (also: unknown or missing fields)
│   ├── UnseenCode           a step's code holds a value that exists only in this process
│   ├── PatchedCode          this process runs other code than the files say
│   ├── CyclicSteps          a step depends on itself
│   └── LabelClash           two different steps claim one label
├── PlanError                the experiment and the store do not fit together; nothing was started
│   ├── Drift                a committed output was made by other code than today's
│   ├── Revoked              an output that is needed was declared bad, or was made from one that was
│   ├── StalePlan             what the plan relies on was made again or taken away since
│   ├── IdentityConflict           a store to mirror to holds other bytes under the same identity
│   ├── EgressOverBudget     more bytes would cross regions than the budget allows
│   ├── UnknownRegion        a store does not say where it is, and nobody else did
│   ├── UnknownStep          `--only`, `--rebuild` or a command names a step that is not there
│   └── AmbiguousName        a name fits several outputs
├── StoreError               what the store holds or refuses
│   ├── BadPrefix            missing, malformed or unwritable prefix
│   ├── BadName              a file name that no store can keep, or that leaves its directory
│   ├── NotAFile             an output holds what no store can keep: a pipe, a device, a link that leaves it
│   ├── CorruptRecord        a record, lease or manifest that cannot be read as what it must be
│   ├── CorruptOutput        files of a committed output are missing, changed or truncated
│   │   └── InputRewritten   an input was written to while a step read it
│   ├── StoreFull            no space left
│   └── LeaseLost            another driver took this step over; this attempt may not commit
├── CodeChanged              a step's code was edited between planning and running it
├── StepFailed               a step's run() raised; carries the step, the cause and the log
├── TrainingFailed           the training process died; carries how it ended and the end of its log
├── Preempted                a step was told to stop from outside; it saved its work, and is tried again
├── ProcessLost              a process of a step was killed or stood still; tried again while that makes progress
│   └── ProcessAborted       it ended itself (SIGABRT), as JAX does where it has lost the other hosts
├── InputError               outside data is missing, garbled or not what was pinned
│   ├── InputChanged         outside data changed since the plan was made, or while it was read
│   ├── MissingRevision      a dataset's pinned revision does not exist
│   ├── TruncatedShard       a shard ends early or does not decompress
│   └── GarbledDocument      a document that cannot be what its stage expects
├── GateError                a silent success, made loud
│   ├── StarvedSource        a mixture source would get no sample
│   ├── TooManyEpochs        a source would be repeated beyond its bound
│   ├── TokenizerMismatch    token stores of different tokenizers in one mixture
│   ├── EmptyOutput          a step made an output without any document or item
│   ├── OverRemoval          a filter or dedup removed more of a source than its bound
│   ├── UnreadableCheckpoint a checkpoint to resume from cannot be read (never start from step 0 instead)
│   ├── RevokedBytes         a step made the very bytes that were revoked
│   ├── NonFiniteLoss        a loss, gradient, update or weight became NaN or infinite
│   ├── DifferentRebuild     a deleted output came out different when it was made again
│   ├── NothingScored        an evaluation scored no item
│   ├── BadBatches           what a training would read is not what it should be
│   └── ControlMissed        a search did not find the item that was planted for it to find
├── NoCluster                Ray did not start here, or the cluster that was named does not answer
│   ├── TokenRefused         it wants another token than Ray is configured for here
│   └── ClusterLost          the cluster that steps ran on has died
└── MissingDependency        a package or program that is needed is not installed

Every message says which thing, the value found, what was wanted and what to do next.
"""

from __future__ import annotations

import functools


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


class DifferentRebuild(GateError): ...


class NonFiniteLoss(GateError): ...


class NothingScored(GateError): ...


class NothingLearned(GateError): ...


class ControlMissed(GateError): ...


class BadBatches(GateError): ...


class NoCluster(MarinError): ...


class TokenRefused(NoCluster): ...


class ClusterLost(NoCluster): ...


class MissingDependency(MarinError): ...


# Modules by the distribution that brings them, where that is not called like them.
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
    """What to raise instead, if the error is that a package of an extra is not installed. who: needs it."""
    while isinstance(error, ImportError):
        package = (error.name or "").partition(".")[0]
        if package and (extra := extra_with(package)) and _is_absent(package):
            remedy = f"pip install 'marin[{extra}]'{_INSTEAD.get(package, '')}"
            return MissingDependency(f"{who} needs {package}, which is not installed: {remedy}")
        # fsspec wraps the error of an import, Ray that of a worker.
        error = error.__cause__ or getattr(error, "cause", None) or Exception()
    return None


def extra_with(module: str) -> str:
    """The smallest extra that brings a module; "" if none does."""
    distribution = BROUGHT_BY.get(module, module.replace("_", "-"))
    found = [(len(held), extra) for extra, held in _extras().items() if distribution in held]
    return min(found, default=(0, ""))[1]


@functools.cache
def _extras() -> dict[str, set[str]]:
    """Distributions by extra, as the installed metadata of marin says."""
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
    """Not if it is there and breaks for another reason."""
    import importlib.util

    try:
        return importlib.util.find_spec(package) is None
    except (ImportError, ValueError):
        return True
