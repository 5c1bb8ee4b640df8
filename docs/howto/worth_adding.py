"""Exp 12: is our text worth adding to a published model?

Question: does a short cooldown of Qwen3 0.6B on ordinary text answer questions better with 30 % of our text in it?
Arms: ordinary text (the control), and ordinary text with ours; three seeds each.
Decision: the verdict, from bits per byte of the right answers.
"""

from marin import Experiment, Scale, blend, executor_main, mixture
from marin.training.model import Architecture, ModelShape
from operators.datasets import gsm8k
from operators.decontaminate import Decontaminate
from operators.evaluate import Evaluate
from operators.microanneal import Microanneal
from operators.pretrained_model import PretrainedModel
from operators.text_files import TextFiles
from operators.tokenize import Tokenize

# printed by: marin new model hf:Qwen/Qwen3-0.6B-Base@da87bfb608c14b7cf20ba1ce41287e8de496c0cd
MODEL = PretrainedModel(
    repo="Qwen/Qwen3-0.6B-Base",
    revision="da87bfb608c14b7cf20ba1ce41287e8de496c0cd",
    shape=ModelShape(
        architecture=Architecture.QWEN3,
        hidden=1_024,
        intermediate=3_072,
        layers=28,
        heads=16,
        kv_heads=8,
        seq_len=32_768,
        head_width=128,
        rope_theta=1000000.0,
        norm_eps=1e-06,
        tied_embeddings=True,
    ),
    vocabulary=151_936,
)
TOKENS, SEQ_LEN = {Scale.REHEARSAL: 6 * 16 * 32, Scale.FULL: 600_000_000}, {Scale.REHEARSAL: 32, Scale.FULL: 4_096}


def build(scale: Scale) -> Experiment:
    items = gsm8k.test_items(scale)
    text = {name: TextFiles(path=f"/data/{name}", label=name) for name in ("web", "new")}
    clean = {name: Decontaminate(documents=text[name], against=(items,), label=name) for name in text}
    web, new = (Tokenize(documents=clean[name], tokenizer=MODEL.tokenizer, label=name) for name in text)
    usual = mixture({web: 1.0})
    scores = Evaluate(
        checkpoint=MODEL,
        tokenizer=MODEL.tokenizer,
        tasks={"gsm": items},
        window={Scale.REHEARSAL: 32, Scale.FULL: 1_024}[scale],
        stride={Scale.REHEARSAL: 24, Scale.FULL: 768}[scale],
        label="published",
    )
    annealed = Microanneal(
        base=MODEL,
        peak_lr=1e-4,
        batch=16,
        seq_len=SEQ_LEN[scale],
        control=usual,
        candidates={"new": blend((0.7, usual), (0.3, mixture({new: 1.0})))},
        tokens=TOKENS[scale],
        evaluations=(scores,),
        primary=("gsm/olmes/bpb",),
        seeds=3,
        margin=0.01,
        max_epochs=100,
        shortest={Scale.REHEARSAL: 0.0, Scale.FULL: 0.25}[scale],
    )
    results = {"published": scores, "verdict": annealed.verdict}
    return Experiment(issue=12, repository="", question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build)
