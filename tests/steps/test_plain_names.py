"""Names that people read in terminals, logs and pages hold nothing that pretends to be something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from marin.errors import BadField
from marin.steps.lifetime import Lifetime, Rule
from marin.steps.resources import Accelerator, Resources
from tests.support.project import EXPERIMENT, Project
from tests.support.toy import Write, experiment

BAD = {
    "line break": "a\nb",
    "return": "good\rbad",
    "tab": "a\tb",
    "nul": "a\0b",
    "escape": "\x1b[2Ja",
    "c1": "a\x9b31mb",
    "override": "a\u202egnp.exe",
    "isolate": "a\u2066b",
    "line separator": "a\u2028b",
    "paragraph": "a\u2029b",
    "surrogate": "a\udcff",
}


@pytest.mark.parametrize("name", BAD.values(), ids=BAD)
def test_it_is_refused_where_it_was_written(name: str) -> None:
    with pytest.raises(BadField, match=r"Write\.label is .*; labels are one line"):
        Write(text="a", label=name)
    with pytest.raises(BadField, match=r"Experiment\.results has the name .*which holds"):
        experiment(**{name: Write(text="a")})


def test_the_character_is_named() -> None:
    with pytest.raises(BadField, match=r"'a\\nb', which holds a line break"):
        Write(text="a", label="a\nb")
    with pytest.raises(BadField, match=r"U\+202E \(RIGHT-TO-LEFT OVERRIDE\)"):
        Write(text="a", label="\u202e")


@pytest.mark.parametrize("name", ["日本語", "naïve 🐍👩‍💻", "a/b\\c", "[red]x[/]", "x" * 300, "سلام", "می‌خواهم", " "])
def test_any_other_text_is_a_name(name: str) -> None:
    assert experiment(**{name: Write(text="a", label=name)}).results[name].label == name


def test_lifetimes_and_resources_are_what_they_say() -> None:
    with pytest.raises(BadField, match=r"Lifetime\.rule is 'unread\\nx' .*Rule"):
        Lifetime(rule="unread\nx", days=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadField, match=r"Lifetime\.rule is 'unused' .*write Rule\.UNUSED"):
        Lifetime(rule="unused", days=1)  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadField, match=r"Lifetime\.days"):
        Lifetime(rule=Rule.UNREAD, days="7")  # pyright: ignore[reportArgumentType]
    with pytest.raises(BadField, match=r"Resources\.cpus is '4' \(str\); wanted float; write 4.0"):
        Resources(cpus="4")  # pyright: ignore[reportArgumentType]
    assert Resources(cpus=4, accelerator=Accelerator(name="v4-8", chips=4, hosts=1, peak_flops=1e12)).cpus == 4


def test_an_experiment_with_such_a_label_ends_without_a_traceback(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", EXPERIMENT.replace('label="say"', 'label="say\\nDONE"'))
    said = project.run(expect=4)
    assert "Say.label is 'say\\nDONE', which holds a line break" in said
    assert "Traceback" not in said
