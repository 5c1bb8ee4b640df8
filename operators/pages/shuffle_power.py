"""Write the section on the power of the detector of correlated batches."""

from __future__ import annotations

import json
from typing import Any

from marin.report.section import Column, Finding, Heading, Interval, Page, Row, Section, Table, Text
from marin.store.files.directory import Directory
from marin.training.health.shuffle import FAR, TRUE_SHUFFLE
from marin.training.health.shuffle_verdict import BEYOND, NAMES
from operators.shuffle_power import ShufflePower


def section(step: ShufflePower, output: Directory, page: Page) -> Section:
    report = json.loads(output.read_text("report.json"))
    found: dict[str, dict[str, Any]] = report["sources"]
    kinds = [*map(str.lower, NAMES), TRUE_SHUFFLE]
    rows: list[Row] = []
    for name, each in sorted(found.items(), key=lambda source: -source[1]["length"]):
        drawn = f"{each['drawn']:,} a batch, files of {each['file']:,}"
        rows.append(Heading(f"{name}: {each['length']:,} sequences, {drawn}"))
        rows += [[_named(kind), _over_seeds(each["walks"][kind]), _share(each["walks"][kind])] for kind in kinds]
    first, _, rest = report["verdict"].partition(". ")
    return Section(
        title="Shuffle: which permutations does the detector see?",
        answer=f"{first.removesuffix('.')}.",
        more=[rest] if rest else [],
        finding=Finding(report["finding"]),
        verdict=report["verdict"],
        blocks=[
            Text(
                f"Each source consists of files of sequences that resemble each other. {report['seeds']} seeds of each "
                f"permutation draw {report['batches']} batches from it. The detector counts the pairs of a batch that "
                "come from one file, and compares with true shuffles other than the ones judged here. No model is "
                "trained; only the order counts."
            ),
            Table(
                title="Pairs of one file in a batch, over seeds",
                columns=[
                    Column("permutation"),
                    Column(
                        "← too even, too clumped → (standard deviations of true shuffles)",
                        digits=1,
                        ranges=True,
                        band=FAR,
                    ),
                    Column("seeds that are flagged"),
                ],
                rows=rows,
                note="Dot: median; bar: from lowest to highest seed. Beyond the band the detector raises the alarm; "
                "for true shuffles this is a false alarm.",
            ),
        ],
    )


def _over_seeds(walk: dict[str, Any]) -> Interval:
    low, median, high = (max(-BEYOND, min(BEYOND, walk["z"][at])) for at in (0, 2, -1))
    return Interval(value=median, low=low, high=high)


def _share(walk: dict[str, float]) -> str:
    """ "16 % clumped, 66 % even"."""
    told = [f"{100 * walk[word]:.1f} % {word}" for word in ("clumped", "even") if walk[word]]
    return ", ".join(told) or "none"


def _named(kind: str) -> str:
    return NAMES.get(kind.upper(), kind)
