"""Exp 1321: when do detectors see contamination and bad shuffles, and how often do they raise false alarms?

Question: how often must a run read a test item until each detector sees the item? Which permutations can the detector
of correlated batches tell from a true shuffle?
Arms: a few GSM8K test items in OLMES' format, mixed into a run 0, 1, 4, 16 and 64 times, in three seeds each.
Without training: hundreds of walks of each permutation over sources whose files hold similar sequences.
Start: one small pretrained checkpoint, and its cooldown.
Decision: a detector sees a dose if every seed is flagged. A flag at dose 0 is a false alarm.
Issue: https://github.com/marin-community/marin/issues/1321
"""

from experiments.dosed import Dosed
from experiments.pipeline import Pipeline
from marin import Experiment, Scale, executor_main
from operators.datasets import catalogue, gsm8k
from operators.dose_response import DoseResponse
from operators.shuffle_power import ShufflePower, Source

DOSES, SEEDS = (0, 1, 4, 16, 64), (0, 1, 2)
SOURCES = {
    "a crawl": Source(length=486_000_000, drawn=1760, file=100_000),  # nemotron_cc/medium in a batch of the 32B
    "a large corpus": Source(length=10_000_000, drawn=400, file=10_000),
    "a bundle": Source(length=200_000, drawn=64, file=2_000),
    "a rehearsal": Source(length=2_000, drawn=16, file=40),
}


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    dosed = Dosed(data, items, data.mix(catalogue.PRETRAIN))
    runs = {dose: tuple(dosed.run(dose, seed) for seed in SEEDS) for dose in DOSES}
    doses = DoseResponse(
        label="gsm8k",
        parent=dosed.score("dose-parent", dosed.parent()),
        doses={dose: tuple(dosed.score(run.label, run) for run in of_dose) for dose, of_dose in runs.items()},
        exposure={dose: tuple(map(dosed.exposure, of_dose)) for dose, of_dose in runs.items() if dose},
    )
    shuffles = ShufflePower(label="files", sources=SOURCES)
    return Experiment(issue=1321, question=__doc__, results={"doses": doses, "shuffles": shuffles})


if __name__ == "__main__":
    executor_main(build)
