"""Cached text is looked through for evaluation items, and the checkpoints that read it are named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from marin import Checkpoint, Context, Documents, ExecutorStep, Tokens
from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.data.documents import Document, write_documents
from marin.evaluation.items import Item, write_items
from marin.store.files.directory import Directory
from marin.store.store import Store
from marin.upkeep.adopt import adopt
from operators.decontaminate import Decontaminate
from operators.download import FsspecFiles
from operators.read_suite import ReadSuite
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.support.aging import tree
from tests.support.toy import execute, planned, record_of, run, runs_otherwise
from tests.text.test_disguises import problems, shown

ITEMS = problems(20, 1)
SHORT = [Item("sum", "What is 7 + 8?", "15", "15"), Item("tiny", "2+2?", "4", "4")]
PLAIN = [f"Page {number} of a book about boats, nets and the {number} winds of the harbour." for number in range(12)]
PROBLEMS = [
    "\x1b[31mPractice.\n" + shown(ITEMS[3]),
    "More practice.\n" + json.dumps({"question": ITEMS[7].question, "answer": ITEMS[7].answer}),
    "The same again, " + shown(ITEMS[3]).upper(),
]


class Pages(ExecutorStep[Documents], op="toy-pages"):
    texts: tuple[str, ...]

    def run(self, ctx: Context) -> Documents:
        documents, size, shards = write_documents(ctx.out, [Document(text, "toy") for text in self.texts], 3)
        return Documents(documents=documents, bytes=size, shards=shards)


class Reads(ExecutorStep[Checkpoint], op="toy-reads"):
    """A training as far as lineage knows one."""

    tokens: tuple[ExecutorStep[Tokens], ...]
    parent: ExecutorStep[Checkpoint] | None = None

    def run(self, ctx: Context) -> Checkpoint:
        seen = sum(ctx[each].tokens for each in self.tokens)
        ctx.out.write_text("weights.txt", str(seen))
        return Checkpoint(step=1, tokens=seen, parameters=1, architecture="toy", loss=1.0)


WEB = Pages(texts=tuple(PLAIN), label="web")
MATH = Pages(texts=(*PLAIN[:6], *PROBLEMS), label="math")
TOKENIZER = TrainTokenizer(documents=(WEB,), vocabulary=300, label="toy")
WEB_TOKENS = Tokenize(documents=WEB, tokenizer=TOKENIZER, label="web")
MATH_TOKENS = Tokenize(documents=MATH, tokenizer=TOKENIZER, label="math")
BISON = Reads(tokens=(WEB_TOKENS, MATH_TOKENS), label="bison")
CHILD = Reads(tokens=(WEB_TOKENS,), parent=BISON, label="child")
INNOCENT = Reads(tokens=(WEB_TOKENS,), label="innocent")


def fixed(suite: str) -> dict[str, ExecutorStep[Any]]:
    """The same as Bison, after the fix."""
    items = ReadSuite(files=FsspecFiles(urls=(suite,), label="suite"), label="suite")
    clean = Decontaminate(documents=MATH, against=(items,), label="math")
    tokens = Tokenize(documents=clean, tokenizer=TOKENIZER, label="clean math")
    return {"mantis": Reads(tokens=(WEB_TOKENS, tokens), label="mantis")}


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As published: JSON lines with the fields of MMLU."""
    path = tmp_path_factory.mktemp("suite") / "asked.jsonl"
    rows = [
        {"id": item.id, "question": item.question, "choices": dict(item.others)["choices"].split("\n"), "answer": 1}
        for item in ITEMS
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, suite: str) -> Path:
    """Bison was made before the fix, Mantis after it."""
    prefix = tmp_path_factory.mktemp("contaminated") / "store"
    run(str(prefix), bison=BISON, child=CHILD, innocent=INNOCENT)
    run(str(prefix), **fixed(suite))
    return prefix


@pytest.fixture
def copy(store: Path, tmp_path: Path) -> Path:
    """To be spoilt."""
    return Path(shutil.copytree(store, tmp_path / "copy"))


def audit(store: Path | str, *arguments: str, expect: Exit = Exit.OK) -> str:
    done = CliRunner().invoke(
        main, ["audit", "contamination", *arguments, "--prefix", str(store)], env={"COLUMNS": "200"}
    )
    assert done.exit_code == expect, done.output
    return done.output


