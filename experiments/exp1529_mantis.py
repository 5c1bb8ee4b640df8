"""Exp 1529: cool the 32B down twice, as Bison and as Mantis.

Question: the cached copy of Dolmino math holds GSM8K test items. Do MegaMath in its place, and a Feistel shuffle in
place of the linear permutation, repair GSM8K without harming the rest of the suite?
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

START, PYTHON_FROM, END = 160_000, 174_000, 192_000  # optimizer steps; the original begins after a short batch
MATH = ("proofpile_2", "finemath-3-plus", *math.MEGAMATH)  # Mantis' mathematics, pretraining's included
# arXiv in Markdown (2.74 B tokens by its card) was weighted as peS2o's 58.1 B: Bison reads it 29 times, Mantis 17.4.
MOST_EPOCHS = {Scale.FULL: 30.0}
JUDGED = {Scale.REHEARSAL: ("bpb/math",), Scale.FULL: ("gsm/lm_eval/bpb", "gsm/olmes/bpb")}
MEDIUM_CRAWL = (486_000_000, 1760, 100_000)  # nemotron_cc/medium: sequences, drawn per batch, in one file


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    data = Pipeline(scale=scale, decontaminate_against=(items,))
    run, pretraining = Marin32B(data), data.mix(catalogue.PRETRAIN)
    parent = run.pretrained(pretraining, until=START)

    def cooldown(name: str, shuffle: Shuffle, high_quality: dict[int, TokenMix]) -> Train:
        """Return one arm: 70 % pretraining data, 30 % high quality, decayed to a tenth. Only the arguments differ."""
        return run.train(
            name,
            steps=(START, END),
            start=Fork(parent),
            data={0: pretraining, **{at: blend((0.7, pretraining), (0.3, mix)) for at, mix in high_quality.items()}},
            shuffle=shuffle,
            cooldown=True,
            allow_starved=("medu_science_qa",) if scale is Scale.REHEARSAL else (),  # .09 % of 448 sequences is none
            max_epochs=MOST_EPOCHS.get(scale, 4.0),
        )

    bison = cooldown("bison", Shuffle.LINEAR, {START: data.mix(catalogue.BISON_HQ, as_cached=("all_math",))})
    mantis_hq = {START: data.mix(catalogue.MANTIS_HQ), PYTHON_FROM: data.mix(catalogue.MANTIS_HQ_PYTHON)}
    mantis = cooldown("mantis", Shuffle.FEISTEL, mantis_hq)
    scores = {arm.label: run.score(arm.label, arm, items) for arm in (bison, mantis)}
    evidence = {
        "contamination": ContaminationEvidence(
            label="gsm8k",
            parent=run.score("parent", parent, items),
            arms=scores,
            clean="mantis",
            exposure={
                "bison": run.exposure(bison, items, (data.cached("all_math"),)),
                "mantis": run.exposure(mantis, items, tuple(map(data.tokens, MATH))),  # decontaminated: must be none
            },
        ),
        "shuffle": ShuffleEvidence(
            label="cooldown", arms={"bison": order_of(bison), "mantis": order_of(mantis)}, sizes=(MEDIUM_CRAWL,)
        ),
    }
    verdict = Compare(
        label="bison-mantis",
        arms=scores,
        baseline="bison",
        evidence=evidence,
        primary=JUDGED[scale],
        guard=("bpb/",),
        published=("OLMo 2 32B Base", "Qwen 2.5 32B Base", "Gemma 3 27B PT") if scale is Scale.FULL else (),
        beyond=GSM8K_IS_BEYOND.get(scale, ""),
    )
    return Experiment(issue=1529, question=__doc__, results={**scores, "comparison": verdict, **evidence})


if __name__ == "__main__":
    executor_main(build)
