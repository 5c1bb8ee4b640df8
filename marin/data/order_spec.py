"""OrderSpec: the order of a run's data, as a field of a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from marin.data.mixture import MAX_BLOCK, BatchSchedule, Shuffle, Stages, source_name
from marin.errors import BadField
from marin.steps.value import since, value

# Experiments only build specs. Only run() needs DataOrder and TokenStore, which import NumPy.
if TYPE_CHECKING:
    from marin.data.order import DataOrder
    from marin.data.token_store import TokenStore


@value("order_spec")
class OrderSpec[S]:
    """The order of a run's data as a field: everything but the lengths of the stores.

    first, end: optimizer steps, the end excluded. block: number of sequences in which a mixture is exact.
    max_epochs: most passes over a source by the end (4: little is lost up to there, Muennighoff 2023).
    allow_starved: names of sources that may get no sequence at this size.
    lengths: tokens of a sequence by the step from which they hold, if an earlier run that this run continues had
    another length than seq_len.
    """

    stages: Stages[S]
    batch: BatchSchedule
    shuffle: Shuffle
    seed: int
    block: int
    seq_len: int
    first: int
    end: int
    max_epochs: float = 4.0
    allow_starved: tuple[str, ...] = ()
    lengths: Mapping[int, int] | None = since(2, default=None)

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end:
            raise BadField(f"order: first is step {self.first} and end {self.end}; wanted 0 ≤ first < end")
        if self.seq_len < 1 or not 1 <= self.block <= MAX_BLOCK:
            raise BadField(
                f"order: seq_len is {self.seq_len} and block {self.block}; wanted seq_len ≥ 1, block 1 … {MAX_BLOCK}"
            )
        if not self.max_epochs > 0:
            raise BadField(f"order: max_epochs is {self.max_epochs}, wanted a positive number")

    def order(self, stores: Mapping[S, TokenStore]) -> DataOrder[S]:
        """Return the order over these stores, after the gates. The order depends on their content, not their names.

        Raises TokenizerMismatch, StarvedSource, TooManyEpochs and the errors of DataOrder.
        """
        from marin.data.order import DataOrder
        from marin.data.token_store import one_tokenizer

        held = {source: stores[source] for source in self.stages.sources if source in stores}
        one_tokenizer({source_name(source): store.meta.tokenizer for source, store in held.items()})
        order = DataOrder(
            self.stages.resolved({source: store.meta.tokens for source, store in held.items()}),
            {source: store.sequences(self.seq_len) for source, store in held.items()},
            self.batch,
            self.shuffle,
            self.seed,
            self.block,
            {source: store.meta.sha256 for source, store in held.items()},
            {step: length / self.seq_len for step, length in (self.lengths or {0: self.seq_len}).items()},
        )
        order.check(self.first, self.end, max_epochs=self.max_epochs, allow_starved=self.allow_starved)
        return order


class Training[S](Protocol):
    """A step that trains on its own batches."""

    @property
    def data(self) -> Stages[S]: ...
    @property
    def batch(self) -> BatchSchedule: ...
    @property
    def shuffle(self) -> Shuffle: ...
    @property
    def seed(self) -> int: ...
    @property
    def block(self) -> int: ...
    @property
    def seq_len(self) -> int: ...
    @property
    def first_step(self) -> int: ...
    @property
    def end_step(self) -> int: ...
    @property
    def max_epochs(self) -> float: ...
    @property
    def allow_starved(self) -> tuple[str, ...]: ...
    def lengths(self) -> dict[int, int]: ...


def order_of[S](run: Training[S]) -> OrderSpec[S]:
    """Return the order of a run's own data, for evidence about the run."""
    return OrderSpec(
        stages=run.data,
        batch=run.batch,
        shuffle=run.shuffle,
        seed=run.seed,
        block=run.block,
        seq_len=run.seq_len,
        first=run.first_step,
        end=run.end_step,
        max_epochs=run.max_epochs,
        allow_starved=run.allow_starved,
        lengths=lengths if {*(lengths := run.lengths()).values()} != {run.seq_len} else None,
    )
