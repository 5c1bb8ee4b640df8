"""Microannealings of Marin 8B: what issues 784 and 820 share, so that they share the control's runs where they can."""

from collections.abc import Mapping

from experiments import suites
from experiments.marin_8b import BEFORE_LAST_DECAY, Marin8B
from experiments.pipeline import Pipeline
from marin import Mixture, Scale, mixture
from operators.datasets import gsm8k, mixtures
from operators.datasets.catalogue import corpus
from operators.microanneal import Microanneal

# Of Dolma. FLAN is none of them, and StackExchange and Wikipedia were in the whole only.
SETS = ("algebraic-stack", "arxiv", "megawika", "open-web-math", "pes2o")
HQ = mixture({f"dolma/{name}": corpus(f"dolma/{name}").weight for name in (*SETS, "stackexchange", "wiki")})
# The control's runs are the same in all experiments, so the sources of which a rehearsal may hold none are, too.
EVERY = (mixtures.KESTREL, *(mixtures.microannealing(HQ, flan=share) for share in (0, 0.15, 0.3)))
# In two prompt forms: a gain in one and a loss in the other is no gain.
STOCK = {name: (suites.BASE_8B | suites.OLMES)[name] for name in ("hellaswag", "hellaswag/olmes", "mmlu", "mmlu/olmes")}
REHEARSED = 96 * 1024  # tokens: 96 steps, after 114 of Kestrel
# A checkpoint from before Kestrel's last decay. The original forked from its end, at the rate of before: nobody can
# say that here, since a microannealing begins at the rate that its checkpoint was trained at.
MARGIN = {Scale.FULL: 0.02, Scale.REHEARSAL: 0.1}  # bits per byte: seeds of a rehearsal spread further
SHORTEST = {Scale.FULL: 0.25, Scale.REHEARSAL: 0.05}  # tokens a parameter


def microannealed(label: str, scale: Scale, candidates: Mapping[str, Mixture[str]], *, tokens: float) -> Microanneal:
    """Three seeds an arm against Kestrel's own mixture; tokens: of each run, as published.

    Decided by bits per byte of GSM8K's answers in both prompt formats and, at full scale, of the right choices of MMLU
    and HellaSwag, which are asked in OLMES' form, too; loss by domain is reported apart.
    """
    items = gsm8k.test_items(scale)
    run = Marin8B(Pipeline(scale=scale, decontaminate_against=(items,)))
    base = run.at(run.kestrel(), BEFORE_LAST_DECAY)
    scores = (run.score("8b-kestrel", base, items),)
    stock = (run.score_suite("8b-kestrel", base, STOCK),) if scale is Scale.FULL else ()
    return Microanneal(
        label=label,
        base=base,
        control=run.mix(mixtures.KESTREL),
        candidates={name: run.mix(shares) for name, shares in candidates.items()},
        tokens=REHEARSED if scale is Scale.REHEARSAL else int(tokens),
        evaluations=(*scores, *stock),
        primary=("gsm/lm_eval/bpb", "gsm/olmes/bpb", *(("mmlu/lm_eval/bpb", "hellaswag/lm_eval/bpb") if stock else ())),
        margin=MARGIN[scale],
        max_epochs=run.size.max_epochs,
        allow_starved=tuple(sorted({name for shares in EVERY for name in run.rare(shares)})),
        shortest=SHORTEST[scale],
    )
