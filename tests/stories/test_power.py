"""Test power cuts, which empty the files that nobody synced. marin loses no work that took long, and trusts only
whole files."""

from collections.abc import Iterator, Sequence

import pytest

from tests.support.faults.hook import Strike
from tests.support.faults.project import Struck, expected

EVERY = 7  # operations between two cuts, of about a hundred in all; each cut takes two runs
STATE = ".marin/state/"  # a step checks its own work in progress


@pytest.fixture(scope="module")
def struck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Struck]:
    project = Struck(tmp_path_factory.mktemp("struck") / "project")
    yield project
    project.close()


def places(struck: Struck, *, costly: bool) -> Sequence[int]:
    """Return the positions of the changes of a first run, as in test_crashes."""
    struck.reset()
    operations = struck.run(costly=costly).operations
    verbs = ("write", "rename", "link", "remove", "rmdir")
    return [at for at, line in enumerate(operations) if line.startswith(verbs)]


def files(struck: Struck) -> dict[str, dict[str, str]]:
    return {name: struck.files(record) for name, record in struck.visible().items()}


def test_what_took_long_survives_a_power_cut_right_after_the_run(struck: Struck) -> None:
    struck.reset()
    assert struck.run(costly=True).status == 0
    began = struck.began()
    assert struck.cut_power()
    assert files(struck) == expected("A")
    ended = struck.run(costly=True)
    assert ended.status == 0, ended.said
    assert struck.began() == began


def test_a_power_cut_at_any_operation_takes_no_step_that_took_long_and_had_ended(struck: Struck) -> None:
    for at in places(struck, costly=True)[::EVERY]:
        struck.reset()
        ended = struck.run(strike=Strike.KILL, at=at, costly=True)
        assert ended.status == -9
        before, began = struck.visible(), struck.began()
        emptied = struck.cut_power(spare=STATE)
        lost = before.keys() - struck.visible().keys()
        assert len(lost) <= 1, f"{at}: {lost}"  # the output whose record was just written
        again = struck.run(costly=True)
        assert again.status == 0, f"{at}: {emptied}\n{again.said}"
        assert files(struck) == expected("A")
        assert not (before.keys() - lost) & set(struck.began()[len(began) :])


def test_a_power_cut_that_tears_quick_outputs_is_noticed_and_named(struck: Struck) -> None:
    """marin does not sync quick steps, so their records may survive their files."""
    noticed = 0
    for at in places(struck, costly=False)[3::EVERY]:
        struck.reset()
        assert struck.run(strike=Strike.KILL, at=at).status == -9
        emptied = struck.cut_power(spare=".marin/")
        again = struck.run()
        if again.status:
            assert again.status == 5, f"{at}: {emptied}\n{again.said}"
            assert "Traceback" not in again.said
            assert "--rebuild" in again.said
            noticed += 1
            names = ("say/say", "train/train", "train@2", "early", "late")
            damaged = [name for name in names if f"{name}: " in again.said]
            again = struck.run(*(held for name in damaged for held in ("--rebuild", name)))
        assert again.status == 0, f"{at}: {emptied}\n{again.said}"
        assert files(struck) == expected("A"), f"{at}: {emptied}"
    assert noticed
