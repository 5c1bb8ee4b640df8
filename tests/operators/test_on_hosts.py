"""Work in a process of its own that never ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.hardware import gpu
from marin.errors import ProcessLost
from marin.store.files.directory import Directory
from marin.training import hanging
from operators.on_hosts import shards_with_all_chips, with_all_chips
from tests.operators.running import RunningStep

pytestmark = pytest.mark.slow

STANDS = r"it stood still: no part for \d+ s after part 4, where one takes \S+ s; its stacks are in its log"


@pytest.fixture
def ctx(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunningStep:
    monkeypatch.setattr(hanging, "START_MINUTES", 20 / 60)  # a machine under load starts it in less
    made = RunningStep(Directory(str(tmp_path / "out")), Directory(str(tmp_path / "state")), {})
    made.accelerator = gpu("h100").accelerator
    return made


def four_parts_and_no_more(tell: Callable[..., None]) -> None:
    for number in range(4):
        tell("worked", number=number)
        time.sleep(0.05)
    time.sleep(600)


def all_but_the_last(item: int, out: Directory) -> int:
    time.sleep(600 if item == 4 else 0.05)
    out.write_text(f"made-{item}", "")
    return item


def test_work_on_chips_that_stands_still_is_killed_and_says_where(ctx: RunningStep) -> None:
    heard: list[int] = []

    def hear(_event: str, *, number: int) -> None:
        heard.append(number)

    with pytest.raises(ProcessLost, match=STANDS) as lost:
        with_all_chips(ctx, four_parts_and_no_more, hear)
    assert heard == [0, 1, 2, 3]
    assert "in four_parts_and_no_more" in str(lost.value)


def test_shards_on_chips_that_stand_still_keep_what_is_done(ctx: RunningStep) -> None:
    by = shards_with_all_chips(ctx)
    with pytest.raises(ProcessLost, match=STANDS):
        ctx.write_shards(all_but_the_last, range(6), int, by=by)
    assert sorted(path.name for path in Path(ctx.state.url).rglob("made-*")) == [f"made-{item}" for item in range(4)]
