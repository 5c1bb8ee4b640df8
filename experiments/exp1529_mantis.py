"""Exp 1529: cool the 32B down twice, as Bison and as Mantis.

Question: does trading Dolmino math, whose cached copy holds GSM8K test items, for MegaMath, and the linear
permutation for a Feistel shuffle, repair GSM8K without costing the rest of the suite?
Arms: Bison (contaminated math, linear walk); Mantis (clean math, Feistel, Python added at 174,000).
Start: step 160,000 of the Qwen3 run, optimizer state kept. End: 192,000.
Decision: judge on GSM8K in both prompt formats (a rehearsal: on math text); guard on bits per byte. Detectors: exp1321.
Issue: https://github.com/marin-community/marin/issues/1529
"""

from experiments.marin_32b import GSM8K_IS_BEYOND, Marin32B
from experiments.pipeline import Pipeline, TokenMix
from marin import Experiment, Scale, Shuffle, blend, executor_main
from operators.compare import Compare
from operators.contamination_evidence import ContaminationEvidence
from operators.datasets import catalogue, gsm8k, math
from operators.shuffle_evidence import ShuffleEvidence
from operators.train import Fork, Train, order_of

START, PYTHON_FROM, END = 160_000, 174_000, 192_000  # optimizer steps; theirs begins after half a batch
