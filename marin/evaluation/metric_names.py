"""The names of metrics, ``bpb/<domain>`` and ``<task>/<format>/<measure>``, put in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from marin.errors import BadField

MEASURES = {  # the words after a task's name, the words alone, and an explanation
    "bpb": ("", "bits per byte", "bits per byte: how many bits the model needs for each byte of the right text; less "
            "is better"),
    "bpb_stripped": ("", "bits per byte", "bits per byte of a text without the space at its ends"),
    "final_bpb": (" final answers", "bits per byte of final answers", "bits per byte of the final answer alone, after "
                  "the right worked solution"),
    "accuracy": (" accuracy", "accuracy", "share of items whose right solution is the likeliest of those offered"),
    "choice_probability": (" choice probability", "choice probability", "probability of the right solution among those "
                           "offered"),
}  # fmt: skip
FORMATS = {
    "lm_eval": (
        "LM-Eval prompts",
        "items as lm-evaluation-harness shows them; of word problems calculator tags, then “#### 9”",
    ),
    "olmes": ("OLMES prompts", "items as OLMES shows them; of word problems no tags, then “So the answer is 9.”"),
}
BITS = ("bpb", "bpb_stripped")  # first parts of the names of a domain's metrics

LOWER_IS_BETTER = ("bpb", "bits_per_byte", "brier", "perplexity")  # parts of a measure's name


def in_words(name: str) -> str:
    """Return "gsm final answers (OLMES prompts)" or "code text"; an unknown name itself."""
    match name.split("/"):
        case [first, domain] if first in BITS:
            return f"{domain} text"
        case [*task, form, measure] if task and form in FORMATS and measure in MEASURES:
            return f"{'/'.join(task)}{MEASURES[measure][0]} ({FORMATS[form][0]})"
        case _:
            return name


def fitting(name: str, there: Sequence[str]) -> list[str]:
    """Return the metric of this name or, if the name ends in "/", all metrics below."""
    return [each for each in there if each == name or (name.endswith("/") and each.startswith(name))]


def measured_as(name: str, there: Sequence[str], what: str) -> list[str]:
    """Return ``fitting`` metrics. Raises BadField, with the nearest name, if there is none. what: the field's name."""
    if found := fitting(name, there):
        return found
    near = get_close_matches(name, there, 1)
    raise BadField(
        f"{what} names {name!r}, which was not measured{f'; did you mean {near[0]!r}?' if near else ''}; there are "
        f"{', '.join(there)}, and their prefixes that end in '/'"
    )


def task_of(name: str) -> str:
    """Return "gsm" for ``gsm/olmes/bpb``, "code text" for ``bpb/code``."""
    return in_words(name) if name.split("/")[0] in BITS else name.split("/")[0]


def is_better_lower(name: str) -> bool:
    """Return whether a lower value is better, for our metrics and lm-evaluation-harness's."""
    parts = name.split("/")
    return parts[0] in BITS or any(part in parts[-1] for part in LOWER_IS_BETTER)


def measure_of(name: str) -> str:
    """Return the measure without the task: "bits per byte with OLMES prompts"."""
    parts = name.split("/")
    if parts[0] in BITS:
        return MEASURES[parts[0]][1]
    forms = [FORMATS[part][0] for part in parts[1:] if part in FORMATS]
    rest = [MEASURES[part][1] if part in MEASURES else part for part in parts[1:] if part not in FORMATS]
    return " ".join([*rest, *(f"with {form}" for form in forms)])


def explained(name: str) -> str:
    """Return an explanation of a metric; "" for an unknown name."""
    parts = [MEASURES[part][2] for part in name.split("/") if part in MEASURES]
    parts += [FORMATS[part][1] for part in name.split("/") if part in FORMATS]
    return f"{in_words(name)}. {'; '.join(parts)}" if parts else ""


def legend(names: Iterable[str]) -> dict[str, str]:
    """Return the meaning of each known part of these names."""
    used = {part for name in names for part in name.split("/")}
    known = {part: each[-1] for part, each in (MEASURES | FORMATS).items() if part in used}
    return known
