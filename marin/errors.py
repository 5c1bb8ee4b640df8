"""Every error that marin raises on purpose.

MarinError
├── ExperimentError          what the experiment file says cannot be meant
│   ├── UnencodableValue     a field has no canonical encoding, so it cannot be part of an identity
│   ├── BadField             a field's value makes no sense (also: unknown or missing fields)
│   ├── UnseenCode           a step's code finds code in a way that no analysis follows
│   ├── PatchedCode          this process runs other code than the files say
│   ├── CyclicSteps          a step depends on itself
│   └── LabelClash           two different steps claim one label
├── PlanError                the experiment and the store do not fit together; nothing was started
│   ├── Drift                a committed output was made by other code than today's
│   ├── Revoked              an output that is needed was declared bad, or was made from one that was
│   ├── Outdated             what the plan relies on was made again or taken away since
│   ├── OtherBytes           a store to mirror to holds other bytes under the same identity
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
├── InputError               outside data is missing, garbled or not what was pinned
│   ├── InputChanged         outside data changed since the plan was made, or while it was read
│   ├── MissingRevision      a dataset's pinned revision does not exist
│   ├── TruncatedShard       a shard ends early or does not decompress
│   └── GarbledDocument      a document that cannot be what its stage expects
├── GateError                a silent success, made loud
│   ├── StarvedSource        a mixture source would get no sample
│   ├── TooManyEpochs        a source would be repeated beyond its bound
│   ├── TokenizerMismatch    token stores of different tokenizers in one mixture
│   ├── OverRemoval          a filter or dedup removed more of a source than its bound
│   ├── UnreadableCheckpoint a checkpoint to resume from cannot be read (never start from step 0 instead)
│   ├── RevokedBytes         a step made the very bytes that were revoked
│   ├── NonFiniteLoss        a loss, gradient, update or weight became NaN or infinite
│   ├── DifferentRebuild     a deleted output came out different when it was made again
│   └── NothingScored        an evaluation scored no item
├── NoCluster                Ray did not start here, or the cluster that was named does not answer
│   └── ClusterLost          the cluster that steps ran on has died
└── MissingDependency        a package or program that is needed is not installed

Every message says which thing, the value found, what was wanted and what to do next.
"""

from __future__ import annotations


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


class Outdated(PlanError): ...


class OtherBytes(PlanError): ...


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


class InputError(MarinError): ...


class InputChanged(InputError): ...


class MissingRevision(InputError): ...


class TruncatedShard(InputError): ...


class GarbledDocument(InputError): ...


class GateError(MarinError): ...


class StarvedSource(GateError): ...


class TooManyEpochs(GateError): ...


class TokenizerMismatch(GateError): ...


class OverRemoval(GateError): ...


class UnreadableCheckpoint(GateError): ...


class RevokedBytes(GateError): ...


class DifferentRebuild(GateError): ...


class NonFiniteLoss(GateError): ...


class NothingScored(GateError): ...


class NoCluster(MarinError): ...


class ClusterLost(NoCluster): ...


class MissingDependency(MarinError): ...
