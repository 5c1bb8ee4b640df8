"""Test which items a run read: first against a slow search of every window, then against models that read the items."""

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from marin.data.mixture import BatchSchedule, Shuffle, Stages, mixture
from marin.data.order import DataOrder
from marin.data.token_store import TokenStore, write_token_store
from marin.data.tokenizer import LoadedTokenizer, load_tokenizer, train_bpe
from marin.errors import CorruptOutput
from marin.evaluation.contamination import THRESHOLD, Finding, Sets, read_saving, report
from marin.evaluation.exposure import Reads, count_reads, read_reads, total, write_reads
from marin.evaluation.formats import Format
from marin.evaluation.items import Item
from marin.evaluation.results import Results, item_result
from marin.evaluation.scoring import Scoring
from marin.store.files.directory import Directory
from marin.text.overlap import OverlapIndex
from marin.text.overlap_rule import Overlap
from tests.evaluation.models import Bytes, NGram
from tests.evaluation.problems import problems

MEMBERS, REFERENCE = problems(60, seed=11), problems(60, seed=12)
SETS = Sets(members="gsm", reference="gsm_reference")
INDEX = OverlapIndex(MEMBERS, Overlap())
SEQ_LEN = 64


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> LoadedTokenizer:
    out = Directory(str(tmp_path_factory.mktemp("tokenizer")))
    train_bpe(out, [Format.OLMES.text(item) for item in problems(200, seed=15)], 400)
    return load_tokenizer(out)


def store(tokenizer: LoadedTokenizer, texts: Sequence[str], where: Path) -> TokenStore:
    out = Directory(str(where))
    encoded = tokenizer.encode(texts)
    write_token_store(out, encoded, vocabulary=tokenizer.vocabulary, tokenizer=tokenizer.digest, eos=tokenizer.eos)
    return TokenStore.open(out)


@pytest.fixture(scope="module")
def stores(tokenizer: LoadedTokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TokenStore]:
    """Store every member once in math, in OLMES format between other problems, and no member in web."""
    root = tmp_path_factory.mktemp("stores")
    math = [Format.OLMES.text(item) for item in (*problems(40, seed=16), *MEMBERS)]
    web = [f"Page {number} is about the history of the town and of its harbour. " * 9 for number in range(60)]
    return {"math": store(tokenizer, math, root / "math"), "web": store(tokenizer, web, root / "web")}


def order_over(stores: dict[str, TokenStore]) -> DataOrder[str]:
    stages = Stages({0: mixture({"web": 1.0}), 4: mixture({"web": 0.7, "math": 0.3})})
    lengths = {name: held.sequences(SEQ_LEN) for name, held in stores.items()}
    return DataOrder(stages, lengths, BatchSchedule({0: 8}), Shuffle.FEISTEL, 1, 16)


