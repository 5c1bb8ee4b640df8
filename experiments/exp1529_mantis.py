"""Exp 1529: cool the 32B down twice, as Bison and as Mantis.

Question: does trading Dolmino math, whose cached copy holds GSM8K test items, for MegaMath, and the linear
permutation for a Feistel shuffle, repair GSM8K without costing the rest of the suite?
Arms: Bison (contaminated math, linear walk); Mantis (clean math, Feistel, Python added at 174,000).
Start: step 160,000 of the Qwen3 run, optimizer state kept. End: 192,000.
Decision: judge on GSM8K in both prompt formats; guard on bits per byte of every domain.
Issue: https://github.com/marin-community/marin/issues/1529
"""

from __future__ import annotations

from experiments.datasets import catalogue, gsm8k, held_out
from experiments.marin_32b import BATCH, SIZES, pretrained
from experiments.pipeline import Pipeline
from infra.hardware import tpu
from marin.cli.experiment_main import executor_main
from marin.data.artifacts import Checkpoint, Tokens
from marin.data.mixture import Mixture, Shuffle, Stages, blend
from marin.data.order_spec import OrderSpec
from marin.steps.experiment import Experiment
from marin.steps.resources import CPU
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from marin.training.model import Architecture
from marin.training.schedule import Decay, Schedule
from operators.compare import Compare
from operators.contamination_evidence import ContaminationEvidence
from operators.evaluate import Evaluate
from operators.exposure import Exposure
from operators.shuffle_evidence import ShuffleEvidence
from operators.train import Fork, Train

START, PYTHON_FROM, END = 160_000, 174_000, 192_000  # optimizer steps

# A stage of Mantis in a rehearsal draws 448 or 576 sequences: a share of 0.09 % gets none.
TOO_RARE = {Scale.FULL: (), Scale.REHEARSAL: ("medu_science_qa",)}

# What is mathematics among Mantis' sources, pretraining's included.
MATH = (
    "proofpile_2",
    "finemath-3-plus",
    "megamath/web",
    "megamath/web_pro",
    "megamath/text_code_block",
    "megamath/translated_code",
    "megamath/qa",
)

# Held-out text that bits per byte are measured on.
DOMAINS = {Scale.FULL: ("web", "prose"), Scale.REHEARSAL: ("web", "code", "prose", "reference", "math")}

# nemotron_cc/medium of the full run: sequences in all, drawn per batch of the cooldown, and in one file.
FULL_SIZE = (486_000_000, 1760, 100_000)


def build(scale: Scale) -> Experiment:
    size, suite = SIZES[scale], (gsm8k.test_items(scale),)
    data = Pipeline(scale=scale, suite=suite, tokenizer_sources=tuple(catalogue.PRETRAIN))
    clean = {name: data.tokens(name) for name in (*catalogue.PRETRAIN, *catalogue.MANTIS_HQ_PYTHON)}
    cached = {**clean, "all_math": data.contaminated_tokens("all_math")}

    pretrain_mix = catalogue.mix(catalogue.PRETRAIN, clean)
    parent = pretrained(size, pretrain_mix, data.vocabulary, until=START)

    def cooldown_mix(high_quality: Mixture[ExecutorStep[Tokens]]) -> Mixture[ExecutorStep[Tokens]]:
        return blend((0.7, pretrain_mix), (0.3, high_quality))

    def cooldown(name: str, stages: dict[int, Mixture[ExecutorStep[Tokens]]], shuffle: Shuffle) -> Train:
        """One arm. Everything the arms share is here; all they differ in is an argument."""
        return Train(
            label=name,
            start=Fork(parent),
            first_step=size.step(START),
            end_step=size.step(END),
            model=size.model(Architecture.QWEN3),
            vocabulary=data.vocabulary,
            data=Stages({0: pretrain_mix, **{size.step(step): mix for step, mix in stages.items()}}),
            shuffle=shuffle,
            optimizer=size.optimizer(adamc=True),
            schedule=Schedule(decay=Decay(size.step(START), size.step(END))),
            batch=BATCH.scaled(steps=size.steps, batch=size.batch),
            seq_len=size.seq_len,
            seed=0,
            block=size.block,
            allow_starved=TOO_RARE[scale],
            precision=size.precision,
            recompute=size.recompute,
            checkpoint_every=size.checkpoint_every,
            resources=size.resources,
        )

    bison = cooldown("bison", {START: cooldown_mix(catalogue.mix(catalogue.BISON_HQ, cached))}, Shuffle.LINEAR)
    mantis = cooldown(
        "mantis",
        {
            START: cooldown_mix(catalogue.mix(catalogue.MANTIS_HQ, clean)),
            PYTHON_FROM: cooldown_mix(catalogue.mix(catalogue.MANTIS_HQ_PYTHON, clean)),
        },
        Shuffle.FEISTEL,
    )

    def score(name: str, checkpoint: ExecutorStep[Checkpoint]) -> Evaluate:
        return Evaluate(
            label=name,
            checkpoint=checkpoint,
            tokenizer=data.tokenizer(),
            domains=held_out.domains(scale, DOMAINS[scale]),
            tasks={"gsm": suite[0]},
            references={"gsm_reference": gsm8k.reference_items()},
            window=size.seq_len,
            stride=size.seq_len * 3 // 4,
            resources=tpu("v4-8") if scale is Scale.FULL else CPU,
        )

    def order(arm: Train) -> OrderSpec[ExecutorStep[Tokens]]:
        return OrderSpec(
            stages=arm.data, batch=arm.batch, shuffle=arm.shuffle, seed=arm.seed, block=arm.block,
            seq_len=arm.seq_len, first=arm.first_step, end=arm.end_step, allow_starved=arm.allow_starved,
        )  # fmt: skip

    def exposure(arm: Train, *suspects: ExecutorStep[Tokens]) -> Exposure:
        """Which test items the arm really read in its cooldown, of these sources."""
        return Exposure(
            arm=arm.label, label=arm.label, order=order(arm), suspects=suspects,
            tokenizer=data.tokenizer(), items=suite[0],
        )  # fmt: skip

    scores = {"bison": score("bison", bison), "mantis": score("mantis", mantis)}
    exposures = {
        "bison": exposure(bison, cached["all_math"]),
        "mantis": exposure(mantis, *(clean[name] for name in MATH)),  # decontaminated: must be none
    }
    evidence = {
        "contamination": ContaminationEvidence(
            label="gsm8k", parent=score("parent", parent), arms=scores, clean="mantis", exposure=exposures
        ),
        "shuffle": ShuffleEvidence(
            label="cooldown", arms={"bison": order(bison), "mantis": order(mantis)}, sizes=(FULL_SIZE,)
        ),
    }
    comparison = Compare(
        label="bison-mantis",
        arms=scores,
        baseline="bison",
        evidence=evidence,
        primary=("gsm/lm_eval/bpb", "gsm/olmes/bpb"),
        guard=("bpb/",),
    )
    return Experiment(issue=1529, question=__doc__ or "", results={**scores, "comparison": comparison, **evidence})


if __name__ == "__main__":
    executor_main(build)
