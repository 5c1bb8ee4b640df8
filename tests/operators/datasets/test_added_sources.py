"""A source that is added to the catalogue changes nothing that an experiment of before reads."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

IDENTITIES = """
import json
from operators.datasets import catalogue, held_out
from experiments.exp1529_mantis import build
from marin.steps.scale import Scale
steps = {scale.value: [[step.name, step.identity] for step in build(scale).steps()] for scale in Scale}
print(json.dumps({"steps": steps, "sources": [*catalogue.CORPORA, *held_out.DOMAINS, *held_out.FULL]}))
"""

# The test adds this source to each file of the catalogue, before the other sources: by name, by folder and by order
# the catalogue would take it first. The source has no known commit, so building its step at full scale would raise.
CORPUS = """
    Corpus(
        name="{name}",
        weight=9.0,
        licence="any",
        kind="any",
        full=Hub(repo="some-lab/added", revision=None),
        rehearsal=problems("{name}", seed={seed}, count=9, form=Form.TEXTBOOK),
    ),
"""
IMPORTS = """
from operators.datasets.corpus import Hub
from operators.datasets.gsm8k import problems
from operators.datasets.rehearsal.problem_forms import Form
"""
ADDED = {
    "nemotron": "nemotron_cc/added",
    "code": "added_code",
    "math": "megamath/added",
    "dolmino": "dolmino/added",
    "markdown": "added_markdown",
}
TABLES = (
    ("held_out", "DOMAINS: dict[str, Raw] = {", '"added": ProblemDocuments(items=_PROBLEMS, form=Form.OLMES),'),
    ("held_out", "FULL = {", '"added": Hub(repo="some-lab/added", revision="0" * 40),'),
    ("shares", "MODULES = {", '"added": Share(900, 950),'),
)


def identities(folder: Path) -> dict[str, object]:
    """Return the identity of every step of exp1529 at both scales, with the folder's ``experiments`` package."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", IDENTITIES],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{folder}:{ROOT}"},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def insert(path: Path, after: str, text: str) -> None:
    source = path.read_text()
    assert source.count(after) == 1, f"{path.name} has {source.count(after)} times {after!r}"
    path.write_text(source.replace(after, f"{after}\n{text}"))


def test_no_identity_of_exp1529_changes(tmp_path: Path) -> None:
    for package in ("experiments", "infra", "marin", "operators"):
        shutil.copytree(ROOT / package, tmp_path / package)
    before = identities(tmp_path)
    datasets = tmp_path / "operators/datasets"
    for seed, (module, name) in enumerate(ADDED.items(), start=90_000):
        insert(datasets / f"{module}.py", "CORPORA = by_name(", CORPUS.format(name=name, seed=seed))
        insert(datasets / f"{module}.py", "from __future__ import annotations\n", IMPORTS)
    for module, after, text in TABLES:
        insert(datasets / f"{module}.py", after, text)
    after = identities(tmp_path)
    assert sorted(set(after["sources"]) - set(before["sources"])) == sorted(["added", *ADDED.values()])  # type: ignore[call-overload]
    assert after["steps"] == before["steps"]
