"""Microannealings of Marin 8B for issues 784 and 820, which share the control's runs if possible."""

from collections.abc import Mapping

from experiments import suites
from experiments.marin_8b import BEFORE_LAST_DECAY, Marin8B
from experiments.pipeline import Pipeline
from marin import Mixture, Scale, mixture
from operators.datasets import gsm8k, mixtures
from operators.datasets.catalogue import corpus
from operators.microanneal import Microanneal

# Parts of Dolma to try alone. FLAN is not among them; StackExchange and Wikipedia were only in all parts together.
SETS = ("algebraic-stack", "arxiv", "megawika", "open-web-math", "pes2o")
HQ = mixture({f"dolma/{name}": corpus(f"dolma/{name}").weight for name in (*SETS, "stackexchange", "wiki")})
# All experiments share the control's runs, so all allow the same sources to starve in a rehearsal.
EVERY = (mixtures.KESTREL, *(mixtures.microannealing(HQ, flan=share) for share in (0, 0.15, 0.3)))
# In two prompt forms: a gain in one and a loss in the other is no gain.
STOCK = {name: (suites.BASE_8B | suites.OLMES)[name] for name in ("hellaswag", "hellaswag/olmes", "mmlu", "mmlu/olmes")}
REHEARSED = 96 * 1024  # tokens: 96 steps, after 114 of Kestrel
# The base is a checkpoint before Kestrel's last decay. The original forked from Kestrel's end, at the rate before the
# decay. Microanneal cannot express that: it begins at the rate at which its checkpoint was trained.
MARGIN = {Scale.FULL: 0.02, Scale.REHEARSAL: 0.1}  # bits per byte: seeds of a rehearsal spread further
SHORTEST = {Scale.FULL: 0.25, Scale.REHEARSAL: 0.05}  # tokens for each parameter


def microannealed(label: str, scale: Scale, candidates: Mapping[str, Mixture[str]], *, tokens: float) -> Microanneal:
    """Return a microannealing with three seeds an arm, against Kestrel's own mixture.

    tokens: of each run, as published. The verdict goes by bits per byte of GSM8K's answers in both prompt formats. At
    full scale it also goes by bits per byte of the right choices of MMLU and HellaSwag, which are asked in OLMES' form,
    too. Loss by domain is reported apart.
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
