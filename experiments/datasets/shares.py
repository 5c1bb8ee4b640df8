"""Who gets which part of the Python installation in a rehearsal: no module and no section is given twice.

Thousandths of the standard library's modules and of the language reference's sections, by a hash of
their names. Each module gives code or docstrings or an HTML page, never two of them, so that sources
share no text. What is held out is evaluated on and never trained on.
"""

from __future__ import annotations

from marin.data.installation import Share

# Thousandths; about 8.2 kB of code, 1.7 kB of docstrings or 4.5 kB of extracted page each (CPython 3.12).
MODULES = {
    "nemotron_cc/medium": 95,
    "nemotron_cc/medium_low": 55,
    "nemotron_cc/hq_actual": 45,
    "nemotron_cc/medium_high": 45,
    "nemotron_cc/low_actual": 45,
    "nemotron_cc/hq_synth": 150,
    "nemotron_cc/low_synth": 110,
    "stackexchange_custom": 60,
    "dolmino/stackexchange": 60,
    "starcoderdata": 55,
    "common_pile_stackv2_edu_filtered_python": 45,
    "held_out/code": 15,
    "held_out/docstrings": 80,
    "held_out/pages": 40,
}
# Thousandths; about 0.4 kB each.
SECTIONS = {
    "arxiv_markdownified": 300,
    "dolmino/pes2o": 300,
    "wikipedia_markdown": 130,
    "dolmino/wiki": 130,
    "held_out/reference": 140,
}


def share(name: str, table: dict[str, int]) -> Share:
    """The part of ``table`` that belongs to ``name``: after all that come before it."""
    start = 0
    for other, size in table.items():
        if other == name:
            return Share(start, start + size)
        start += size
    raise KeyError(name)


def modules(name: str) -> Share:
    return share(name, MODULES)


def sections(name: str) -> Share:
    return share(name, SECTIONS)
