"""A driver dies, or its disk refuses, at every operation on its store in turn. The next run is right.

An undisturbed run counts the operations. Then the tests strike one run at each operation.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from marin.store.record import Record, WorkInProgress
from marin.store.store import Store
from tests.support.faults.client import Ended
from tests.support.faults.hook import Strike
from tests.support.faults.project import Struck, expected

PARTS = 4  # the fast stage strikes at every fourth operation, the slow stage at all the others
EACH_PART = [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
REBUILD = ("--rebuild", "say/say", "--on-drift", "rebuild")


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    project = Struck(tmp_path_factory.mktemp("struck") / "project")
    yield project
    project.close()


@pytest.fixture(scope="module")
def operations(struck: Struck) -> list[str]:
    """Return the operations of an undisturbed first run."""
    struck.reset()
    struck.set_flavour("A")
    whole = struck.run()
    is_right(struck, "A", whole)
    return whole.operations


@pytest.fixture(scope="module")
def committed(struck: Struck, operations: list[str]) -> Path:
    """Return a store in which everything is committed."""
    struck.reset()
    struck.set_flavour("A")
    assert struck.run().status == 0
    return shutil.copytree(struck.store, struck.folder / "committed")


def changes(operations: list[str]) -> list[int]:
    """Return the positions of changes: a death before a mere look equals a death before the next change."""
    verbs = ("write", "rename", "link", "remove", "rmdir")
    return [at for at, line in enumerate(operations) if line.startswith(verbs)]


def share(places: Sequence[int], part: int) -> Sequence[int]:
    return places[part::PARTS]


def files(struck: Struck) -> dict[str, dict[str, str]]:
    return {name: struck.files(record) for name, record in struck.visible().items()}


def is_right(struck: Struck, flavour: str, ended: Ended) -> None:
    assert ended.status == 0, ended.said
    assert files(struck) == expected(flavour)


def went_on_from(struck: Struck, before: Mapping[str, Record], began: list[str]) -> None:
    """Assert that the last run neither rebuilt nor replaced the outputs committed before."""
    assert not before.keys() & set(struck.began()[len(began) :])
    assert before.items() <= struck.visible().items()


def test_every_boundary_of_a_commit_is_among_the_operations(operations: list[str]) -> None:
    """Test before and after the claim, during run(), after the data, before and after the record."""
    begun = next(at for at, line in enumerate(operations) if line.startswith("list read/late-"))
    created = [line.split(" → ")[-1] for line in operations[:begun] if line.startswith("link")]
    assert created[-1].startswith(".marin/claims/")
    boundaries = [
        ("write", "read/late-"),
        ("rename", ".marin/record.json"),
        ("link", ".marin/ends/"),
        ("write", ".marin/runs/"),
    ]
    place = begun
    for verb, path in boundaries:
        after = operations[place + 1 :]
        found = [number for number, line in enumerate(after) if line.startswith(verb) and path in line.split(" → ")[-1]]
        assert found, f"no {verb} {path} after {operations[place]!r}"
        place += 1 + found[0]


def test_nothing_but_its_own_beat_is_ever_written_over(operations: list[str]) -> None:
    """Claims and ends are created once. A process replaces only its own claim, with each beat."""
    control = [line for line in operations if ".marin/claims/" in line or ".marin/ends/" in line]
    assert not [line for line in control if line.startswith("rename") and ".marin/ends/" in line]
    assert len({line for line in control if line.startswith("link") and ".marin/ends/" in line}) == len(expected("A"))


@pytest.mark.parametrize("part", EACH_PART)
def test_kill_9_at_any_operation_of_a_first_run(struck: Struck, operations: list[str], part: int) -> None:
    for at in share(changes(operations), part):
        where = f"{at}: {operations[at]}"
        struck.reset()
        struck.set_flavour("A")
        assert struck.run(strike=Strike.KILL, at=at).status == -9, where
        before, began = struck.visible(), struck.began()
        assert files(struck).items() <= expected("A").items(), where
        is_right(struck, "A", struck.run())
        went_on_from(struck, before, began)
        if (struck.store / ".marin/state").exists():  # a rebuild must not resume a finished run's state
            struck.set_flavour("B")
            ended = struck.run("--rebuild", "train/train")
            assert (ended.status, files(struck)) == (0, expected("B", said="A")), f"{where}\n{ended.said}"


@pytest.mark.parametrize("part", EACH_PART)
def test_kill_9_at_any_operation_of_a_rebuild(struck: Struck, committed: Path, part: int) -> None:
    """The old outputs stay whole until the new outputs replace them."""
    struck.reset(like=committed)
    struck.set_flavour("B")
    whole = struck.run(*REBUILD)
    is_right(struck, "B", whole)
    old, new = expected("A"), expected("B")
    for at in share(changes(whole.operations), part):
        where = f"{at}: {whole.operations[at]}"
        struck.reset(like=committed)
        assert struck.run(*REBUILD, strike=Strike.KILL, at=at).status == -9, where
        found = files(struck)
        assert found.keys() == old.keys(), where
        assert all(held in (old[name], new[name]) for name, held in found.items()), where
        is_right(struck, "B", struck.run(*REBUILD))
        assert files(struck) == new, where


@pytest.mark.parametrize("part", EACH_PART)
def test_kill_9_while_work_of_other_code_is_thrown_away(struck: Struck, operations: list[str], part: int) -> None:
    """marin never joins pieces that other code made with pieces of today's code."""
    begun = next(at for at, line in enumerate(operations) if line.startswith("list at/"))
    again = ("--on-drift", "rebuild")
    struck.reset()
    struck.set_flavour("A")
    struck.run(strike=Strike.KILL, at=begun)
    store = Store(str(struck.store))
    (training,) = store.state_identities()
    store.mark_state(training, WorkInProgress(code="0" * 64, inputs={}, outside={}))
    half = shutil.copytree(struck.store, struck.folder / f"half-{part}")
    struck.set_flavour("B")
    ended = struck.run("--rebuild", "say/say", *again)
    is_right(struck, "B", ended)
    for at in share(changes(ended.operations), part):
        struck.reset(like=half)
        assert struck.run("--rebuild", "say/say", *again, strike=Strike.KILL, at=at).status == -9
        struck.visible()
        ended_again = struck.run("--rebuild", "say/say", *again)
        assert ended_again.status == 0, ended_again.said
        assert files(struck) == expected("B"), f"{at}: {ended.operations[at]}"


