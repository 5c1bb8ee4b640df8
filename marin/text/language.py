"""Detect the language of a text with resiliparse, which compares n-grams with 101 Wikipedias, without a download."""

# pyright: basic
from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value
from marin.text.quality import View

# ISO 639-1. Listed here, so that building a step does not need resiliparse.
_CODES = (
    "af ar as az ba be bg bn bo br ca ce cs cv cy da de dv el en eo es et eu fa fi fo fr fy ga gd gl gu ha he hi hr hu "
    "hy id io is it ja jv ka kk km kn ko ku ky la lb lt lv mg mk ml mn mr mt my ne nl no or pa pl ps pt rm ro ru sa sc "
    "sd si sk sl so sq sr sv sw ta te tg th tk tl tr tt ug uk ur uz vi vo yi zh"
)
LANGUAGES = tuple(_CODES.split())


@value("language/written_in")
class WrittenIn:
    """A rule that keeps texts in some languages, and counts the others by language, as ``written_in_fr``.

    languages: ISO 639-1 codes. A text of a line or two may be taken for a related language, so put a rule of length
    first. Code and tables are judged by their words too.
    """

    languages: tuple[str, ...] = ("en",)

    def __post_init__(self) -> None:
        strange = [each for each in self.languages if each not in LANGUAGES]
        if strange or not self.languages:
            raise BadField(
                f"WrittenIn.languages: {', '.join(map(repr, strange)) or 'there is none'}; wanted some of "
                f"{', '.join(LANGUAGES)}"
            )

    def __call__(self, view: View) -> str | None:
        found = language_of(view.text)
        return None if found in self.languages else f"written_in_{found}"


def language_of(text: str) -> str:
    """Return one of LANGUAGES, or "unknown" for a text that resembles none."""
    from resiliparse.parse.lang import detect_fast

    return detect_fast(text)[0]
