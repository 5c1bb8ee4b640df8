"""The Dolmino story: a tokenized bundle holds test items, another experiment pins it, and then it is revoked."""

import json
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep, Pinned, Tokens
from marin.data.problem_forms import Form
from marin.data.problems import Split
from marin.decision import Action
from marin.family import Direction, Family
from marin.lineage import Output, read_lineage
from marin.marks import MarkKind, Marks
from marin.record import Record
from marin.revocation import revoke, revoked
from marin.store import Store
from operators.generate import Bundle, GenerateItems, ProblemDocuments
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.engine.toy import execute, planned, ran, run

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
    family = Family(Direction.DOWN, [Output(bad.identity, bad.root)], lineage, Marks(store, lineage, revoked(store)))
    checkpoints = {
        lineage.records[output].name: family.marks[output][0].kind
        for output in family.found
        if lineage.records[output].kind == "checkpoint"
    }
    assert checkpoints == {"tiny-train/bison": MarkKind.UNTRUSTED, "tiny-train/innocent": MarkKind.UNTRUSTED}

    for step in (bison, other):
        stopped = planned(prefix, end=step).of(step)
        assert stopped.action is Action.STOP
        assert "holds GSM8K test items; use tokenize/dolmino-fixed" in stopped.reason
    assert planned(prefix, end=mantis).of(mantis).action is Action.CACHED
    assert ran(execute(planned(prefix, end=mantis))) == set()