FAULTS = [(Strike.ONCE, "EIO"), (Strike.WRITES, "ENOSPC")]


@pytest.mark.parametrize("part", EACH_PART)
@pytest.mark.parametrize(("strike", "error"), FAULTS, ids=["EIO once", "full from then on"])
def test_an_error_at_any_operation_is_told_clearly_and_loses_nothing(
    struck: Struck, operations: list[str], strike: Strike, error: str, part: int
) -> None:
    looks = [at for at, line in enumerate(operations) if strike is Strike.ONCE and line.startswith(("read", "list"))]
    for at in share(sorted({*changes(operations), *looks}), part):
        fails_clearly(struck, f"{at}: {operations[at]}", strike, at, error)


def fails_clearly(struck: Struck, where: str, strike: Strike, at: int, error: str) -> None:
    struck.reset()
    struck.set_flavour("A")
    ended = struck.run(strike=strike, at=at, error=error)
    assert ended.status in (0, 1, 5), f"{where}\n{ended.said}"
    assert "Traceback" not in ended.said, f"{where}\n{ended.said}"
    if ended.status:
        assert any(word in ended.said for word in ("Error", "Full", "Corrupt")), f"{where}\n{ended.said}"
    before, began = struck.visible(), struck.began()
    assert files(struck).items() <= expected("A").items(), where
    if ended.status == 0:
        assert before.keys() == expected("A").keys(), where
    is_right(struck, "A", struck.run())
    went_on_from(struck, before, began)
