"""Divide the Python installation among the sources of a rehearsal, so that no two sources share text.

The shares are thousandths of the standard library's modules and of the language reference's sections, by a hash of
their names. Each module gives code, docstrings or an HTML page, and only one of the three. Evaluations read the
held-out shares, and no training reads them. Each share states its begin and end, so a new source takes a free range
and moves no other source.
"""

from __future__ import annotations

from operators.datasets.rehearsal.installation import Share

# A thousandth holds about 8.2 kB of code, 1.7 kB of docstrings or 4.5 kB of extracted page (CPython 3.12).
MODULES = {
    "nemotron_cc/medium": Share(0, 95),
    "nemotron_cc/medium_low": Share(95, 150),
    "nemotron_cc/hq_actual": Share(150, 195),
    "nemotron_cc/medium_high": Share(195, 240),
    "nemotron_cc/low_actual": Share(240, 285),
    "nemotron_cc/hq_synth": Share(285, 435),
    "nemotron_cc/low_synth": Share(435, 545),
    "stackexchange_custom": Share(545, 605),
    "dolmino/stackexchange": Share(605, 665),
    "starcoderdata": Share(665, 720),
    "common_pile_stackv2_edu_filtered_python": Share(720, 765),
    "held_out/code": Share(765, 780),
    "held_out/docstrings": Share(780, 860),
    "held_out/pages": Share(860, 900),
    "dclm_baseline": Share(900, 935),
    "dolmino/dclm": Share(935, 968),
    "dolma/stackexchange": Share(968, 985),
}
# A thousandth holds about 0.4 kB.
SECTIONS = {
    "arxiv_markdownified": Share(0, 300),
    "dolmino/pes2o": Share(300, 600),
    "wikipedia_markdown": Share(600, 730),
    "dolmino/wiki": Share(730, 860),
    "held_out/reference": Share(860, 1000),
}


def modules(name: str) -> Share:
    return MODULES[name]


def sections(name: str) -> Share:
    return SECTIONS[name]
