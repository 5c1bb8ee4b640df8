"""Test that every experiment states its question, and that the table of experiments is up to date."""

import re
import runpy
from pathlib import Path

import pytest

from experiments import table

NAMES = sorted(path.stem for path in table.FOLDER.glob("exp*.py"))
FOLDER = Path(table.__file__).parent


def test_the_table_is_of_these_experiments() -> None:
    """./py -m experiments.table > experiments/README.md"""
    assert (FOLDER / "README.md").read_text() == table.page()
    assert {entry.name for entry in table.entries()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_docstring_says_what_is_asked_of_which_arms_and_how_it_is_decided(name: str) -> None:
    entry = table.entry(name)
    assert {"Question", "Arms", "Start", "Decision", "Issue"} <= entry.sections.keys()
    assert re.match(rf"Exp {entry.full.issue}\b", entry.title)
    assert f"exp{entry.full.issue}_" in f"{name}_"
    assert entry.sections["Issue"] == entry.full.issue_url


@pytest.mark.parametrize("name", NAMES)
def test_no_experiment_is_a_library_for_another(name: str) -> None:
    assert not re.search(r"experiments(\.| import )exp\d", (FOLDER / f"{name}.py").read_text())


def test_the_picture_of_both_runs_is_drawn_from_what_they_are() -> None:
    """./py docs/timeline.py > docs/images/runs.svg"""
    drawn = runpy.run_path(str(FOLDER.parent / "docs/timeline.py"))
    data = drawn["data"]()
    assert f"data {drawn['digest'](data)}" in (FOLDER.parent / "docs/images/runs.svg").read_text()
    assert [data[run]["tokens"] for run in ("Marin 8B", "Marin 32B")] == [12.7507, 6.4372]
    assert [name for _, name in data["Marin 8B"]["phases"]] == [
        "Kestrel", "Ocelot", "Jellyfish", "Phoenix", "Starling", "Deeper Starling",
    ]  # fmt: skip
    for run in data.values():
        assert all(abs(sum(shares.values()) - 1) < 1e-4 for _, shares in run["shares"])


def test_what_experiments_share_they_share() -> None:
    """The chain from Kestrel to Deeper Starling, and Llama to Qwen3, are the same steps in all."""
    ends = {
        "8b-kestrel": 9,
        "8b-jellyfish": 7,
        "8b-phoenix": 4,
        "32b-llama": 6,
        "32b-llama-as-it-was": 2,
        "32b-qwen3": 2,
    }
    for label, least in ends.items():
        held = [run for entry in table.entries() for run in entry.trainings if run.label == label]
        assert len(held) >= least, label
        assert len(set(held)) == 1, label
