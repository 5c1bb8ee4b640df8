"""The section on how well the detector of correlated batches sees them, from its report."""

from __future__ import annotations

from typing import Any

from marin.report.page.model import Evidence, Finding, Interval, IntervalPlot, Table
from marin.training.health.shuffle import FAR, TRUE_SHUFFLE
from marin.training.health.shuffle_verdict import BEYOND, NAMES


def shuffle_power_section(report: dict[str, Any]) -> Evidence:
    """Verdict, every permutation's seeds source by source, and the shares that are flagged."""
    found: dict[str, dict[str, Any]] = report["sources"]
    sources = dict(sorted(found.items(), key=lambda source: -source[1]["length"]))
    kinds = [*map(str.lower, NAMES), TRUE_SHUFFLE]
    rows = [
        Interval(
            label=_named(kind),
            value=_within(each["walks"][kind]["z"][2]),
            low=_within(each["walks"][kind]["z"][0]),
            high=_within(each["walks"][kind]["z"][-1]),
            arm=kind,
            group=f"{name}: {each['length']:,} sequences",
        )
        for name, each in sources.items()
        for kind in kinds
    ]
    return Evidence(
        title="Shuffle: which permutations does the detector see?",
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        paragraphs=[
            f"Each source lies in files of sequences that resemble each other. {report['seeds']} seeds of each "
            f"permutation draw {report['batches']} batches from it; the detector compares how many pairs of a batch "
            "are of one file with true shuffles, other than those that are judged here. No training, only order."
        ],
        plots=[
            IntervalPlot(
                title="Pairs of one file in a batch, over seeds",
                x_label="← too even, too clumped → (standard deviations of true shuffles)",
                rows=rows,
                digits=1,
                ranges=True,
                band=FAR,
                note="Dot: median; bar: from lowest to highest seed. Beyond the band the detector raises the alarm.",
            )
        ],
        tables=[
            Table(
                title="Seeds that are flagged",
                columns=["source", "sequences", "a batch", "a file", *map(_named, kinds)],
                rows=[
                    [
                        name,
                        f"{each['length']:,}",
                        f"{each['drawn']:,}",
                        f"{each['file']:,}",
                        *(_share(each["walks"][kind]) for kind in kinds),
                    ]
                    for name, each in sources.items()
                ],
                note="Of true shuffles: false alarms.",
            )
        ],
    )


def _share(walk: dict[str, float]) -> str:
    """ "16 % clumped, 66 % even"."""
    told = [f"{100 * walk[word]:.1f} % {word}" for word in ("clumped", "even") if walk[word]]
    return ", ".join(told) or "none"


def _within(z: float) -> float:
    return max(-BEYOND, min(BEYOND, z))


def _named(kind: str) -> str:
    return NAMES.get(kind.upper(), kind)