def found(store: Path | str, *arguments: str, expect: Exit = Exit.OK) -> dict[str, Any]:
    return json.loads(audit(store, *arguments, "--json", expect=expect))


def steps(rows: Iterable[dict[str, Any]]) -> set[str]:
    return {row["step"] for row in rows}


def spoilt(store: Path, step: ExecutorStep[Any], name: str) -> Path:
    return store / record_of(str(store), step).attempt / name


def test_it_names_text_and_checkpoints_and_changes_nothing(store: Path, suite: str) -> None:
    before = tree(store)
    made = found(store, "--against", suite, expect=Exit.DRIFT)
    assert steps(made["contaminated"]) == {"toy-pages/math", "tokenize/math"}
    for held in made["contaminated"]:
        assert (held["searched"]["texts"], held["searched"]["holding"]) == (9, 3)
        (of_suite,) = held["searched"]["suites"].values()
        assert of_suite["items"] == ["1/3", "1/7"]
        assert of_suite["texts"] == 3
        assert "json" in of_suite["forms"]
    (documents,) = [held for held in made["contaminated"] if held["kind"] == "documents"]
    passage = documents["searched"]["passages"][0]
    assert passage["place"] == "shard-00002-of-00003.parquet row 0"
    assert (passage["item"], passage["before"]) == ("1/3", "\x1b[31mPractice.\n")
    assert passage["text"].startswith("Which of ")
    ways = {
        each["checkpoint"]["step"]: [[at["step"] for at in way] for way in each["ways"]] for each in made["readings"]
    }
    bison = ["toy-pages/math", "tokenize/math", "toy-reads/bison"]
    assert ways == {"toy-reads/bison": [bison], "toy-reads/child": [[*bison, "toy-reads/child"]]}
    assert made["suites"][suite] == {"items": 20, "unindexed": [], "planted": 8, "found": 8}
    assert made["outputs"] == 6
    assert made["not_looked"] == []
    assert tree(store) == before


def test_stores_of_every_kind_are_read(any_prefix: str, suite: str) -> None:
    run(any_prefix, bison=BISON)
    made = found(any_prefix, "--against", suite, expect=Exit.DRIFT)
    assert steps(made["contaminated"]) == {"toy-pages/math", "tokenize/math"}
    assert steps(each["checkpoint"] for each in made["readings"]) == {"toy-reads/bison"}
    assert made["not_looked"] == []


def test_people_read_it(store: Path, suite: str) -> None:
    said = audit(store, "--against", suite, expect=Exit.DRIFT)
    assert "8 of 8" in said
    assert "toy-pages/math → tokenize/math → toy-reads/bison → toy-reads/child" in said
    assert "3 of 9 documents" in said
    assert " [31mPractice.⏎⟦Which of " in said, "nothing that a terminal would obey"
    assert "innocent" not in said
    assert "mantis" not in said


def test_after_the_fix_it_is_clean(store: Path, suite: str, tmp_path: Path) -> None:
    """Only the input of Decontaminate holds items, among all the inputs of Mantis."""
    names = ("decontaminate/math", "tokenize/clean math", "toy-pages/web", "tokenize/web")
    assert found(store, *names, "--against", suite)["contaminated"] == []
    prefix = tmp_path / "store"
    run(str(prefix), **fixed(suite))
    made = found(prefix, "--against", "read-suite/suite")
    assert steps(made["removed_later"]) == {"toy-pages/math"}
    assert made["readings"] == made["contaminated"] == []
    said = audit(prefix, "--against", suite)
    assert "contaminated, but everything built from it is clean: toy-pages/math" in said
    assert "clean: no item in any text that is used" in said


