"""Test ``hf:OWNER/NAME@COMMIT`` and model folders in ``marin cat``, ``compare`` and ``microanneal``."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from marin.data.tokenizer import train_bpe
from marin.store.files.directory import Directory
from tests.operators.servers import HubServer, serving
from tests.operators.test_pretrained_tokenizer import COMMIT
from tests.support.new_project import MARIN, told
from tests.support.project import ROOT
from tests.support.topics import topics

MODELS = ROOT / "tests/training/published"
MODEL = f"hf:lab/tiny@{COMMIT}"
QUESTION = (
    "{0} carries {1} stamps from the {2} to a friend, who already keeps {3} stamps in a box at home and gives none "
    "away. How many stamps are there in all?"
)
NAMES = ("Ann", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gail", "Hugo", "Ida", "Jon", "Kim", "Lena")
PLACES = (
    "market",
    "harbour",
    "library",
    "station",
    "garden",
    "theatre",
    "museum",
    "bakery",
    "school",
    "castle",
    "forest",
    "island",
)
MINE = '''\
"""Question: how well does our model answer our questions?"""

from marin import Experiment, executor_main
from operators.download import FsspecFiles, ReadItems
from operators.evaluate import Evaluate
from operators.pretrained_model import FolderModel

MINE = FolderModel(path="{0}/mine", label="mine")


def build(scale):
    questions = ReadItems(files=FsspecFiles(urls=("{0}/sums.jsonl",), label="sums"), label="sums")
    scores = Evaluate(
        checkpoint=MINE, tokenizer=MINE.tokenizer, tasks={{"sums": questions}}, window=64, stride=48, label="mine"
    )
    return Experiment(issue=1, repository="", question=__doc__, results={{"mine": scores}})


if __name__ == "__main__":
    executor_main(build)
'''


class Lab:
    """A folder with a model, text and questions, and a hub with another model. asked: the paths asked of the hub."""

    def __init__(self, folder: Path, base: str, asked: list[tuple[str, str]]) -> None:
        self.folder, self.asked = folder, asked
        self._hub = {"HF_ENDPOINT": base, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(folder / "home")}

    def marin(self, *arguments: str, ends: int = 0) -> str:
        return told(self.folder, str(MARIN), *arguments, ends=ends, **self._hub)

    def files_asked(self) -> set[str]:
        """Return the files asked of the hub since the last call."""
        found = {path.rpartition("/")[2] for path, _ in self.asked if "/resolve/" in path}
        self.asked.clear()
        return found


def copied(model: str, target: Path) -> Path:
    shutil.copytree(MODELS / model, target, ignore=shutil.ignore_patterns("logits.npz"))
    train_bpe(Directory(str(target)), ["some text to train on, and some more text"] * 9, 300)
    return target


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    files = {path.name: path.read_bytes() for path in copied("qwen3", tmp_path / "hub").iterdir()}
    copied("llama3", tmp_path / "mine")
    for name, texts in (("web", topics()[::2]), ("new", topics()[1::2])):
        (tmp_path / name).mkdir()
        for number, text in enumerate(texts):
            (tmp_path / name / f"{number}.txt").write_text(text)
    asked = [
        {"question": QUESTION.format(name, n + 7, place, 2 * n + 5), "answer": f"It is {3 * n + 12}. #### {3 * n + 12}"}
        for n, (name, place) in enumerate(zip(NAMES, PLACES, strict=True))
    ]
    (tmp_path / "sums.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    (tmp_path / "exp1_mine.py").write_text(MINE.format(tmp_path))
    log: list[tuple[str, str]] = []
    served: dict[str, object] = dict.fromkeys(("large", "lies", "gated"), frozenset[str]())
    served |= {"repo": "lab/tiny", "revision": COMMIT, "files": files, "log": log, "troubles": {}, "breaks": {}}
    with serving(HubServer, **served) as base:
        yield Lab(tmp_path, base, log)


@pytest.mark.slow
def test_a_published_model_writes_on_and_is_read_once(lab: Lab) -> None:
    ask = ("--prompt", "some text", "--tokens", "8", "--json")
    said = lab.marin("cat", MODEL, *ask)
    assert "run  pretrained-model/tiny" in said
    assert "model.safetensors" in lab.files_asked()
    again = lab.marin("cat", MODEL, *ask)
    assert lab.files_asked() == set()
    assert "pretrained-model/tiny" in again
    assert "never built" not in again
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    assert line in again
    assert line in lab.marin("cat", "pretrained-model/tiny", *ask)
    assert "was made from: nothing in the store" in lab.marin("lineage", MODEL)
    # A folder counts with its present content.
    assert "run  folder-model/mine" in lab.marin("cat", "./mine", *ask)
    assert "never built" not in lab.marin("cat", f"{lab.folder}/mine", *ask)
    (lab.folder / "mine/config.json").write_text((lab.folder / "mine/config.json").read_text() + "\n")
    changed = lab.marin("cat", "./mine", *ask, ends=Exit.EXPERIMENT)
    assert "./mine has changed since folder-model/mine was read from it" in changed
    assert "never built" not in lab.marin("cat", "folder-model/mine", *ask)


def test_what_names_no_model_that_marin_reads_is_refused(lab: Lab) -> None:
    branch = lab.marin("cat", "hf:lab/tiny@main", "--prompt", "x", ends=Exit.EXPERIMENT)
    assert "hf:lab/tiny@main: wanted hf:OWNER/NAME@ and a commit of 40 hex digits" in branch
    lab.marin("adopt", "sums.jsonl", "--kind", "raw_files", "--label", "sums", "--because", "a test")
    assert "the folder of a model is ./mine" in lab.marin("cat", "mine", "--prompt", "x", ends=Exit.EXPERIMENT)
    assert f"marin cat {MODEL} --prompt TEXT reads it in" in lab.marin("cat", MODEL, ends=Exit.EXPERIMENT)
    config = json.loads((lab.folder / "mine/config.json").read_text())
    (lab.folder / "mine/config.json").write_text(json.dumps(config | {"hidden_act": "gelu"}))
    said = lab.marin("cat", "./mine", "--prompt", "x", ends=Exit.FAILED)
    assert "hidden_act is 'gelu'; marin computes 'silu' only" in said
    assert "never built" not in said


@pytest.mark.slow
def test_published_models_are_compared_by_the_evaluation_of_ones_own(lab: Lab) -> None:
    lab.marin("run", "exp1_mine.py", "--backend", "inline")
    said = lab.marin("compare", MODEL, "mine")
    assert "run     evaluate/tiny" in said
    assert re.search(r"^tiny: evaluate/tiny .* of pretrained-model/tiny", said, re.MULTILINE)
    assert re.search(r"^sums/olmes/bpb +\d\.\d+ +\d\.\d+ .*\[", said, re.MULTILINE)
    lab.files_asked()
    again = json.loads(lab.marin("compare", MODEL, "mine", "--json"))
    assert lab.files_asked() == set()
    rows = {row["metric"]: row["values"] for row in again["rows"]}
    assert rows["sums/olmes/bpb"].keys() == {"tiny", "mine"}
    # Existing scores need no other model.
    assert "sums/olmes/bpb" in lab.marin("compare", MODEL, "mine=./mine")


def test_published_models_without_anything_to_compare_by_are_refused(lab: Lab) -> None:
    lab.marin("adopt", "sums.jsonl", "--kind", "raw_files", "--label", "sums", "--because", "a test")
    said = lab.marin("compare", MODEL, "./mine", ends=Exit.EXPERIMENT)
    assert f"{MODEL}, ./mine: the store " in said
    assert "does not know which tasks or text to use" in said
    assert "docs/howto/compare-published.md" in said


ANNEAL = ("microanneal", "--checkpoint", MODEL, "--candidate", "new", "--peak-lr", "1e-3", "--seeds", "2")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_published_model_is_cooled_down_with_and_without_a_candidate(lab: Lab) -> None:
    given = ("--control", "web", "--questions", "sums.jsonl", "--tokens", "12288", "--max-epochs", "100")
    said = lab.marin(*ANNEAL, *given, "--dry-run")
    assert "made microanneal_new.py" in said
    assert re.search(r"^run +judge/new ", said, re.MULTILINE)
    assert lab.files_asked() == {"config.json"}
    said = lab.marin("run", "microanneal_new.py", "--backend", "inline")
    assert re.search(r"new: (ADOPT|REJECT|EQUIVALENT|INCONCLUSIVE)\. ", said)
    (report,) = (lab.folder / "store/judge").glob("new-*/report.json")
    assert json.loads(report.read_text())["candidates"].keys() == {"new"}
    assert len(list((lab.folder / "store/train").iterdir())) == 4
    again = lab.marin(*ANNEAL, *given, "--dry-run")
    assert not re.search(r"^run ", again, re.MULTILINE)


def test_what_a_published_model_does_not_say_must_be_given(lab: Lab) -> None:
    said = lab.marin(*ANNEAL, "--questions", "sums.jsonl", ends=Exit.EXPERIMENT)
    assert "--control FOLDER: ordinary text like the model's own; without it every candidate is compared with" in said
    assert "--questions FILE" not in said
    assert re.search(
        rf"marin microanneal --checkpoint {MODEL} --candidate new --control FOLDER --questions sums.jsonl "
        r"--peak-lr 0\.001$",
        said,
        re.MULTILINE,
    )
    assert not (lab.folder / "microanneal_new.py").exists()
    assert lab.files_asked() == set()
