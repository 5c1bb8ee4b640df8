"""Compare the form of two sets of texts, and find differences beyond chance. Form moves a loss without any ability.

A gap is a share of texts that differs by more than SHARE, or a rate with a Cliff's delta beyond DELTA. At this delta,
the second text of a pair (one text from each set) is the larger in two pairs of three. Both bounds are effect sizes, so
that large sets raise no alarms about trifles. A gap must also exceed Z standard errors, so that small sets raise none
by chance. Errors of shares follow Agresti and Caffo (The American Statistician 54, 2000, p. 280), valid for few texts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

SHARE, Z, DELTA = 0.05, 5.0, 0.33
READ = 4_000  # characters of a text, half of them at its end
UNSEEN = "[\u00a0\u200b\u2009\u202f]"
SHOWN = 3
AT_END = ("end in white space", "end in a sentence's mark")  # unknown for a text that is cut

TRAITS: Mapping[str, Callable[[str], bool]] = {
    "end in white space": lambda text: text[-1:].isspace(),
    "begin with white space": lambda text: text[:1].isspace(),
    "end in a sentence's mark": lambda text: text.rstrip()[-1:] in ".!?…",
    "begin with a byte order mark": lambda text: text.startswith("\ufeff"),
    "have lines that end in white space": lambda text: re.search(r"[ \t]\n", text) is not None,
    "have carriage returns": lambda text: "\r" in text,
    "have tabs": lambda text: "\t" in text,
    "have two spaces in a row": lambda text: re.search(r"\S  +\S", text) is not None,
    "have blank lines": lambda text: "\n\n" in text,
    "have spaces that do not break or have no width": lambda text: re.search(UNSEEN, text) is not None,
    "have quotes of typesetting": lambda text: re.search("[“”‘’«»]", text) is not None,
    "have dashes of typesetting": lambda text: re.search("[–—]", text) is not None,
    "are not composed as Unicode wants": lambda text: not unicodedata.is_normalized("NFC", text),
    "have compatibility characters": lambda text: not unicodedata.is_normalized("NFKC", text),
    "have UTF-8 that was taken for another encoding": lambda text: re.search("Ã[\u0080-\u00bf]|â€", text) is not None,
    "have HTML": lambda text: re.search(r"</?[a-zA-Z][a-zA-Z0-9]*[ >/]|&[a-z]+;", text) is not None,
    "have Markdown": lambda text: re.search(r"^#{1,6} |\*\*\S|^```|\]\(", text, re.MULTILINE) is not None,
    "have LaTeX": lambda text: re.search(r"\\[a-zA-Z]+\{|\$[^$\n]+\$", text) is not None,
    "ask and answer": lambda text: re.search(r"^(?:Question|Q|Answer|A):", text, re.MULTILINE) is not None,
    "have calculator tags or ####": lambda text: "<<" in text or "####" in text,
}
RATES: Mapping[str, Callable[[str], float]] = {
    "characters": lambda text: len(text),
    "newlines for each character": lambda text: text.count("\n") / max(len(text), 1),
    "length of lines": lambda text: float(np.median([len(line) for line in text.split("\n")])),
    "characters beyond ASCII": lambda text: sum(character > "\x7f" for character in text) / max(len(text), 1),
    "capitals": lambda text: sum(map(str.isupper, text)) / max(len(text), 1),
    "digits": lambda text: sum(map(str.isdigit, text)) / max(len(text), 1),
    "white space": lambda text: sum(map(str.isspace, text)) / max(len(text), 1),
}


@dataclass(frozen=True, kw_only=True)
class FormatGap:
    """One difference in form. training, other: share of texts, or median. size: of the shares, or Cliff's delta."""

    measure: str
    training: float
    other: float
    size: float

    def __str__(self) -> str:
        if self.measure in TRAITS:
            return f"{self.other:.0%} {self.measure}, of the training's texts {self.training:.0%}"
        return f"{self.measure} {self.other:.3g}, of the training's texts {self.training:.3g} (median)"


@dataclass(frozen=True, kw_only=True, eq=False)
class Form:
    """The form of a set of texts. values: by measure, of each text, NaN if unknown. weights: of each text."""

    values: Mapping[str, F64]
    weights: F64


def form(texts: Sequence[str], *, weights: Sequence[float] | None = None, whole: Sequence[bool] | None = None) -> Form:
    """Return the form of texts. weights: of each text, by default equal. whole: whether each has its true end."""
    short = [text if len(text) <= READ else text[: READ // 2] + text[-READ // 2 :] for text in texts]
    measures: dict[str, Callable[[str], float]] = {**TRAITS, **RATES}
    values = {name: np.array([of(text) for text in short], np.float64) for name, of in measures.items()}
    for name in AT_END if whole is not None else ():
        values[name][~np.array(whole, bool)] = np.nan
    return Form(values=values, weights=np.ones(len(texts)) if weights is None else np.array(weights, np.float64))


def format_gaps(training: Form, others: Form) -> list[FormatGap]:
    """Return the gaps, the largest first. Sets that are too small to tell have none."""
    found = [gap for measure in training.values if (gap := _gap(measure, training, others)) is not None]
    return sorted(found, key=lambda gap: -round(abs(gap.size), 6))


def gaps_in_words(gaps: Sequence[FormatGap]) -> str:
    """Return the largest few gaps as text."""
    more = f"; {len(gaps) - SHOWN} more" if len(gaps) > SHOWN else ""
    return "; ".join(map(str, gaps[:SHOWN])) + more


def _gap(measure: str, training: Form, others: Form) -> FormatGap | None:
    (a, v), (b, w) = (_known(each, measure) for each in (training, others))
    if not len(a) or not len(b):
        return None
    many, few = 1 / float((v**2).sum()), 1 / float((w**2).sum())  # effective numbers of texts
    if measure in TRAITS:
        first, second, least = float(v @ a), float(w @ b), SHARE
        size = second - first
        tried = [(share * count + 1) / (count + 2) for share, count in ((first, many), (second, few))]
        error = math.sqrt(sum(p * (1 - p) / (count + 2) for p, count in zip(tried, (many, few), strict=True)))
    else:
        first, second, least = _median(a, v), _median(b, w), DELTA
        size = _cliffs_delta(a, v, b, w)
        error = math.sqrt((many + few + 1) / (3 * many * few))  # from the Mann-Whitney statistic
    if abs(size) <= least or abs(size) <= Z * error:
        return None
    return FormatGap(measure=measure, training=first, other=second, size=size)


def _known(form: Form, measure: str) -> tuple[F64, F64]:
    """Return the known values in order, with weights that sum to 1."""
    values = form.values[measure]
    order = np.argsort(values)[: int(np.isfinite(values).sum())]
    weights = form.weights[order]
    return values[order], weights / weights.sum()


def _median(values: F64, weights: F64) -> float:
    return float(values[min(int(np.searchsorted(np.cumsum(weights), 0.5)), len(values) - 1)])


def _cliffs_delta(first: F64, weights: F64, second: F64, others: F64) -> float:
    """Return the share of pairs in which the second is larger, minus the share in which the second is smaller."""
    steps = np.concatenate(([0.0], np.cumsum(weights)))
    below, up_to = (steps[np.searchsorted(first, second, side)] for side in ("left", "right"))
    return float(others @ (below + up_to - 1))
