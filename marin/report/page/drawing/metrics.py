"""What the names of metrics mean: ``bpb/<domain>`` and ``<task>/<format>/<measure>``, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

MEASURES = {  # each in words, and what it is
    "bpb": ("", "bits per byte: how many bits the model needs for each byte of the right text; less is better"),
    "bpb_stripped": ("", "bits per byte of a text without the space at its ends"),
    "final_bpb": (" final answers", "bits per byte of the final answer alone, after the right worked solution"),
    "accuracy": (" accuracy", "share of items whose right solution is the likeliest of those offered"),
    "choice_probability": (" choice probability", "probability of the right solution among those offered"),
}
FORMATS = {
    "lm_eval": ("LM-Eval prompts", "items as lm-evaluation-harness shows them: calculator tags, then “#### 9”"),
    "olmes": ("OLMES prompts", "items as OLMES shows them: no tags, then “So the answer is 9.”"),
}


def in_words(name: str) -> str:
    """ "gsm final answers (OLMES prompts)", "code text"; the name itself where nothing is known of it."""
    match name.split("/"):
        case [("bpb" | "bpb_stripped"), domain]:
            return f"{domain} text"
        case [*task, form, measure] if task and form in FORMATS and measure in MEASURES:
            return f"{'/'.join(task)}{MEASURES[measure][0]} ({FORMATS[form][0]})"
        case _:
            return name


def explained(name: str) -> str:
    """What it measures, in a sentence; "" where nothing is known of it."""
    parts = [MEASURES[part][1] for part in name.split("/") if part in MEASURES]
    parts += [FORMATS[part][1] for part in name.split("/") if part in FORMATS]
    return f"{in_words(name)}. {'; '.join(parts)}" if parts else ""


def legend(names: Iterable[str]) -> dict[str, str]:
    """What the parts of these names mean."""
    used = {part for name in names for part in name.split("/")}
    known = {part: text for part, (_, text) in (MEASURES | FORMATS).items() if part in used}
    return known


def without_names(sentence: str, names: Iterable[str]) -> str:
    """A sentence that a reader understands who knows none of these metrics' names."""
    for name in sorted(names, key=len, reverse=True):
        sentence = re.sub(rf"(?<![\w/]){re.escape(name)}(?![\w/])", in_words(name), sentence)
    return re.sub(
        r"^Guards( \(bpb, bits/byte\))?", lambda found: f"What must not get worse{found[1] or ''}", sentence
    ).replace("(bpb, bits/byte)", "(bits per byte)")
