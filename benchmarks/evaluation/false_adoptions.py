"""Count how often a microannealing adopts a candidate that changes nothing, and one that is better.

    ./py benchmarks/evaluation/false_adoptions.py [REPETITIONS]

2,000 repetitions of each row take two minutes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.evaluation.synthetic import FOUND, NULLS, adopted


def main(repetitions: int) -> None:
    print(f"| {repetitions:,} experiments each | adopted, % |\n|---|---:|")
    for name, made in {**NULLS, **FOUND}.items():
        print(f"| {name} | {100 * adopted(made, repetitions):.1f} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
