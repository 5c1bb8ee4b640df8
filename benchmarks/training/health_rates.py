"""Count how often the detectors of ``marin status --health`` are right on curves whose truth is known.

    ./py benchmarks/training/health_rates.py [RUNS]

500 runs of 2,000 steps take some minutes.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.training.synthetic import COURSES, courses, leads, rates


def main(runs: int) -> None:
    for persistence in (0.0, 0.5):
        print(f"{runs} runs, correlation of neighbours {persistence:g}")
        for name, rate in rates(runs, persistence, seed=1).items():
            print(f"  {name:24} {rate:.3f}")
    print(f"{runs} whole runs of which the right thing is said")
    for name, rate in courses(COURSES, runs, seed=1).items():
        print(f"  {name:28} {rate:.3f}")
    for lead in (5, 20, 60):
        found = [each for each in leads(runs, lead, seed=1) if each is not None]
        right = sum(each == lead for each in found)
        print(f"norm {lead} steps ahead: median {statistics.median(found):g}, exact in {right} of {runs}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
