"""Every named source, and the raw weights from which the published mixtures follow.

Mixtures name their sources, so a source that you add to the catalogue is in no mixture until you name it there. Shares
are ``mixture(weights)``; a cooldown is ``blend((0.7, pretraining), (0.3, high quality))``. The weights come from the
run's own configuration files. tests/experiments shows that they reproduce every printed digit of the retrospective's
tables.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from math import fsum

from marin.errors import BadField
from operators.datasets import chats, code, dclm, dolma, dolmino, markdown, math, nemotron
from operators.datasets.corpus import Corpus

CORPORA: Mapping[str, Corpus] = {
    **nemotron.CORPORA,
    **code.CORPORA,
    **math.CORPORA,
    **dolmino.CORPORA,
    **markdown.CORPORA,
    **dclm.CORPORA,
    **dolma.CORPORA,
    **chats.CORPORA,
}


def corpus(name: str) -> Corpus:
    """Return the source of that name. Raises BadField with the nearest name for an unknown name."""
    if name not in CORPORA:
        near = difflib.get_close_matches(name, CORPORA, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(CORPORA))}"
        raise BadField(f"no corpus is called {name!r}; {hint}")
    return CORPORA[name]


def _weights(*names: str) -> dict[str, float]:
    return {name: corpus(name).weight for name in names}


PRETRAIN: Mapping[str, float] = _weights(
    "nemotron_cc/hq_actual",
    "nemotron_cc/hq_synth",
    "nemotron_cc/medium_high",
    "nemotron_cc/medium",
    "nemotron_cc/medium_low",
    "nemotron_cc/low_actual",
    "nemotron_cc/low_synth",
    "starcoderdata",
    "proofpile_2",
)

_HIGH_QUALITY = _weights(
    "dolmino/flan",
    "dolmino/pes2o",
    "dolmino/stackexchange",
    "dolmino/wiki",
    "arxiv_markdownified",
    "stackexchange_custom",
    "wikipedia_markdown",
    "medu_science_qa",
    "finemath-3-plus",
) | {"dolmino/flan": 2 * corpus("dolmino/flan").weight}  # doubled, as in the 8B's Starling

BISON_HQ: Mapping[str, float] = {**_HIGH_QUALITY, "all_math": 2 * corpus("all_math").weight}

# Mantis gives mathematics 0.371 in all, divided over MegaMath's parts by their tokens. Then it removes three quarters
# of the web part, which is by far the largest and the least dense.
_MATH = 0.371
_MEGAMATH = _weights(*math.MEGAMATH)
_MEGAMATH_TOTAL = fsum(_MEGAMATH.values())

MANTIS_HQ: Mapping[str, float] = {
    **_HIGH_QUALITY,
    **{
        name: _MATH * weight / _MEGAMATH_TOTAL / (4 if name == "megamath/web" else 1)
        for name, weight in _MEGAMATH.items()
    },
}

MANTIS_HQ_PYTHON: Mapping[str, float] = {
    **MANTIS_HQ,
    **_weights("common_pile_stackv2_edu_filtered_python"),
}
