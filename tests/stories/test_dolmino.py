"""Test the Dolmino story: a tokenized bundle holds test items, another experiment pins it, then it is revoked."""

import json
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep, Pinned, Tokens
from marin.plan.decision import Action
from marin.report.claims import StoreClaims, Subject
from marin.report.lineage_tree import Direction, LineageTree
from marin.store.lineage import Output, read_lineage
from marin.store.record import Record
from marin.store.revocation import revoke, revoked
from marin.store.store import Store
from operators.datasets.rehearsal.math_problems import Bundle, GenerateItems, ProblemDocuments
from operators.datasets.rehearsal.problem_forms import Form
from operators.datasets.rehearsal.problems import Split
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.cli.test_cli import DRIFT, Command
from tests.support.project import Project
from tests.support.toy import execute, planned, ran, run

CLEAN = ProblemDocuments(
    items=GenerateItems(seed=1, count=8, split=Split.TRAIN, label="train"), form=next(iter(Form)), label="clean"
)
LEAKED = ProblemDocuments(
    items=GenerateItems(seed=2, count=4, split=Split.TEST, label="gsm8k-test"), form=next(iter(Form)), label="leaked"
)
TOKENIZER = TrainTokenizer(documents=(CLEAN,), vocabulary=300, label="bpe")
DOLMINO = Tokenize(documents=Bundle(parts=(CLEAN, LEAKED), label="dolmino"), tokenizer=TOKENIZER, label="dolmino")
FIXED = Tokenize(documents=Bundle(parts=(CLEAN,), label="dolmino-fixed"), tokenizer=TOKENIZER, label="dolmino-fixed")


class TinyTrain(ExecutorStep[Checkpoint], op="tiny-train"):
    """A checkpoint that depends on the tokens that it was given, and on nothing else."""

    data: ExecutorStep[Tokens]

    def run(self, ctx: Context) -> Checkpoint:
        tokens = ctx[self.data]
        ctx.out.write_bytes("weights.bin", tokens.directory.read_bytes("tokens.bin")[:64])
        ctx.out.write_text("seen.json", json.dumps(tokens.tokens))
        return Checkpoint(step=1, tokens=tokens.tokens, parameters=1, architecture="tiny")


def of(store: Store, step: ExecutorStep[Tokens] | ExecutorStep[Checkpoint]) -> Record:
    record = store.record(step.identity)
    assert record is not None
    return record


def test_every_checkpoint_is_named_and_both_experiments_refuse(tmp_path: Path) -> None:
    prefix = str(tmp_path / "store")
    store = Store(prefix)
    bison = TinyTrain(data=DOLMINO, label="bison")
    mantis = TinyTrain(data=FIXED, label="mantis")
    run(prefix, bison=bison, mantis=mantis)
    bad, fixed = of(store, DOLMINO), of(store, FIXED)
    assert bad.root != fixed.root

    # Another experiment names the old output by its path, under a label that says nothing of Dolmino.
    pin = Pinned[Tokens](at=bad.attempt, digest=bad.root, label="math")
    other = TinyTrain(data=pin, label="innocent")
    assert ran(run(prefix, other=other)) <= {"tiny-train/innocent"}
    assert of(store, other).kind == "checkpoint"

    revoke(store, bad, "holds GSM8K test items", fixed)

    lineage = read_lineage(store)
    family = LineageTree(
        Direction.DOWN, [Output(bad.identity, bad.root)], lineage, StoreClaims(store, lineage, revoked(store))
    )
    checkpoints = {
        lineage.records[output].name: family.claims[output][0].subject
        for output in family.found
        if lineage.records[output].kind == "checkpoint"
    }
    assert checkpoints == {
        "tiny-train/bison": Subject.UNTRUSTED,
        "tiny-train/innocent": Subject.UNTRUSTED,
    }

    for step in (bison, other):
        stopped = planned(prefix, end=step).of(step)
        assert stopped.action is Action.STOP
        assert "holds GSM8K test items; use tokenize/dolmino-fixed" in stopped.reason
    assert planned(prefix, end=mantis).of(mantis).action is Action.CACHED
    assert ran(execute(planned(prefix, end=mantis))) == set()


