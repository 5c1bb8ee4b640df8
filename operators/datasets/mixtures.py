"""The mixtures of Marin 8B and 32B, by names of the catalogue: shares of the data of each phase.

The weights come from the runs' own code (experiments/tootsie of marin-community/marin), each in its original unit.
tests/operators/datasets reproduces every printed row of both retrospectives.
``Pipeline.mix(JELLYFISH.weights)`` makes token stores of the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

from marin import Interpolation, Mixture, Stages, blend, mixture, nested
from operators.datasets.catalogue import BISON_HQ, MANTIS_HQ, MANTIS_HQ_PYTHON, PRETRAIN, corpus
from operators.datasets.chats import SETS

NEMOTRON = mixture({name: weight for name, weight in PRETRAIN.items() if name.startswith("nemotron_cc/")})
_NEMOTRON_TIB = fsum(weight for name, weight in PRETRAIN.items() if name.startswith("nemotron_cc/"))


def _of(*names: str, times: float = 1) -> dict[str, float]:
    return {name: times * corpus(name).weight for name in names}


def _single(name: str) -> Mixture[str]:
    return mixture({name: 1.0})


# Marin 8B, issue 600: the optimizer steps at which its phases begin.
JELLYFISH_FROM, PHOENIX_FROM, PHOENIX_ALONE_FROM, STARLING_FROM = 740_500, 820_000, 822_000, 1_320_000

_KESTREL_WEIGHTS = _of("dclm_baseline", "starcoderdata", "proofpile_2")
KESTREL = mixture(_KESTREL_WEIGHTS)  # and Ocelot

_DOLMA = ("pes2o", "arxiv", "stackexchange", "algebraic-stack", "open-web-math", "megawika", "wiki")
_JELLYFISH_HQ = mixture({**_of(*(f"dolma/{part}" for part in _DOLMA)), **_of("finemath-3-plus")})
# StarCoder counts 230 B tokens, and the run wanted a tenth.
JELLYFISH = blend((0.7, mixture({"dolmino/dclm": 700.0, "starcoderdata": 230.0 * 0.1})), (0.3, _JELLYFISH_HQ))

_PHOENIX_WEIGHTS = {**_of(*NEMOTRON.sources), **_of("starcoderdata")}
PHOENIX = mixture(_PHOENIX_WEIGHTS)
# For 2,000 steps the run read both mixtures' sources by their weights: a bridge of one stage, not an interpolation.
PHOENIX_BRIDGE = mixture({**_PHOENIX_WEIGHTS, **_KESTREL_WEIGHTS})

SPOONBILL = blend((0.97, JELLYFISH), (0.029, _single("dolmino/flan")), (0.001, _single("tulu_sft_train")))

# "Oversampling" of the retrospective's table. ProofPile 2 weighs as much as StarCoder there, 4.5 times its tokens.
STARLING_TIMES: Mapping[str, int] = {
    **dict.fromkeys(("dolmino/flan", "all_math"), 10),
    **dict.fromkeys(("arxiv_markdownified", "dolmino/pes2o", "finemath-3-plus", "dolmino/stackexchange"), 5),
    **dict.fromkeys(("stackexchange_custom", "wikipedia_markdown", "dolmino/wiki", "medu_science_qa"), 5),
}
_STARLING_HQ = mixture(
    {
        "starcoderdata": 0.25,
        "proofpile_2": 0.25,
        **{name: times * corpus(name).weight for name, times in STARLING_TIMES.items()},
    }
)
STARLING = blend((0.7, NEMOTRON), (0.3, _STARLING_HQ))  # and Deeper Starling

MARIN_8B = Stages(
    {
        0: KESTREL,
        JELLYFISH_FROM: JELLYFISH,
        PHOENIX_FROM: PHOENIX_BRIDGE,
        PHOENIX_ALONE_FROM: PHOENIX,
        STARLING_FROM: STARLING,
    }
)
# Later accounts call this Phoenix's interpolation: over the same 2,000 steps, the mixture moves evenly from Kestrel's.
PHOENIX_EVENLY = Stages({0: KESTREL, PHOENIX_FROM: Interpolation(PHOENIX, PHOENIX_ALONE_FROM - PHOENIX_FROM)})

# Fine-tuning of the 8B, issue 1237: the weight of a set is its number of chats.
SFT = mixture({name: float(each.chats) for name, each in SETS.items()})

# Marin 32B, issues 1295 and 1529. Its pretraining is Phoenix with ProofPile 2.
PRETRAINING_32B = nested({NEMOTRON: _NEMOTRON_TIB, mixture(_of("starcoderdata", "proofpile_2")): 0.25 + 0.055})
BISON = blend((0.7, PRETRAINING_32B), (0.3, mixture(BISON_HQ)))
MANTIS = blend((0.7, PRETRAINING_32B), (0.3, mixture(MANTIS_HQ)))
MANTIS_PYTHON = blend((0.7, PRETRAINING_32B), (0.3, mixture(MANTIS_HQ_PYTHON)))
MARIN_32B = Stages({0: PRETRAINING_32B, 160_000: MANTIS, 174_000: MANTIS_PYTHON})


def microannealing(candidate: Mixture[str], *, pretraining: Mixture[str] = KESTREL, flan: float = 0.15) -> Mixture[str]:
    """Return 70 % pretraining data, ``flan`` of FLAN, and the candidate as the rest: issue 784.

    Without FLAN the shares are 70/30: issue 820.
    """
    rest = ((0.3 - flan, candidate),) if flan < 0.3 else ()
    return blend((0.7, pretraining), *((flan, _single("dolma/flan")),) if flan else (), *rest)
