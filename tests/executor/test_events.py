"""A run gathers its events. Each reaches the store soon and in order, and all are there however the run ends."""

import json
import threading
import time
from pathlib import Path

import pytest

from marin.errors import StoreError
from marin.executor import events as events_module
from marin.executor.events import Events
from marin.store.store import Store


def begun(prefix: Path) -> Events:
    events = Events(Store(str(prefix)), "exp1_toy")
    events.began("python exp1_toy.py", "", "full", 3)
    return events


def told(events: Events) -> list[object]:
    lines = events.store.objects.read_log(events.name).splitlines()
    return [json.loads(line).get("number", json.loads(line)["event"]) for line in lines]


def note_on(events: Events) -> None:
    while True:
        events.note("step")


def test_the_beginning_is_told_at_once_and_the_rest_without_a_further_event(tmp_path: Path) -> None:
    events = begun(tmp_path / "store")
    assert told(events) == ["began"]
    events.note("step", number=1)
    limit = time.monotonic() + 60
    while told(events) != ["began", 1]:
        assert time.monotonic() < limit
        time.sleep(0.05)
    events.ended(1.0, 0)


@pytest.mark.parametrize("stops", [False, True])
def test_every_event_is_there_at_the_end_once_and_in_order(
    tmp_path: Path, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events_module, "WRITE_EVERY", 0.001)
    events, numbers = begun(tmp_path / "store"), list(range(3000))
    for number in numbers:
        events.note("step", number=number)
    events.stopped(ValueError("no")) if stops else events.ended(1.0, 0)
    assert told(events) == ["began", *numbers, "stopped" if stops else "ended"]


def test_a_store_that_does_not_take_them_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = begun(tmp_path / "store")
    tried = threading.Event()

    def refuse(_name: str, _content: bytes) -> None:
        tried.set()
        raise StoreError("no space left")

    monkeypatch.setattr(events.store.objects, "append", refuse)
    events.note("step", number=1)
    assert tried.wait(60)
    with pytest.raises(StoreError, match="no space left"):
        note_on(events)
    events.stopped(StoreError("no space left"))
