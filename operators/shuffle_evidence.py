"""ShuffleEvidence: test for each arm whether its batches look like independent draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marin import Context, ExecutorStep, Report, Tokens
from marin.data.order_spec import OrderSpec
from marin.errors import BadField


class ShuffleEvidence(ExecutorStep[Report], op="shuffle-evidence", version=3):
    """Measures of correlated batches for each arm's data order, beside the values that chance alone would give.

    arms: the data order of each arm (``order_of(run)``). sizes: sources to walk with many seeds, such as the full
    run's; each is (sequences, sequences drawn per batch, sequences that resemble each other).
    batches: the number to measure of each arm. simulations: the number of runs of independent draws to compare with.
    seeds: the number of other seeds to try with each permutation; 0 for none.
    """

    arms: Mapping[str, OrderSpec[ExecutorStep[Tokens]]]
    sizes: tuple[tuple[int, int, int], ...] = ()
    batches: int = 64
    simulations: int = 200
    seeds: int = 100
    seed: int = 0

    def check(self) -> None:
        if not self.arms:
            raise BadField("ShuffleEvidence.arms is empty; give the order of at least one arm")
        if self.batches < 2 or self.simulations < 20 or self.seeds < 0:
            raise BadField(
                f"ShuffleEvidence: batches {self.batches}, simulations {self.simulations}, seeds {self.seeds}; "
                "wanted at least 2, 20 and 0"
            )

    def run(self, ctx: Context) -> Report:
        import json
        from dataclasses import asdict

        from marin.data.token_store import TokenStore
        from marin.training.health.batches import MEASURES
        from marin.training.health.permutation_spread import spread_over_seeds, spread_sentence
        from marin.training.health.shuffle import headline, rounded, run_evidence
        from marin.training.health.shuffle_verdict import shuffle_verdict

        arms: dict[str, dict[str, Any]] = {}
        lines: list[str] = []
        for done, (name, spec) in enumerate(sorted(self.arms.items())):
            ctx.progress(done, len(self.arms), "arms", name)
            stores = {source: TokenStore.open(ctx[source].directory) for source in spec.stages.sources}
            order = spec.order(stores)
            walked = [stores[source] for source in order.sources]
            evidence = run_evidence(
                order,
                spec.first,
                spec.end,
                lambda source, sequences, walked=walked, seq_len=spec.seq_len: walked[source].document_of(
                    sequences * seq_len
                ),
                batches=self.batches,
                simulations=self.simulations,
                seeds=self.seeds,
                seed=self.seed,
            )
            arms[name] = evidence
            lines.append(headline(name, evidence))
        spreads = [spread_over_seeds(*size, seed=self.seed) for size in self.sizes]
        lines += [spread_sentence(spread) for spread in spreads]
        finding, verdict = shuffle_verdict(arms)
        report = {
            "arms": arms,
            "measures": dict(MEASURES),
            "spread": [rounded(asdict(spread)) for spread in spreads],
            "finding": finding,
            "verdict": verdict,
        }
        ctx.out.write_text("report.json", json.dumps(report, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=lines)
