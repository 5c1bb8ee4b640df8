"""Exposure: count how often a run read each evaluation item."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, ExecutorStep, Items, Report, Tokenizer, Tokens
from marin.data.mixture import source_name
from marin.data.order_spec import OrderSpec
from marin.errors import BadField
from marin.text.overlap_rule import Overlap

if TYPE_CHECKING:
    from marin.data.order import DataOrder
    from marin.data.tokenizer import LoadedTokenizer
    from marin.evaluation.exposure import Count
    from marin.text.overlap import OverlapIndex

    # Order, stores by number of their source, tokenizer, items, rule, tokens in a sequence, optimizer steps.
    type Work = tuple[DataOrder[Any], dict[int, Directory], Directory, Directory, Overlap, int, range]

# The number of tasks: enough for a large cluster. Each task carries the order, about 100 kB.
PIECES = 256


class Exposure(ExecutorStep[Report], op="exposure", version=1):
    """The items that a run read in the steps of its order, each with its count, in ``exposure.json``.

    arm: the run's name in sentences. order: the training's data order (``order_of(run)``). suspects: the sources to
    search, () for all. Name few sources of a long run: the search reads 9 MB of text a second and core. A hit may be
    partial; marin.evaluation.exposure says which hits count as read.
    """

    arm: str
    order: OrderSpec[ExecutorStep[Tokens]]
    tokenizer: ExecutorStep[Tokenizer]
    items: ExecutorStep[Items]
    suspects: tuple[ExecutorStep[Tokens], ...] = ()
    rule: Overlap = Overlap()

    def check(self) -> None:
        for suspect in self.suspects:
            if suspect not in self.order.stages.sources:
                raise BadField(
                    f"Exposure.suspects holds {suspect.name}, which the order of {self.arm} never draws from; wanted "
                    f"some of {', '.join(source_name(source) for source in self.order.stages.sources)}"
                )

    def run(self, ctx: Context) -> Report:
        import json

        from marin.data.token_store import TokenStore
        from marin.evaluation.exposure import total, write_reads

        stores = {source: TokenStore.open(ctx[source].directory) for source in self.order.stages.sources}
        order = self.order.order(stores)
        suspects = self.suspects or order.sources
        looked = {order.sources.index(source): ctx[source].directory for source in suspects}
        tokenizer, items = ctx[self.tokenizer].directory, ctx[self.items].directory
        steps = range(self.order.first, self.order.end)
        size = -(-len(steps) // PIECES)
        work: list[Work] = [
            (order, looked, tokenizer, items, self.rule, self.order.seq_len, steps[start : start + size])
            for start in range(0, len(steps), size)
        ]
        reads = total(ctx.map(count_steps, work), order, looked, steps, opened(tokenizer, items, self.rule)[1])
        write_reads(ctx.out, reads)
        report = {"arm": self.arm, **reads.summary()}
        ctx.out.write_text("report.json", json.dumps(report, indent=1, sort_keys=True) + "\n")
        return Report(headline=[f"{self.arm} {reads.sentence}"])


def count_steps(work: Work) -> Count:
    """Count the items in the batches of some steps. Raises TokenizerMismatch for stores of another tokenizer."""
    from marin.data.token_store import TokenStore, one_tokenizer
    from marin.evaluation.exposure import count_reads

    order, looked, tokenizer, items, rule, seq_len, steps = work
    loaded, index = opened(tokenizer, items, rule)
    stores = {number: TokenStore.open(directory) for number, directory in looked.items()}
    one_tokenizer(
        {"items": loaded.digest, **{order.names[number]: store.meta.tokenizer for number, store in stores.items()}}
    )
    return count_reads(order, stores, steps, seq_len, index, loaded.decode)


# One process runs many tasks of one step.
@lru_cache(maxsize=2)
def opened(tokenizer: Directory, items: Directory, rule: Overlap) -> tuple[LoadedTokenizer, OverlapIndex]:
    from marin.data.tokenizer import load_tokenizer
    from marin.evaluation.items import read_items
    from marin.text.overlap import OverlapIndex

    return load_tokenizer(tokenizer), OverlapIndex(read_items(items), rule)