def count(stores: dict[str, TokenStore], tokenizer: LoadedTokenizer, steps: range, pieces: int = 1) -> Reads:
    order = order_over(stores)
    looked = {order.sources.index(name): held for name, held in stores.items()}
    size = -(-len(steps) // pieces)
    counts = [
        count_reads(order, looked, steps[start : start + size], SEQ_LEN, INDEX, tokenizer.decode)
        for start in range(0, len(steps), size)
    ]
    return total(counts, order, looked, steps, INDEX)


def test_reads_are_those_of_a_slow_look_through_every_window(stores: dict[str, TokenStore], tokenizer: LoadedTokenizer):
    steps = range(3, 30)
    order = order_over(stores)
    times: Counter[str] = Counter()
    drawn: Counter[str] = Counter()
    holding = 0
    for number in range(steps.start * 8, steps.stop * 8):
        source, sequence = (int(held[0]) for held in order.at([number]))
        name = order.names[source]
        drawn[name] += 1
        tokens = stores[name].tokens[sequence * SEQ_LEN : (sequence + 1) * SEQ_LEN]
        held = {MEMBERS[hit.item].id for hit in INDEX.find(tokenizer.decode(tokens))}
        times.update(held)
        holding += bool(held)
    reads = count(stores, tokenizer, steps)
    assert {id: n for id, n in reads.reads.items() if n} == dict(times)
    assert 5 < len(times) < len(MEMBERS)
    assert max(times.values()) > 1
    assert dict(reads.of_sources) == dict(drawn)
    assert reads.sequences == 27 * 8
    assert reads.holding == {"math": holding, "web": 0}
    assert set(reads.reads) == {item.id for item in MEMBERS}
    assert reads.read | reads.unread == set(reads.reads)
    assert not reads.read & reads.unread
    assert reads.sentence == (
        f"read {len(times)} of 60 test items, {sum(times.values())} times in all, in {holding} of {drawn['math']} "
        "sequences of math between steps 3 and 30"
    )
    assert count(stores, tokenizer, steps, pieces=5) == reads


def test_before_the_stage_that_holds_them_nothing_was_read(stores: dict[str, TokenStore], tokenizer: LoadedTokenizer):
    reads = count(stores, tokenizer, range(4))
    assert reads.of_sources == {"math": 0, "web": 32}
    assert reads.sentence == "read none of 60 test items in 32 sequences of math, web between steps 0 and 4"


def test_a_pass_reads_an_answer_at_most_once_and_long_windows_lose_least(tokenizer: LoadedTokenizer, tmp_path: Path):
    """Windows cut problems: what stands across a cut is lost, never counted twice."""
    # Problems from one template resemble each other; here only those that are found in no other.
    alone = [item for item in MEMBERS if not OverlapIndex([item], Overlap()).find(_all_but(item, MEMBERS))]
    assert len(alone) > 10
    math, index = (
        store(tokenizer, [Format.OLMES.text(item) for item in alone], tmp_path),
        OverlapIndex(alone, Overlap()),
    )
    stages = Stages({0: mixture({"math": 1.0})})

    def copies_read(seq_len: int) -> float:
        windows = math.sequences(seq_len)
        order = DataOrder(stages, {"math": windows}, BatchSchedule({0: 1}), Shuffle.LINEAR, 0, 1)
        counted = count_reads(order, {0: math}, range(windows), seq_len, index, tokenizer.decode)
        reads = total([counted], order, [0], range(windows), index)
        answers = [copies["answer"] for copies in reads.parts.values()]
        assert max(answers) <= 1.0001  # shares are rounded to 4 digits
        return sum(answers) / len(alone)

    short, middle, long = (copies_read(seq_len) for seq_len in (64, 128, 512))
    assert 0.4 < short < middle < long < 1


def _all_but(item: Item, items: Sequence[Item]) -> str:
    return "\n\n".join(Format.OLMES.text(other) for other in items if other is not item)


def test_reads_survive_the_disk(stores: dict[str, TokenStore], tokenizer: LoadedTokenizer, tmp_path: Path):
    out, reads = Directory(str(tmp_path)), count(stores, tokenizer, range(3, 30))
    write_reads(out, reads)
    assert read_reads(out) == reads
    out.write_text("exposure.json", '{"reads": {}}')
    with pytest.raises(CorruptOutput, match=r"exposure\.json is no exposure"):
        read_reads(out)


READ = MEMBERS[:8]


def reads_of(whole: Sequence[Item], questions: Sequence[Item] = ()) -> Reads:
    parts = {item.id: {"question": 1.0, "answer": 1.0} for item in whole}
    parts |= {item.id: {"question": 1.0, "answer": 0.0} for item in questions}
    return Reads(
        first=160,
        end=192,
        sequences=9,
        of_sources={"math": 9},
        holding={"math": len(parts)},
        reads={item.id: int(item.id in parts) for item in MEMBERS},
        parts=parts,
        unindexed=[],
    )


def score(texts: Sequence[str]) -> Results:
    """An n-gram model pretrained on both formats, cooled down on texts, each read once."""
    model = NGram(10).train([form.text(item) for item in problems(60, seed=13) for form in Format]).train(texts)
    scoring = Scoring(model, Bytes(), 512, 256)
    return Results(
        {
            (task, form): [
                item_result(task, form, item, bits, {})
                for item, bits in zip(
                    items, scoring.continuations([(form.prompt(item), form.gold(item)) for item in items]), strict=True
                )
            ]
            for task, items in ((SETS.members, MEMBERS), (SETS.reference, REFERENCE))
            for form in Format
        }
    )


@pytest.fixture(scope="module")
def parent() -> Results:
    return score([])


@pytest.fixture(scope="module")
def mantis() -> Results:
    return score([Format.OLMES.text(item) for item in problems(60, seed=14)])


@pytest.fixture(scope="module")
def bison() -> Results:
    """Read 8 of the 60 test items, once, among 60 other problems."""
    return score([Format.OLMES.text(item) for item in (*problems(60, seed=14), *READ)])


def saving(arm: Results, other: Results, reads: Reads, form: Format = Format.OLMES) -> Finding:
    found = read_saving(arm, other, SETS, form, reads, "mantis")
    assert found is not None
    return found


def test_eight_items_read_once_show_where_the_gap_over_all_members_does_not(
    parent: Results, mantis: Results, bison: Results
):
    found = saving(bison, mantis, reads_of(READ))
    assert found.flagged
    assert found.estimate.value > 0.1
    assert found.wording.startswith(
        "flagged: extra saving on the 8 answers it read over the 52 test items it did not read, beyond mantis, olmes"
    )
    made, headline = report({"bison": bison, "mantis": mantis}, parent, "mantis", SETS, {"bison": reads_of(READ)})
    names = {one["name"].partition(" (")[0] for one in made["arms"]["bison"]["findings"] if one["flagged"]}
    assert "member gap of the gold beyond the parent, olmes format" not in names
    assert made["vetoes"] == {"bison": ["gsm"]}
    assert headline[4].startswith(
        "bison read 8 of 60 test items, 8 times in all, in 8 of 9 sequences of math between steps 160 and 192; "
        "strongest of 4 tests on them flagged: "
    )
    assert made["exposure"]["bison"]["reads"] == {item.id: 1 for item in READ}
    assert {"items": 8, "of": 60, "copies": 8}.items() <= made["exposure"]["bison"].items()


def test_items_that_were_not_read_are_not_flagged_as_read(parent: Results, mantis: Results, bison: Results):
    other = reads_of(MEMBERS[20:28])
    for arm, against in ((mantis, parent), (bison, mantis)):
        for form in Format:
            assert abs(saving(arm, against, other, form).estimate.z) < THRESHOLD


def test_an_item_of_which_only_the_question_was_read_is_in_neither_group(mantis: Results, bison: Results):
    assert saving(bison, mantis, reads_of(READ[:6], questions=READ[6:])).estimate.n == 58
    untold = dataclasses.replace(reads_of(READ), unindexed=[MEMBERS[30].id])
    assert saving(bison, mantis, untold).estimate.n == 59


def test_too_few_read_or_unread_and_nothing_is_tested(parent: Results, mantis: Results):
    for reads in (reads_of(READ[:1]), reads_of([]), reads_of(MEMBERS)):
        assert read_saving(mantis, parent, SETS, Format.OLMES, reads, "the parent") is None
    made, headline = report({"mantis": mantis}, parent, "mantis", SETS, {"mantis": reads_of([])})
    assert headline[2] == (
        "mantis read none of 60 test items in 9 sequences of math between steps 160 and 192: nothing can be tested on "
        "them (a test takes 2 answers read and 2 test items unread; 0 answers were read)"
    )
    without, _ = report({"mantis": mantis}, parent, "mantis", SETS)
    assert made["arms"] == without["arms"]
    assert without["exposure"] == {}


def test_reads_of_other_items_than_those_scored_are_refused(parent: Results, mantis: Results):
    strange = dataclasses.replace(reads_of([]), reads={"x": 3})
    with pytest.raises(CorruptOutput, match="60 items of gsm were scored but not looked for"):
        read_saving(mantis, parent, SETS, Format.OLMES, strange, "the parent")
