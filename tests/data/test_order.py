"""DataOrder against a slow reference that walks the run from its start, and its promises as properties."""

import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.data.apportion import Apportionment
from marin.data.mixture import BatchSchedule, ByTokens, Interpolation, Mixture, Shuffle, Stages, mixture
from marin.data.order import DataOrder
from marin.data.order_spec import OrderSpec
from marin.data.permutation import draw, raw_stream
from marin.data.token_store import TokenStore, write_token_store
from marin.errors import BadField, LabelClash, StarvedSource, TokenizerMismatch, TooManyEpochs
from marin.store.files.directory import Directory

SOURCES = ("web", "code", "math", "wiki")
LENGTHS = {"web": 100, "code": 37, "math": 8, "wiki": 1}
MIXTURES = st.dictionaries(st.sampled_from(SOURCES), st.floats(0.01, 1), min_size=1).map(mixture)
PRETRAINING = mixture({"web": 0.7, "code": 0.3})
COOLDOWN = mixture({"web": 0.5, "code": 0.2, "math": 0.3})
BATCH = BatchSchedule({0: 4, 3: 3, 9: 5})


@st.composite
def orders(draw_: st.DrawFn) -> tuple[DataOrder[str], int]:
    """An order and the number of steps to look at."""
    starts = sorted(draw_(st.sets(st.integers(1, 20), max_size=3)))
    stages = Stages({start: draw_(MIXTURES) for start in (0, *starts)})
    batch = BatchSchedule({0: draw_(st.integers(1, 6)), 4: draw_(st.integers(1, 6))})
    shuffle, seed = draw_(st.sampled_from(Shuffle)), draw_(st.integers(0, 99))
    return DataOrder(stages, LENGTHS, batch, shuffle, seed, draw_(st.integers(1, 40))), draw_(st.integers(1, 30))


