"""A store from before the packages were renamed still serves its outputs to the code of today."""

from __future__ import annotations

import json
from pathlib import Path

from marin.fingerprint.closure import DIGITS
from marin.fingerprint.moved import named_before
from marin.fingerprint.of_step import executed
from marin.plan.observed import places_of
from marin.steps.value import digest
from marin.store.layout import ENDS
from tests.support.line_server import ROOT
from tests.support.project import Project

MADE = '''
"""A step whose code says the name of its module."""
from marin import Experiment, Scale, executor_main
from operators.datasets.rehearsal.python_text import PydocPages, Share


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"pages": PydocPages(share=Share(0, 5), label="some")})


if __name__ == "__main__":
    executor_main(build)
'''
PINNED = '''
"""The same output, by its bytes."""
from marin import Context, Experiment, ExecutorStep, Pinned, RawFiles, Scale, executor_main
from tests.support.toy import Blob


class Again(ExecutorStep[Blob], op="again"):
    pages: ExecutorStep[RawFiles]

    def run(self, ctx: Context) -> Blob:
        return Blob(bytes=0)


def build(scale: Scale) -> Experiment:
    pin = Pinned(at={at!r}, digest={digest!r}, label="old")
    return Experiment(issue=2, question=__doc__, results={{"again": Again(pages=pin, label="again")}})


if __name__ == "__main__":
    executor_main(build)
'''


def with_the_old_names(store: Path) -> None:
    """Rewrite the store to the state of a store whose output was made under the old names."""
    (code,) = (store / ".marin/code").iterdir()
    held = json.loads(code.read_text())
    sources = {named_before(name): named_before(text) for name, text in held["sources"].items()}
    units = {name: digest(text.encode())[:DIGITS] for name, text in sources.items()}
    then = digest("\n".join(f"{name} {units[name]}" for name in sorted(units)).encode())
    assert "operators" not in str([*units, *sources.values()])
    code.with_stem(then).write_text(json.dumps(held | {"units": units, "sources": sources}))
    for path in [*store.glob("*/*/.marin/record.json"), *(store / ENDS).iterdir()]:
        record = json.loads(path.read_text().replace(code.stem, then))
        record.pop("digest")
        path.write_text(json.dumps(record))
    code.unlink()


def test_what_was_made_under_the_old_names_is_cached_and_pinned(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", MADE)
    assert "1 steps: 1 run" in project.run()
    with_the_old_names(project.store)
    assert "1 steps: 1 cached" in project.run("--dry-run")
    (path,) = (project.store / ENDS).iterdir()
    record = json.loads(path.read_text())
    project.file = project.folder / "exp2_pinned.py"
    project.file.write_text(PINNED.format(at=record["attempt"], digest=record["root"]))
    said = project.run("--dry-run")
    assert "2 steps: 1 alias, 1 run" in said, said


def test_code_that_was_found_by_its_old_name_is_found_today() -> None:
    path = Path(places_of(None).path("marin_datasets/corpus.py"))
    assert path == ROOT / "operators/datasets/corpus.py"
    texts = executed().named("operators.datasets.corpus.Corpus", path) or {}
    assert {digest(named_before(text).encode())[:DIGITS] for text in texts.values()} <= texts.keys()
