"""FormatGaps: the incident of the space at the end of every held-out text, and text that is written alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from marin.data.documents import Document
from marin.errors import BadField, StarvedSource
from operators.format_gaps import FormatGaps
from tests.operators.running import Given, given_documents, run_step

WEB, BOOKS, SPACED, PLAIN, FEW = (Given(name_of_input=name) for name in ("web", "books", "spaced", "plain", "few"))


def texts(count: int, seed: int, end: str = "") -> list[Document]:
    return [Document(f"Text {n * seed % 97} tells of {n} rivers and {n % 7} ships." + end) for n in range(count)]


def test_a_space_at_the_end_is_found_and_text_that_is_written_alike_is_not(tmp_path: Path) -> None:
    given = {
        WEB: given_documents(texts(200, 3), tmp_path / "web"),
        BOOKS: given_documents(texts(200, 5), tmp_path / "books"),
        SPACED: given_documents(texts(60, 7, end=" "), tmp_path / "spaced"),
        PLAIN: given_documents(texts(60, 11), tmp_path / "plain"),
        FEW: given_documents(texts(4, 13), tmp_path / "few"),
    }
    step = FormatGaps(
        training={"web": WEB, "books": BOOKS},
        weights={"web": 3.0, "books": 1.0},
        domains={"c4_en": SPACED, "ptb": PLAIN},
        texts=200,
    )
    made: Any = run_step(step, given, tmp_path)
    spaced, plain = made.headline
    assert spaced.startswith("c4_en: 100% end in white space, of the training's texts 0%; ")
    assert plain == "ptb: written as the training's text"
    report = json.loads(made.directory.read_text("report.json"))
    assert report["training"] == 200
    assert report["domains"]["ptb"] == {"texts": 60, "gaps": []}
    few = FormatGaps(training={"web": WEB}, weights={"web": 1.0}, domains={"few": FEW})
    with pytest.raises(StarvedSource, match="4 texts of few and 200 of the training; wanted at least 20"):
        run_step(few, given, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"domains": {}}, "training or domains is empty"),
        ({"weights": {"web": 0.0}}, "wanted a weight above 0 for each source"),
        ({"weights": {"net": 1.0}}, "weights are given for net, and training has web"),
        ({"texts": 3}, "texts is 3; wanted at least 20"),
    ],
)
def test_what_cannot_be_compared_is_refused(changes: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"training": {"web": WEB}, "weights": {"web": 1.0}, "domains": {"ptb": PLAIN}}
    with pytest.raises(BadField, match=message):
        FormatGaps(**fields | changes)
