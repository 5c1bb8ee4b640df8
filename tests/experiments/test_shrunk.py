"""A full plan made small: the full one's graph, with nothing in it that only a lab has."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from benchmarks.full_walk import MACHINES
from infra.hardware import tpu
from marin import Experiment, Scale
from marin.data.http_file import HttpFile
from marin.errors import BadField
from marin.training.model import Architecture
from operators.download import HttpIndex, HuggingFace
from operators.evaluate import Evaluate
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.shrunk import Listing, Shrink, shrunk
from operators.train import Train
from tests.support.small_hub import small_hub

ROOT = Path(__file__).resolve().parents[2]
SMALL = Shrink(
    steps=1000,
    batch=64,
    length=128,
    machines=MACHINES | {"v5litepod-256": tpu("v4-8"), "v4-128": tpu("v4-8"), "v5litepod-8": tpu("v4-8")},
)
# These runs are shorter than the runs of the 32B and the 8B, or count in other blocks.
OTHERS = {
    "exp1237_sft": replace(SMALL, steps=100, batch=8, block=64, length=8),
    "exp1321_detectors": replace(SMALL, steps=10, batch=8, block=8000),
    "exp2345_lr_sweep": replace(SMALL, batch=8, block=64),
    "exp2345_mixture": replace(SMALL, batch=8, block=64),
    "exp646_ladder": replace(SMALL, batch=16, block=64),
}


def full(name: str) -> Experiment:
    return import_module(f"experiments.{name}").build(Scale.FULL)


def graph(experiment: Experiment) -> set[tuple[str, str, tuple[str, ...]]]:
    """Return each step's operator, its label, and the names of the steps that it reads."""
    return {
        (step.op, step.label, tuple(sorted(each.name for each in step.dependencies))) for step in experiment.steps()
    }


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "experiments").glob("exp*.py")))
def test_the_graph_is_the_full_ones(name: str) -> None:
    written = full(name)
    small = shrunk(written, OTHERS.get(name, SMALL))
    assert graph(small) == graph(written)
    assert list(small.results) == list(written.results)
    machines = {str(each) for step in small.steps() for each in step.resources.accelerators}
    assert machines <= {"2 × v4-8", "v4-8", "v4-16"}
    asks = {step.name for step in written.steps() if step.resources.accelerator}
    assert asks == {step.name for step in small.steps() if step.resources.accelerator}


MANTIS, MANTIS_SMALL = full("exp1529_mantis"), shrunk(full("exp1529_mantis"), SMALL)


def pairs(kind: type[Any]) -> list[tuple[Any, Any]]:
    now = {step.name: step for step in MANTIS_SMALL.steps()}
    return [(step, now[step.name]) for step in MANTIS.steps() if isinstance(step, kind)]


def test_only_sizes_of_a_training_are_other_ones() -> None:
    for was, now in pairs(Train):
        assert now.model.parameters(2) < 30_000
        assert now.model.architecture is was.model.architecture
        assert now.model.rope == was.model.rope
        for name in ("optimizer", "precision", "shuffle", "recompute", "max_epochs", "allow_starved", "block", "seed"):
            assert getattr(now, name) == getattr(was, name)
        assert (now.first_step, now.end_step) == (was.first_step // 1000, was.end_step // 1000)
        assert now.batch == was.batch.scaled(steps=1000, batch=64)
        assert now.data.starts == tuple(step // 1000 for step in was.data.starts)
        assert now.seq_len == now.model.seq_len == 32
    [qwen] = [now for _, now in pairs(Train) if now.label == "32b-qwen3"]
    assert qwen.model.architecture is Architecture.QWEN3
    assert (qwen.start.checkpoint.step, qwen.start.clip_history.step) == (80, 74)
    assert [(each.at, each.steps) for each in qwen.schedule.rewarmups] == [(80, 1)]
    [mantis] = [now for _, now in pairs(Train) if now.label == "mantis"]
    assert (mantis.schedule.decay.start, mantis.schedule.decay.end) == (160, 192)
    assert {(now.window, now.stride) for _, now in pairs(Evaluate)} == {(32, 24)}


def test_downloads_are_other_steps_of_few_files_and_the_tokenizer_stays() -> None:
    """A store that has both never takes one for the other."""
    for was, now in (*pairs(HuggingFace), *pairs(HttpIndex)):
        assert (now.most, now.size) == (1, None)
        assert now.identity != was.identity
    [(was, now)] = pairs(PretrainedTokenizer)
    assert now == was


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exp1295_llama", "exp1529_mantis"])
def test_what_a_walk_downloads_is_served(name: str, tmp_path: Path) -> None:
    """The walk itself, benchmarks/full_walk.py, takes ten minutes and more."""
    experiment = full(name)
    with small_hub(experiment, tmp_path) as hub:
        assert hub.listings.keys() == {step.index.url for step in experiment.steps() if isinstance(step, HttpIndex)}


def test_listings_are_elsewhere_where_that_is_said() -> None:
    [url] = {step.index.url for step, _ in pairs(HttpIndex)}
    there = Listing(index=HttpFile("http://here/paths.gz", "0" * 64), base="http://here/")
    moved = shrunk(MANTIS, replace(SMALL, listings={url: there}))
    found = {(step.index.url, step.base) for step in moved.steps() if isinstance(step, HttpIndex)}
    assert found == {("http://here/paths.gz", "http://here/")}


def test_records_say_so() -> None:
    changed = {step.identity for step in MANTIS_SMALL.steps()} - {step.identity for step in MANTIS.steps()}
    assert set(MANTIS_SMALL.changes) == changed
    [line] = MANTIS_SMALL.all_changes()
    assert line.startswith("shrunk: steps / 1,000, batches / 64, sequences / 128, models of 2 × 32")


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(BadField, match=re.escape("Shrink.machines does not name 4 × v5p-512")):
        shrunk(MANTIS, replace(SMALL, machines={"v4-8": tpu("v4-8")}))
    with pytest.raises(BadField, match=re.escape("Shrink.steps is 0")):
        replace(SMALL, steps=0)
    with pytest.raises(BadField, match="falls on a step that already has an entry"):
        shrunk(MANTIS, replace(SMALL, steps=100_000))


def test_the_example_of_the_page_is_the_full_graph(tmp_path: Path) -> None:
    page = (ROOT / "docs/full-scale.md").read_text()
    [code] = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(code, names)
    assert graph(names["build"](Scale.FULL)) == graph(MANTIS)
