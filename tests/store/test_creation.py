"""Test objects that are created once: one of many racers creates the whole object, and nobody replaces the object."""

import errno
import functools
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from marin.errors import BadPrefix, StoreError
from marin.store.objects.local import LocalObjects
from marin.store.objects.objects import Objects, open_objects
from tests.support.faults.hook import Fault, Strike, watch
from tests.support.servers import Act, Kind, Operation, Rule, StoreServer

RACERS = 10


@pytest.fixture
def objects(any_prefix: str) -> Objects:
    return open_objects(any_prefix)


@pytest.mark.parametrize("lasting", [False, True])
def test_an_object_is_created_once_and_never_replaced(objects: Objects, lasting: bool) -> None:
    assert objects.create("folder/x", b"one", lasting=lasting)
    assert objects.create("folder/x", b"one", lasting=lasting)  # our own call, repeated
    assert not objects.create("folder/x", b"two", lasting=lasting)
    assert objects.read("folder/x") == b"one"
    assert objects.list("folder") == ["x"]
    objects.remove(["folder/x"])
    assert objects.create("folder/x", b"two", lasting=lasting)
    assert objects.read("folder/x") == b"two"


def test_an_empty_object_is_created_like_others(objects: Objects) -> None:
    assert objects.create("x", b"")
    assert not objects.create("x", b"1")
    assert objects.create("x", b"")
    assert objects.read("x") == b""


def test_of_many_racers_who_create_one_object_one_wins(any_prefix: str) -> None:
    start = threading.Barrier(RACERS)

    def race(racer: int) -> bool:
        mine = open_objects(any_prefix)
        start.wait()
        return mine.create("folder/x", f"created by {racer}".encode())

    with ThreadPoolExecutor(RACERS) as pool:
        won = list(pool.map(race, range(RACERS)))
    assert sum(won) == 1
    objects = open_objects(any_prefix)
    assert objects.read("folder/x") == f"created by {won.index(True)}".encode()
    assert objects.list("folder") == ["x"]


def forked(work: Callable[[], bool]) -> int:
    """Start a process that does the work. Return its id. It exits with 0 if the work returned True."""
    child = os.fork()
    if child:
        return child
    code = 2
    try:
        code = 0 if work() else 1
    finally:
        os._exit(code)


def exit_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_of_racing_processes_one_creates_the_file(tmp_path: Path) -> None:
    start, go = os.pipe()

    def race(racer: int) -> bool:
        os.close(go)
        os.read(start, 1)  # returns when the last process has closed the other end
        return LocalObjects(tmp_path).create("folder/x", f"created by {racer}".encode())

    racers = [forked(functools.partial(race, racer)) for racer in range(RACERS)]
    os.close(go)
    ended = [exit_of(racer) for racer in racers]
    os.close(start)
    assert sorted(ended) == [0] + [1] * (RACERS - 1)
    assert LocalObjects(tmp_path).read("folder/x") == f"created by {ended.index(0)}".encode()
    assert os.listdir(tmp_path / "folder") == ["x"]


def create_and_be_killed(store: Path, at: int, lasting: bool) -> bool:
    """Create an object and be killed. at: the number of the fatal operation on the store."""
    watch(str(store), Fault(Strike.KILL, at), lambda _: None)
    return LocalObjects(store).create("folder/x", b"content", lasting=lasting)


@pytest.mark.parametrize("lasting", [False, True])
def test_a_killed_process_leaves_the_whole_object_or_none(tmp_path: Path, lasting: bool) -> None:
    outcomes: list[bytes | None] = []
    ended = -signal.SIGKILL
    while ended == -signal.SIGKILL:
        store = tmp_path / f"store-{len(outcomes)}"
        ended = exit_of(forked(functools.partial(create_and_be_killed, store, len(outcomes), lasting)))
        objects = LocalObjects(store)
        there = objects.read("folder/x")
        assert objects.list("folder") == ([] if there is None else ["x"])
        assert objects.create("folder/x", b"other") == (there is None)
        outcomes.append(there)
    assert ended == 0
    assert outcomes[-1] == b"content"
    assert {None, b"content"} == set(outcomes[:-1]), "it was killed before and after the object appeared"