def walked(order: DataOrder[str], steps: int) -> list[tuple[str, int]]:
    """The run from its start: counters per source, one sequence after the other."""
    drawn, out = Counter[str](), []
    place = 0
    for step in range(steps):
        start = max(start for start in order.stages.starts if start <= step)
        if step == start:
            place, block = 0, []
        active = [source for source in order.sources if source in order.stages.at[start].weights]
        shares = Apportionment([order.stages.at[start].weights[source] for source in active])
        for _ in range(order.batch.batch(step)):
            if place % order.block == 0:
                before, after = shares.counts(place), shares.counts(place + order.block)
                block = [s for s, a, b in zip(active, before, after, strict=True) for _ in range(b - a)]
                keys = raw_stream("block", order.seed, start, place // order.block).random_raw(order.block)
                block = [source for _, source in sorted(zip(keys.tolist(), block, strict=True))]
            source = block[place % order.block]
            epoch, x = divmod(drawn[source], LENGTHS[source])
            key = order._keys[order.sources.index(source)]
            material = (order.seed, key) if order.shuffle is Shuffle.LINEAR else (order.seed, key, epoch)
            out.append((source, int(draw(order.shuffle, LENGTHS[source], *material)(np.array([x]))[0])))
            drawn[source] += 1
            place += 1
    return out


def named(order: DataOrder[str], indices: range) -> list[tuple[str, int]]:
    source, sequence = order.at(indices)
    return [(order.sources[s], int(i)) for s, i in zip(source, sequence, strict=True)]


@settings(max_examples=60, deadline=None)
@given(orders())
def test_random_access_is_the_walk(made: tuple[DataOrder[str], int]):
    order, steps = made
    total = order.batch.sequences_before(steps)
    reference = walked(order, steps)
    assert named(order, range(total)) == reference
    assert named(order, range(total - 1, -1, -1)) == reference[::-1]
    for step in range(steps):
        first, end = order.batch.sequences_before(step), order.batch.sequences_before(step + 1)
        assert [a.tolist() for a in order.batch_at(step)] == [a.tolist() for a in order.at(range(first, end))]


@settings(max_examples=60, deadline=None)
@given(orders(), st.data())
def test_effective_counts_are_what_is_drawn(made: tuple[DataOrder[str], int], data: st.DataObject):
    order, steps = made
    first = data.draw(st.integers(0, steps))
    rows = walked(order, steps)[order.batch.sequences_before(first) :]
    counted = Counter(source for source, _ in rows)
    assert order.effective_counts(first, steps) == {source: counted[source] for source in order.sources}


@settings(max_examples=60, deadline=None)
@given(orders())
def test_every_epoch_of_a_source_is_all_of_it(made: tuple[DataOrder[str], int]):
    order, steps = made
    per_source: dict[str, list[int]] = {source: [] for source in order.sources}
    for source, sequence in named(order, range(order.batch.sequences_before(steps))):
        per_source[source].append(sequence)
    for source, drawn in per_source.items():
        length = LENGTHS[source]
        for start in range(0, len(drawn), length):
            epoch = drawn[start : start + length]
            assert len(set(epoch)) == len(epoch)
            if order.shuffle is Shuffle.LINEAR:
                assert epoch == drawn[: len(epoch)]


@settings(max_examples=40, deadline=None)
@given(MIXTURES, st.integers(1, 15), st.sampled_from(Shuffle), st.integers(1, 40))
def test_a_fork_goes_on_where_its_parent_stood(tail: Mixture[str], fork: int, shuffle: Shuffle, block: int):
    """Up to the fork both read the same; together, parent and fork walk each source without a gap."""
    parent = DataOrder(Stages({0: PRETRAINING}), LENGTHS, BATCH, shuffle, 5, block)
    forked = DataOrder(Stages({0: PRETRAINING, fork: tail}), LENGTHS, BATCH, shuffle, 5, block)
    total = BATCH.sequences_before(fork)
    assert named(parent, range(total)) == named(forked, range(total))
    for source, passes in forked.epochs(fork).items():
        assert passes == parent.epochs(fork).get(source, 0)
    rows = named(forked, range(BATCH.sequences_before(fork + 20)))
    for source in forked.sources:
        drawn = [sequence for name, sequence in rows if name == source][: LENGTHS[source]]
        assert len(set(drawn)) == len(drawn)


def test_feistel_takes_a_new_order_each_epoch_and_linear_does_not():
    for shuffle, same in ((Shuffle.LINEAR, True), (Shuffle.FEISTEL, False)):
        order = DataOrder(Stages({0: mixture({"web": 1.0})}), LENGTHS, BatchSchedule({0: 100}), shuffle, 1, 10)
        assert (order.batch_at(0)[1].tolist() == order.batch_at(1)[1].tolist()) is same


def test_the_order_of_writing_and_the_process_change_nothing():
    backwards = Stages({0: mixture({"math": 0.3, "code": 0.2, "web": 0.5})})
    one = DataOrder(Stages({0: COOLDOWN}), LENGTHS, BATCH, Shuffle.FEISTEL, 1, 16)
    two = DataOrder(backwards, dict(reversed(LENGTHS.items())), BATCH, Shuffle.FEISTEL, 1, 16)
    three = pickle.loads(pickle.dumps(one))
    assert named(one, range(60)) == named(two, range(60)) == named(three, range(60))
    other_seed = DataOrder(backwards, LENGTHS, BATCH, Shuffle.FEISTEL, 2, 16)
    assert named(one, range(60)) != named(other_seed, range(60))


def test_a_pinned_batch():
    """Every trained checkpoint depends on the meaning of its seed."""
    order = DataOrder(Stages({0: PRETRAINING, 5: COOLDOWN}), LENGTHS, BATCH, Shuffle.FEISTEL, 0, 8)
    assert named(order, range(BATCH.sequences_before(7), BATCH.sequences_before(10))) == [
        ("web", 74),
        ("web", 77),
        ("math", 7),
        ("math", 1),
        ("web", 81),
        ("web", 37),
        ("math", 0),
        ("code", 19),
        ("web", 79),
        ("web", 19),
        ("web", 99),
    ]


def test_shares_are_exact_within_every_block():
    order = DataOrder(Stages({0: COOLDOWN}), LENGTHS, BatchSchedule({0: 10}), Shuffle.FEISTEL, 0, 10)
    for step in range(50):
        source, _ = order.batch_at(step)
        counted = Counter(order.sources[number] for number in source)
        assert counted == {"web": 5, "code": 2, "math": 3}


def starving() -> DataOrder[str]:
    rare = mixture({"web": 0.6995, "code": 0.3, "wiki": 0.0005})
    return DataOrder(Stages({0: PRETRAINING, 10: rare}), LENGTHS, BatchSchedule({0: 4}), Shuffle.FEISTEL, 0, 64)


def test_a_source_that_would_get_nothing_stops_the_run():
    with pytest.raises(StarvedSource, match=r"wiki \(weight 0.0500%\) gets none of the 80 sequences.*at step 10"):
        starving().check(10, 30, max_epochs=99)
    found = starving().check(10, 30, max_epochs=99, allow_starved=("wiki",))
    assert [(each.name, each.stage, each.sequences) for each in found] == [("wiki", 10, 80)]
    assert starving().check(0, 10, max_epochs=99) == ()


def test_the_remedy_that_the_message_names_is_enough():
    needed = starving().starved(10, 30)[0].steps_needed
    assert starving().check(10, 10 + needed, max_epochs=9999) == ()
    assert starving().starved(10, 10 + needed // 4) != ()


def test_allowances_and_lengths_must_name_sources():
    with pytest.raises(BadField, match="'wikki', which is no source"):
        starving().check(10, 30, max_epochs=99, allow_starved=("wikki",))
    with pytest.raises(BadField, match="the source math has no length"):
        DataOrder(Stages({0: COOLDOWN}), {"web": 1, "code": 1}, BATCH, Shuffle.LINEAR, 0, 8)
    with pytest.raises(StarvedSource, match="math holds 0 whole sequences"):
        DataOrder(Stages({0: COOLDOWN}), {**LENGTHS, "math": 0}, BATCH, Shuffle.LINEAR, 0, 8)
    with pytest.raises(BadField, match="block is 0"):
        DataOrder(Stages({0: COOLDOWN}), LENGTHS, BATCH, Shuffle.LINEAR, 0, 0)
    with pytest.raises(IndexError, match="sequence -1"):
        DataOrder(Stages({0: COOLDOWN}), LENGTHS, BATCH, Shuffle.LINEAR, 0, 8).at(np.array([-1]))


def test_two_sources_of_one_name_are_refused():
    mixed = Stages({0: mixture({1: 0.5, "1": 0.5})})
    with pytest.raises(LabelClash, match="called 1"):
        DataOrder(mixed, {1: 9, "1": 9}, BATCH, Shuffle.LINEAR, 0, 8)


def test_too_many_epochs_stop_the_run():
    order = DataOrder(Stages({0: COOLDOWN}), LENGTHS, BatchSchedule({0: 10}), Shuffle.FEISTEL, 0, 10)
    order.check(0, 10, max_epochs=4)  # 30 draws of math's 8 sequences
    with pytest.raises(TooManyEpochs, match=r"math is read 4\.12 times by step 11; at most 4"):
        order.check(10, 11, max_epochs=4)


def stores(folder: Path, **texts: tuple[int, str]) -> dict[str, TokenStore]:
    for name, (length, tokenizer) in texts.items():
        documents = [[token % 50 + 2, token % 7 + 2] for token in range(length)]
        write_token_store(Directory(str(folder / name)), documents, vocabulary=99, tokenizer=tokenizer, eos=0)
    return {name: TokenStore.open(Directory(str(folder / name))) for name in texts}


def spec(**changes: object) -> OrderSpec[str]:
    given_: dict = {"stages": Stages({0: COOLDOWN}), "batch": BATCH, "shuffle": Shuffle.FEISTEL, "seed": 0, "block": 16}
    return OrderSpec(**{**given_, "seq_len": 4, "first": 0, "end": 8, **changes})


def test_an_order_depends_on_content_not_on_names(tmp_path: Path):
    held = stores(tmp_path, web=(90, "t"), code=(60, "t"), math=(50, "t"))
    order = spec().order(held)
    assert dict(zip(order.names, order.lengths, strict=True)) == {"web": 67, "code": 45, "math": 37}
    renamed = Stages({0: mixture({"w": 0.5, "c": 0.2, "m": 0.3})})
    again = spec(stages=renamed).order({"w": held["web"], "c": held["code"], "m": held["math"]})
    assert [a.tolist() for a in order.at(range(20))] == [a.tolist() for a in again.at(range(20))]


def test_stores_of_equal_bytes_are_walked_apart(tmp_path: Path):
    held = stores(tmp_path, web=(90, "t"), code=(90, "t"), math=(50, "t"))
    order = spec(stages=Stages({0: mixture({"web": 0.5, "code": 0.5})})).order(held)
    source, sequence = order.at(range(60))
    assert sequence[source == 0].tolist() != sequence[source == 1].tolist()


def test_the_gates_of_a_spec(tmp_path: Path):
    with pytest.raises(TokenizerMismatch, match="code: u"):
        spec().order(stores(tmp_path, web=(90, "t"), code=(60, "u"), math=(50, "t")))
    with pytest.raises(TooManyEpochs, match="math is read"):
        spec(max_epochs=0.1).order(stores(tmp_path, web=(90, "t"), code=(60, "t"), math=(50, "t")))
    with pytest.raises(BadField, match="first is step 8 and end 8"):
        spec(first=8)


INTERPOLATED = Stages({0: PRETRAINING, 10: Interpolation(COOLDOWN, steps=40)})


def interpolated(seed: int = 0, **more: Stages[str]) -> DataOrder[str]:
    stages = more.get("stages", INTERPOLATED)
    return DataOrder(stages, {**LENGTHS, "math": 4000}, BatchSchedule({0: 50}), Shuffle.SPLITMIX, seed, 50)


def test_an_interpolation_is_what_explicit_stages_of_every_step_come_to():
    """One stage instead of 40: every step's counts are within two draws of the mixture of its middle."""
    order = interpolated()
    for step in range(10, 60):
        drawn = order.effective_counts(step, step + 1)
        for source, share in INTERPOLATED.active(step).resolved({}).weights.items():
            assert abs(drawn[source] - 50 * share) < 3, (step, source)
    meant = order.meant_counts(10, 50)
    assert sum(meant.values()) == pytest.approx(2000)
    assert meant["math"] == pytest.approx(0.15 * 2000)
    assert all(abs(order.effective_counts(10, 50)[source] - count) < 3 for source, count in meant.items())


def test_random_access_within_an_interpolation_and_a_fork_in_its_middle():
    order = interpolated()
    rows = named(order, range(50 * 80))
    assert [named(order, range(at, at + 50)) for at in range(0, 4000, 50)] == [
        rows[at : at + 50] for at in range(0, 4000, 50)
    ]
    maths = [sequence for name, sequence in rows if name == "math"]
    assert len(set(maths)) == len(maths)
    forked = interpolated(stages=Stages({**INTERPOLATED.at, 60: PRETRAINING}))
    assert named(forked, range(50 * 60)) == rows[: 50 * 60]


def test_a_source_that_only_leaves_is_not_starved():
    leaving = Stages({0: mixture({"web": 0.999, "wiki": 0.001}), 2: Interpolation(mixture({"web": 1.0}), steps=2)})
    order = DataOrder(leaving, LENGTHS, BatchSchedule({0: 4}), Shuffle.LINEAR, 0, 4)
    assert [each.stage for each in order.starved(0, 6)] == [0]


def test_an_order_by_tokens_is_that_of_the_shares_that_they_make(tmp_path: Path):
    held = stores(tmp_path, web=(90, "t"), code=(60, "t"), math=(50, "t"))
    tokens = {name: store.meta.tokens for name, store in held.items()}
    chosen = ByTokens({"web": 1, "code": 1, "math": 5})
    by_tokens = spec(stages=Stages({0: chosen}), max_epochs=9.0).order(held)
    explicit = spec(stages=Stages({0: chosen.resolved(tokens)}), max_epochs=9.0).order(held)
    assert [a.tolist() for a in by_tokens.at(range(30))] == [a.tolist() for a in explicit.at(range(30))]
    with pytest.raises(BadField, match="are not known"):
        DataOrder(Stages({0: chosen}), LENGTHS, BATCH, Shuffle.LINEAR, 0, 8)
