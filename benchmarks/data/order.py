"""Time of one 32B batch from the data order: ``python benchmarks/data/order.py``.

8192 sequences of 23 sources (the Mantis cooldown) near step 191,000, of stores with 1e9 sequences.
"""

from __future__ import annotations

import time

from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order import DataOrder

PERCENT = (21.49, 17.29, 9.79, 5.81, 5.24, 4.46, 3.99, 5.57, 4.54, 4.24, 4.54, 1.27, 0.61, 0.59, 2.66, 2.66)
PERCENT += (1.34, 1.34, 1.59, 0.35, 0.29, 0.29, 0.09)
BATCH = BatchSchedule({0: 8192, 18_500: 7680, 21_010: 8192})
BATCHES = 100


def main() -> None:
    weights = {f"source-{i:02d}": percent for i, percent in enumerate(PERCENT)}
    pretraining = mixture(dict(list(weights.items())[:9]))
    lengths = {name: int(1e7 * percent) + 7 for name, percent in weights.items()}
    milliseconds: dict[Shuffle, float] = {}
    for shuffle in Shuffle:
        start = time.perf_counter()
        order = DataOrder(Stages({0: pretraining, 160_000: mixture(weights)}), lengths, BATCH, shuffle, 0, 2048)
        built = time.perf_counter()
        order.batch_at(191_000)
        first = time.perf_counter()
        for step in range(170_000, 170_000 + BATCHES):
            order.batch_at(step)
        milliseconds[shuffle] = (time.perf_counter() - first) / BATCHES * 1e3
        print(
            f"{shuffle.name:8} built in {(built - start) * 1e3:.1f} ms, first batch {(first - built) * 1e3:.1f} ms, "
            f"then {milliseconds[shuffle] * 1e3:.0f} us a batch ({milliseconds[shuffle] * 1e6 / 8192:.0f} ns each)"
        )
    for shuffle in (Shuffle.FEISTEL, Shuffle.SPLITMIX):
        print(f"{shuffle.name} / LINEAR: {milliseconds[shuffle] / milliseconds[Shuffle.LINEAR]:.2f}")


if __name__ == "__main__":
    main()
