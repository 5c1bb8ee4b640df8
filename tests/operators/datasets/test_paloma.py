"""Test Paloma's sources against lm-evaluation-harness' own list, at both scales."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from marin import Scale
from operators.datasets import paloma
from operators.datasets.catalogue_table import page
from operators.download import HuggingFace, ReadDocuments
from operators.paragraphs import Paragraphs


def test_the_sources_are_those_of_the_harness() -> None:
    harness = importlib.util.find_spec("lm_eval")
    assert harness is not None
    assert harness.origin is not None
    tasks = (Path(harness.origin).parent / "tasks/paloma").glob("*.yaml")
    theirs = {
        match[1] for task in tasks if (match := re.search(r"^dataset_name: (\S+)", task.read_text(), re.MULTILINE))
    }
    assert paloma.SOURCES.keys() == theirs


def test_at_full_scale_the_validation_split_of_each_comes_from_the_commit_that_is_published() -> None:
    made = paloma.documents(Scale.FULL)
    assert list(made) == list(paloma.SOURCES)
    assert len(made) == 16
    for name, step in made.items():
        assert isinstance(step, ReadDocuments)
        assert isinstance(files := step.files, HuggingFace)
        assert (files.repo, files.revision) == ("allenai/paloma", "65cd6fc")
        assert files.patterns == (f"{name}/val/val*.jsonl.gz",)


def test_in_a_rehearsal_texts_of_c4_end_in_a_space_and_the_same_ones_of_refinedweb_do_not() -> None:
    made = paloma.documents(Scale.REHEARSAL)
    c4, refined = made["c4_en"], made["falcon-refinedweb"]
    assert isinstance(c4, Paragraphs)
    assert isinstance(refined, Paragraphs)
    assert (c4.documents, c4.ending, refined.ending) == (refined.documents, " ", "")
    assert set(made) == {name for name, source in paloma.SOURCES.items() if source.stand_in}


def test_the_page_of_datasets_has_each_source_by_both_names() -> None:
    lines = page().splitlines()
    for name, source in paloma.SOURCES.items():
        [row] = [line for line in lines if line.startswith(f"| `{name}` |")]
        assert f"| {source.called} |" in row