def test_an_experiment_is_audited_as_it_is_now(store: Path, suite: str, tmp_path: Path) -> None:
    """The audit ignores other steps in the store that read the input of Decontaminate."""

    def experiment(name: str, results: str) -> tuple[str, ...]:
        (tmp_path / name).write_text(
            "from marin import Experiment\nfrom tests.report.test_contamination import Pages, fixed\n\n\n"
            f"def build(scale):\n    return Experiment(issue=1, question='?', results={results})\n"
        )
        return ("--against", suite, "--experiment", str(tmp_path / name))

    made = found(store, *experiment("exp1_fixed.py", f"fixed({suite!r})"))
    assert steps(made["removed_later"]) == {"toy-pages/math"}
    assert made["readings"] == []
    new = experiment("exp2_new.py", f"fixed({suite!r}) | {{'web': Pages(texts=('a',), label='new')}}")
    assert found(store, *new, expect=Exit.STORE)["not_made"] == ["toy-pages/new"]
    assert "not in the store as the experiment has it now" in audit(store, *new, expect=Exit.STORE)


def test_several_suites_are_told_apart(store: Path, tmp_path: Path) -> None:
    write_items(Directory(str(tmp_path)), problems(20, 2))
    made = found(store, "--against", "read-suite/suite", "--against", str(tmp_path / "items.jsonl"), expect=Exit.DRIFT)
    assert [list(held["searched"]["suites"]) for held in made["contaminated"]] == [["read-suite/suite"]] * 2
    assert [each["found"] for each in made["suites"].values()] == [8, 8]


def test_only_what_is_named_is_looked_through(store: Path, suite: str) -> None:
    made = found(store, "tokenize/math", "--against", suite, expect=Exit.DRIFT)
    assert steps(made["contaminated"]) == {"tokenize/math"}
    assert steps(each["checkpoint"] for each in made["readings"]) == {"toy-reads/bison", "toy-reads/child"}
    assert "wanted documents or tokens" in audit(store, "bison", "--against", suite, expect=Exit.EXPERIMENT)


def test_short_answers_and_items_that_are_too_short(tmp_path: Path) -> None:
    write_items(Directory(str(tmp_path)), [*ITEMS, *SHORT])
    text = Pages(
        texts=(*PLAIN, "A page of sums. What is 7 + 8?\nAnswer: 15", "What is 7 + 8? Nobody knows."), label="sums"
    )
    run(str(tmp_path / "store"), sums=text)
    arguments = (tmp_path / "store", "--against", str(tmp_path / "items.jsonl"))
    made = found(*arguments, expect=Exit.DRIFT)
    assert [
        (held["searched"]["holding"], next(iter(held["searched"]["suites"].values()))["items"])
        for held in made["contaminated"]
    ] == [(1, ["sum"])]
    assert [each["unindexed"] for each in made["suites"].values()] == [["tiny"]]
    assert made["readings"] == []
    write_items(Directory(str(tmp_path)), SHORT[1:])
    assert "none of the 1 items can be found in any text" in audit(*arguments, expect=Exit.FAILED)


def test_a_sample_says_that_it_is_one(store: Path, suite: str) -> None:
    """The items are in the last of three shards."""
    made = found(store, "toy-pages/math", "--against", suite, "--every", "3")
    assert (made["texts"], made["every"]) == (3, 3)
    assert "2 shards in 3 were not looked at" in audit(store, "toy-pages/math", "--against", suite, "--every", "3")


def test_damage_is_said_and_hides_nothing(copy: Path, suite: str) -> None:
    file = spoilt(copy, MATH_TOKENS, "tokens.bin")
    content = bytearray(file.read_bytes())
    content[4:8] = bytes(4)
    file.write_bytes(bytes(content))
    spoilt(copy, WEB, "shard-00001-of-00003.parquet").unlink()
    made = found(copy, "--against", suite, expect=Exit.DRIFT)
    reasons = {row["step"]: row["problem"] for row in made["not_looked"]}
    assert set(reasons) == {"tokenize/math", "toy-pages/web"}
    assert "tokens.bin" in reasons["tokenize/math"]
    assert "shard-00001-of-00003.parquet" in reasons["toy-pages/web"]
    assert steps(made["contaminated"]) == {"toy-pages/math", "tokenize/math"}, "what could be read holds items"
    said = audit(copy, "toy-pages/web", "--against", suite, expect=Exit.STORE)
    assert "not everything could be looked through" in said