OPERATORS = '''
"""How text becomes a checkpoint, in a few lines."""
from marin import Checkpoint, Context, Documents, ExecutorStep, Tokens
from marin.data.documents import Document, read_documents, write_documents
from lib.rules import keep


class Bundle(ExecutorStep[Documents], op="bundle"):
    texts: tuple[str, ...]

    def run(self, ctx: Context) -> Documents:
        kept = [Document(text) for text in self.texts if keep(text)]
        documents, size, shards = write_documents(ctx.out, kept)
        return Documents(documents=documents, bytes=size, shards=shards)


class Tokenize(ExecutorStep[Tokens], op="tokenize"):
    documents: ExecutorStep[Documents]

    def run(self, ctx: Context) -> Tokens:
        text = " ".join(document.text for document in read_documents(ctx[self.documents].directory))
        ctx.out.write_text("tokens.txt", text)
        return Tokens(tokens=len(text.split()), documents=1, vocabulary=9, tokenizer="words")


class Train(ExecutorStep[Checkpoint], op="train"):
    tokens: ExecutorStep[Tokens]
    seed: int = 0

    def run(self, ctx: Context) -> Checkpoint:
        seen = ctx[self.tokens].directory.read_text("tokens.txt")
        ctx.out.write_text("weights.txt", f"{self.seed} {seen}")
        return Checkpoint(step=1, tokens=len(seen.split()), parameters=1, architecture="parrot")
'''
RULES = '''
"""Which text is fit to train on."""
BANNED = ("gsm8k-tset",)


def keep(text: str) -> bool:
    return not any(word in text for word in BANNED)
'''
FIRST = '''
"""Does math help?"""
from lib.steps import Bundle, Tokenize, Train
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale


def build(scale: Scale) -> Experiment:
    dolmino = Tokenize(documents=Bundle(texts=("sums", "gsm8k-test 7+2=9"), label="dolmino"), label="dolmino")
    return Experiment(issue=1, question=__doc__, results={"bison": Train(tokens=dolmino, label="bison")})


if __name__ == "__main__":
    executor_main(build)
'''
SECOND = '''
"""Does it help with another seed?"""
from lib.steps import Train
from marin import Pinned, Tokens
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale

MATH = Pinned[Tokens](at={at!r}, digest={digest!r}, label="math", because={because!r})


def build(scale: Scale) -> Experiment:
    return Experiment(issue=2, question=__doc__, results={{"innocent": Train(tokens=MATH, seed=1, label="innocent")}})


if __name__ == "__main__":
    executor_main(build)
'''


def test_a_fix_without_a_version_is_noticed_by_whoever_pins_the_old_path(tmp_path: Path) -> None:
    project = Project(tmp_path / "project", FIRST)
    (project.folder / "lib/steps.py").write_text(OPERATORS)
    project.words = project.folder / "lib/rules.py"
    project.words.write_text(RULES)
    marin, where = Command(project), ("--prefix", str(project.store))
    project.run()
    (cached,) = json.loads(marin("ls", "tokenize/dolmino", "--json", *where))
    pinned = {"at": cached["output"].removeprefix(f"{project.store}/"), "digest": cached["root"]}

    project.edit("gsm8k-tset", "gsm8k-test")  # the preprocessing is fixed; nobody raises a version
    assert "lib.rules.BANNED changed" in project.run(expect=DRIFT)

    # Another experiment pins the old tokens by their path, under a label that says nothing of Dolmino.
    project.file = project.folder / "exp2_innocent.py"
    project.file.write_text(SECOND.format(**pinned, because=""))
    said = project.run(expect=DRIFT)
    assert "pinned/math" in said
    assert "lib.rules.BANNED changed" in said
    assert "since bundle/dolmino was made" in said
    project.file.write_text(SECOND.format(**pinned, because="a test item more or less"))
    project.run()
    assert "pinned although lib.rules.BANNED changed" in marin.on("audit")

    marin("revoke", "bundle/dolmino", "--because", "holds GSM8K test items", *where)
    assert "holds GSM8K test items" in project.run(expect=DRIFT)
    told = json.loads(marin("lineage", "bundle/dolmino", "--down", "--kind", "checkpoint", "--json", *where))
    assert {held["step"] for held in told["outputs"] if held.get("kind") == "checkpoint"} == {
        "train/bison", "train/innocent",
    }  # fmt: skip
    assert "not to be trusted: revoked" in marin.on("audit", expect=DRIFT)
