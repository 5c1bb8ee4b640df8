"""ShufflePower: measure which permutations the detector of correlated batches sees, and its false alarms."""

from __future__ import annotations

from collections.abc import Mapping

from marin import Context, ExecutorStep, Report, value
from marin.errors import BadField


@value("shuffle_power/source")
class Source:
    """A source to walk. length: its sequences. drawn: sequences that a batch draws. file: sequences in one file."""

    length: int
    drawn: int
    file: int


class ShufflePower(ExecutorStep[Report], op="shuffle-power", version=1):
    """The share of seeds that the detector flags, by source, for each permutation and for true shuffles.

    batches: the number of consecutive batches by which a seed is judged.
    """

    sources: Mapping[str, Source]
    seeds: int = 300
    batches: int = 8
    seed: int = 0

    def check(self) -> None:
        if not self.sources:
            raise BadField("ShufflePower.sources is empty; give at least one")
        if self.seeds < 20 or self.batches < 1:
            raise BadField(f"ShufflePower: seeds {self.seeds}, batches {self.batches}; wanted at least 20 and 1")
        for name, each in self.sources.items():
            if each.drawn < 2 or not 1 < each.file < each.length or each.drawn * self.batches > each.length:
                raise BadField(
                    f"ShufflePower.sources[{name!r}]: {self.batches} batches of {each.drawn} from {each.length} "
                    f"sequences in files of {each.file}; wanted at least 2 draws in a batch, files of more than one "
                    "sequence and fewer than all, and batches that fit into one epoch"
                )

    def run(self, ctx: Context) -> Report:
        import json
        from typing import Any

        from marin.training.health.shuffle_power import power_verdict, seen_by_seed

        walks: dict[str, dict[str, Any]] = {}
        for done, (name, each) in enumerate(sorted(self.sources.items(), key=lambda source: -source[1].length)):
            ctx.progress(done, len(self.sources), "sources", name)
            walks[name] = seen_by_seed(
                each.length, each.drawn, each.file, seeds=self.seeds, batches=self.batches, seed=self.seed
            )
        finding, verdict = power_verdict(walks, self.seeds)
        report = {
            "seeds": self.seeds,
            "batches": self.batches,
            "sources": {
                name: {"length": each.length, "drawn": each.drawn, "file": each.file, "walks": walks[name]}
                for name, each in self.sources.items()
            },
            "finding": finding,
            "verdict": verdict,
        }
        ctx.out.write_text("report.json", json.dumps(report, indent=1, sort_keys=True, allow_nan=False) + "\n")
        return Report(headline=[verdict])