def test_what_was_deleted_may_have_been_read(copy: Path, suite: str) -> None:
    shutil.rmtree(spoilt(copy, MATH_TOKENS, "."))
    made = found(copy, "--against", suite, expect=Exit.DRIFT)
    assert steps(made["contaminated"]) == {"toy-pages/math"}
    (bison, child) = sorted(made["readings"], key=lambda each: each["checkpoint"]["step"])
    assert bison["ways"] == child["ways"] == []
    assert [at["step"] for at in bison["doubtful"][0]] == ["toy-pages/math", "tokenize/math", "toy-reads/bison"]
    assert steps(child["unknown"]) == {"tokenize/math"}
    shutil.rmtree(spoilt(copy, MATH, "."))
    made = found(copy, "--against", suite, expect=Exit.STORE)
    assert steps(made["not_looked"]) == {"toy-pages/math", "tokenize/math"}
    assert steps(each["checkpoint"] for each in made["readings"]) == {"toy-reads/bison", "toy-reads/child"}, (
        "nobody can tell"
    )
    shutil.rmtree(spoilt(copy, WEB, "."))
    assert "its bytes are missing" in audit(copy, "toy-pages/web", "--against", suite, expect=Exit.STORE)


def test_tokens_made_from_clean_text_are_clean_without_their_bytes(copy: Path, suite: str) -> None:
    shutil.rmtree(spoilt(copy, WEB_TOKENS, "."))
    made = found(copy, "--against", suite, expect=Exit.DRIFT)
    assert steps(made["not_looked"]) == {"tokenize/web"}
    assert steps(each["checkpoint"] for each in made["readings"]) == {"toy-reads/bison", "toy-reads/child"}, (
        "the innocent one read clean text"
    )


def test_tokens_without_their_tokenizer(store: Path, suite: str, tmp_path: Path) -> None:
    """The tokens come from another store, without the tokenizer."""
    there = record_of(str(store), MATH_TOKENS)
    shutil.copytree(store / there.attempt, tmp_path / "tokens", ignore=shutil.ignore_patterns(".marin"))
    other = tmp_path / "other"
    run(str(other), web=WEB)
    given: dict[str, Any] = {"kind": "tokens", "label": "math", "because": "a test", "facts": there.facts}
    adopt(Store(str(other)), str(tmp_path / "tokens"), **given, on_message=lambda _: None)
    made = found(other, "--against", suite, expect=Exit.STORE)
    (row,) = made["not_looked"]
    assert row["step"] == "adopt/math"
    assert row["problem"].startswith(
        f"the store does not hold the tokenizer of these tokens, whose digest is {there.facts['tokenizer'][:12]}"
    )
    run(str(other), tokenizer=TOKENIZER)
    assert steps(found(other, "--against", suite, expect=Exit.DRIFT)["contaminated"]) == {"adopt/math"}


def test_what_is_no_suite_is_refused(store: Path, tmp_path: Path) -> None:
    (tmp_path / "suite.txt").write_text("What is this?")
    assert "wanted JSON, JSON lines, CSV or Parquet" in audit(
        store, "--against", str(tmp_path / "suite.txt"), expect=Exit.EXPERIMENT
    )
    assert "holds documents, wanted items" in audit(store, "--against", "toy-pages/web", expect=Exit.EXPERIMENT)
    assert "--against" in audit(store, expect=Exit.USAGE)
    assert "nothing in the store" in audit(store, "--against", "asked", expect=Exit.EXPERIMENT)


def test_replaced_text_is_looked_through_as_well(copy: Path, suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild does not change the checkpoints that trained on the earlier text."""
    runs_otherwise(monkeypatch, Pages, _cleaned)
    execute(planned(str(copy), rebuild=("toy-pages/math",), math=MATH))
    monkeypatch.undo()
    made = found(copy, "--against", suite, expect=Exit.DRIFT)
    assert made["outputs"] == 7
    assert steps(made["contaminated"]) == {"toy-pages/math", "tokenize/math"}
    assert steps(each["checkpoint"] for each in made["readings"]) == {"toy-reads/bison", "toy-reads/child"}


def _cleaned(_: Pages, ctx: Context) -> Documents:
    documents, size, shards = write_documents(ctx.out, [Document(text, "toy") for text in PLAIN], 3)
    return Documents(documents=documents, bytes=size, shards=shards)
