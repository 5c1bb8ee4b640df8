"""Test language detection on the Declaration of Human Rights and on short texts of each language."""

from __future__ import annotations

import zipfile

import pytest

from marin.errors import BadField
from marin.text.language import LANGUAGES, WrittenIn, language_of
from marin.text.quality import Characters, Quality, View, WordCount
from tests.shared_data import shared

SENTENCES = {
    "en": "All human beings are born free and equal in dignity and rights. They are endowed with reason.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft und Gewissen begabt.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués de raison.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como están de razón.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью.",
    "ja": "すべての人間は、生れながらにして自由であり、かつ、尊厳と権利とについて平等である。",
    "ar": "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا.",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_a_sentence_or_two_suffice(language: str) -> None:
    assert language_of(SENTENCES[language]) == language
    kept = WrittenIn((language,))
    assert kept(View(SENTENCES[language])) is None
    assert WrittenIn(("sw",))(View(SENTENCES[language])) == f"written_in_{language}"


def test_the_codes_are_those_of_the_library() -> None:
    from resiliparse.parse.lang import supported_langs

    assert sorted(LANGUAGES) == sorted(supported_langs())
    with pytest.raises(BadField, match="'english'; wanted some of af, ar"):
        WrittenIn(("english",))
    with pytest.raises(BadField, match="there is none"):
        WrittenIn(())


# nltk's names of the languages that resiliparse knows and treats as one language.
DECLARATIONS = {
    "eng": "en", "deu": "de", "fra": "fr", "spa": "es", "rus": "ru", "jpn": "ja", "por_PT": "pt", "ita": "it",
    "nld": "nl", "pol": "pl", "tur": "tr", "hun": "hu", "fin": "fi", "ell_monotonic": "el", "heb": "he", "kor": "ko",
    "vie": "vi", "ukr": "uk", "swe": "sv", "ces": "cs", "hin": "hi", "tha": "th",
}  # fmt: skip


def test_the_declaration_of_human_rights_is_known_in_22_languages() -> None:
    with zipfile.ZipFile(shared("nltk/udhr2.zip")) as archive:
        texts = {name: " ".join(archive.read(f"udhr2/{name}.txt").decode().split()) for name in DECLARATIONS}
    assert [name for name, text in texts.items() if language_of(text) != DECLARATIONS[name]] == ["hin"]
    pieces = [(DECLARATIONS[n], text[at : at + 400]) for n, text in texts.items() for at in range(0, len(text), 400)]
    assert len(pieces) > 500
    assert sum(language_of(piece) == language for language, piece in pieces) / len(pieces) > 0.94
    english = {language for language, piece in pieces if language_of(piece) == "en" and len(piece) == 400}
    assert english == {"en"}


def test_language_and_length_are_rules_like_any_other() -> None:
    rules = Quality(rules=(Characters(20, 200), WrittenIn(("en", "de")), WordCount(5)))
    verdicts = {
        name: rules.judge(text).reason for name, text in {**SENTENCES, "short": "too short", "long": "a " * 200}.items()
    }
    assert verdicts == {
        "en": None,
        "de": None,
        "fr": "written_in_fr",
        "es": "written_in_es",
        "ru": "written_in_ru",
        "ja": "written_in_ja",
        "ar": "written_in_ar",
        "short": "too_few_characters",
        "long": "too_many_characters",
    }