def test_lasting_bytes_are_on_the_disk_before_their_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    sync, link = os.fsync, os.link

    def linked(*names: Any) -> None:
        link(*names)
        order.append("link")

    monkeypatch.setattr(os, "fsync", lambda handle: order.append("sync") or sync(handle))
    monkeypatch.setattr(os, "link", linked)
    objects = LocalObjects(tmp_path)
    assert objects.create("folder/x", b"content", lasting=True)
    assert order.index("sync") < order.index("link")
    assert "sync" in order[order.index("link") :]
    order.clear()
    assert objects.create("folder/x", b"content", lasting=True)  # the first process may have died before its sync
    assert "sync" in order[order.index("sync") + 1 :]
    order.clear()
    assert objects.create("folder/y", b"content")
    assert order == ["link"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_disk_without_hard_links_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(BadPrefix, match=rf"{tmp_path}/folder/x: this disk has no hard links \(.*another disk"):
        LocalObjects(tmp_path).create("folder/x", b"content")
    assert os.listdir(tmp_path / "folder") == []


def test_creating_takes_one_call(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    assert objects.create("first", b"1")  # a process's first creation also checks that the store honours conditions
    server.obey()
    assert objects.create("x", b"1")
    assert server.counts(remote_prefix) == {Operation.WRITE: 1}
    assert not objects.create("x", b"2")
    assert server.counts(remote_prefix) == {Operation.WRITE: 2, Operation.READ: 1}


def test_our_own_creation_is_known_as_ours_when_its_answer_was_lost(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    assert objects.create("first", b"1")
    server.obey(Rule(act=Act.LOSE, name="/x$", operations=[Operation.WRITE], times=1))
    assert objects.create("x", b"1")
    assert (Operation.WRITE, f"{remote_prefix.split('/', 3)[3]}/x", 412) in server.calls()  # the client asked again
    assert objects.read("x") == b"1"


def test_a_refused_creation_says_who_refused_and_what_to_do(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    assert objects.create("first", b"1")
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.WRITE], status=403))
    with pytest.raises(BadPrefix, match=r"store/x: the store refused to write it \(.*told by a test.*\); check"):
        objects.create("x", b"1")
    server.obey()
    with pytest.raises(BadPrefix, match=f"there is no bucket {server.kind}://nobodys; create it or fix --prefix"):
        open_objects(f"{server.kind}://nobodys/store").create("x", b"1")


@pytest.mark.slow  # the clients wait half a minute before they give up
def test_a_store_that_is_away_is_named_and_creates_nothing(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    assert objects.create("first", b"1")
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.WRITE], status=503))
    with pytest.raises(StoreError, match="store/x: could not write it, even after several tries"):
        objects.create("x", b"1")
    server.obey()
    assert objects.create("x", b"2")


CONDITIONS = {Kind.S3: "If-None-Match", Kind.GS: "ifGenerationMatch=0"}


@pytest.mark.parametrize("used_before", [False, True])
def test_a_store_that_replaces_what_it_should_only_create_is_refused(
    server: StoreServer, remote_prefix: str, used_before: bool
) -> None:
    if used_before:  # another process used the store: its test object exists
        open_objects(remote_prefix).write(".marin/conditions", b"every conditional write must be refused here\n")
    server.obey(Rule(act=Act.IGNORE_CONDITIONS))
    for _ in range(2):
        with pytest.raises(BadPrefix, match=rf"{remote_prefix}: this store ignores {CONDITIONS[server.kind]} \("):
            open_objects(remote_prefix).create("x", b"1")
    assert open_objects(remote_prefix).read("x") is None
