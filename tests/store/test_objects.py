"""Test that every kind of store handles control files alike."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from marin.errors import BadPrefix, MarinError, StoreError
from marin.store.objects.objects import Objects, open_objects
from tests.support.project import ROOT
from tests.support.servers import Act, Kind, Operation, Rule, StoreServer
from tests.support.waiting import wait_until


@pytest.fixture
def objects(any_prefix: str) -> Objects:
    return open_objects(any_prefix)


def test_many_are_read_at_once_and_what_is_absent_is_left_out(objects: Objects) -> None:
    assert objects.read_many(["a/1", "b"]) == {}
    written = {f"a/{number}": f"content {number}".encode() for number in range(20)}
    for name, content in written.items():
        objects.write(name, content)
    assert objects.read_many([*written, "a/none", "none"]) == written


CLIENTS = """
import sys
from concurrent.futures import ThreadPoolExecutor
from aiobotocore.session import AioSession
from marin.store.objects.objects import open_objects

made, make = [], AioSession._create_client
async def counted(*arguments, **given):
    made.append(1)
    return await make(*arguments, **given)
AioSession._create_client = counted
objects = open_objects(sys.argv[1])
with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda number: objects.write(f"a/{number}", b"1"), range(64)))
assert objects.read_many([f"a/{number}" for number in range(64)]).keys() == {f"a/{number}" for number in range(64)}
print(len(made))
"""


def test_one_client_serves_all_who_come_first() -> None:
    """A client takes megabytes and a third of a second. A hundred would take gigabytes and half a minute."""
    with StoreServer(Kind.S3) as server:
        environment = {**os.environ, **server.environment, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", CLIENTS, server.new_prefix()]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stdout + done.stderr


TAKEN = """
import os, sys
from marin.store.objects.objects import open_objects

taken = []
def take(event, details):
    if event == "os.rename" and len(taken) < 2:
        taken.append(details[0])
        os.unlink(details[0])
sys.addaudithook(take)
objects = open_objects(sys.argv[1])
objects.write("a/name", b"content")
assert objects.read("a/name") == b"content" and objects.list("a") == ["name"]
print(len(taken))
"""


def test_a_write_outlives_that_its_half_written_file_is_taken(tmp_path: Path) -> None:
    """``marin gc`` removes the half-written file if the writing machine slept for a day during the write."""
    command = [sys.executable, "-c", TAKEN, str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.stdout == "2\n", done.stdout + done.stderr


def test_an_object_may_be_empty(objects: Objects) -> None:
    objects.write("folder/a", b"")
    assert objects.read("folder/a") == b""
    assert objects.list("folder") == ["a"]


def test_a_listing_has_what_is_directly_below_and_no_more(objects: Objects) -> None:
    assert objects.list("folder") == []
    for name in ("folder/b.json", "folder/a.json", "folder/deep/c.json", "folderish/d.json", "other"):
        objects.write(name, b"1")
    assert objects.list("folder") == ["a.json", "b.json", "deep"]


def test_stats_are_of_the_objects_directly_below(objects: Objects) -> None:
    assert objects.stats("f") == {}
    objects.write("f/a", b"123")
    objects.write("f/g/c", b"1")
    first = objects.stats("f")
    assert {name: stat.size for name, stat in first.items()} == {"a": 3}
    assert abs(first["a"].modified - time.time()) < 600
    objects.write("f/a", b"12")
    objects.write("f/.hidden", b"1")
    assert {name: stat.size for name, stat in objects.stats("f").items()} == {"a": 2}


def test_what_is_appended_is_read_from_any_byte_on(objects: Objects) -> None:
    assert objects.read_log("runs/a.jsonl") == b""
    objects.append("runs/a.jsonl", b"one\n")
    objects.append("runs/a.jsonl", b"two\n")
    objects.flush("runs/a.jsonl")
    assert objects.read_log("runs/a.jsonl") == b"one\ntwo\n"
    objects.append("runs/a.jsonl", b"three\n")
    objects.flush("runs/a.jsonl")
    assert objects.read_log("runs/a.jsonl", 6) == b"o\nthree\n"
    assert objects.read_log("runs/a.jsonl", 100) == b""
    objects.append("runs/b.jsonl", b"x")
    objects.flush("runs/b.jsonl")
    assert objects.list("runs") == ["a.jsonl", "b.jsonl"]
    assert objects.read_logs(["runs/b.jsonl", "runs/none", "runs/a.jsonl"]) == {
        "runs/a.jsonl": b"one\ntwo\nthree\n",
        "runs/b.jsonl": b"x",
    }


def test_a_long_log_is_kept_in_parts_and_not_written_over_and_over(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    lines = [f"{number:06d} {'x' * 1000}\n".encode() for number in range(700)]
    for number, line in enumerate(lines):
        objects.append("log.txt", line)
        if number % 70 == 0:
            objects.flush("log.txt")
    objects.flush("log.txt")
    whole = b"".join(lines)
    assert objects.read_log("log.txt") == whole
    assert objects.read_logs(["log.txt"]) == {"log.txt": whole}
    for start in (1, 300_000, len(whole) - 5, len(whole)):
        assert objects.read_log("log.txt", start) == whole[start:]
    parts = objects.list("log.txt")
    assert 2 <= len(parts) <= 4
    server.obey()
    objects.append("log.txt", b"the end\n")
    objects.flush("log.txt")
    answers = [status for operation, _, status in server.calls() if operation is Operation.WRITE]
    assert answers.count(200) == 1
    assert len(answers) <= 2  # a flushed log is forgotten, so the next line may first find that the log exists
    assert open_objects(remote_prefix).read_log("log.txt", len(whole)) == b"the end\n"


def test_what_is_appended_appears_without_a_flush(remote_prefix: str) -> None:
    objects, others = open_objects(remote_prefix), open_objects(remote_prefix)
    objects.append("log.txt", b"here\n")
    wait_until(lambda: others.read_log("log.txt") == b"here\n")


def test_a_log_waits_while_the_store_is_away(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    objects.append("log.txt", b"one\n")
    objects.flush("log.txt")
    objects.append("log.txt", b"two\n")
    server.obey(Rule(act=Act.ANSWER, name="log.txt", operations=[Operation.WRITE], status=403))
    with pytest.raises(BadPrefix, match=r"log\.txt"):
        objects.flush("log.txt")
    server.obey()
    objects.append("log.txt", b"three\n")
    objects.flush("log.txt")
    assert objects.read_log("log.txt") == b"one\ntwo\nthree\n"


@pytest.mark.parametrize("name", ["a b/c d", "ünï/cødé ☃", "a#b?c%20d&e=f", "x" * 200, "[a]*{b}"])
def test_odd_names_are_names_like_others(objects: Objects, name: str) -> None:
    objects.write(f"folder/{name}", b"1")
    assert objects.read(f"folder/{name}") == b"1"
    assert objects.read_many([f"folder/{name}"]) == {f"folder/{name}": b"1"}
    assert objects.list("folder") == [name.split("/")[0]]
    assert objects.create(f"created/{name}", b"2")
    assert not objects.create(f"created/{name}", b"3")
    assert objects.read(f"created/{name}") == b"2"


def test_a_refused_read_among_many_names_the_file(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "store"))
    objects.write("folder/a", b"1")
    with pytest.raises(StoreError, match="store/folder: "):
        objects.read_many(["folder/a", "folder"])


def test_many_are_read_concurrently_and_listed_in_pages(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    names = [f"records/{number:04d}" for number in range(100)]
    for name in names:
        objects.write(name, b"{}")
    server.obey(Rule(act=Act.DELAY, operations=[Operation.READ], seconds=0.5))
    assert len(objects.read_many(names)) == len(names)
    assert server.most_in_flight() >= 60
    server.obey(Rule(act=Act.PAGES, size=40))
    assert objects.list("records") == [name.removeprefix("records/") for name in names]
    assert server.counts(remote_prefix) == {Operation.LIST: 3}


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_store_is_asked_again(server: StoreServer, remote_prefix: str, status: int) -> None:
    objects = open_objects(remote_prefix)
    assert objects.create("first", b"1")
    server.obey(Rule(act=Act.ANSWER, name="/x$", status=status, times=1))
    assert objects.create("x", b"1")
    server.obey(Rule(act=Act.ANSWER, name="/x$", status=status, times=1))
    objects.write("x", b"2")
    server.obey(Rule(act=Act.ANSWER, name="/x$", operations=[Operation.READ], status=status, times=1))
    assert objects.read("x") == b"2"
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.LIST], status=status, times=1))
    assert objects.list("") == ["first", "x"]


def test_a_cut_connection_is_made_again(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    objects.write("x", b"1")
    server.obey(Rule(act=Act.CUT, name="/x$", times=1))
    assert objects.read("x") == b"1"
    server.obey(Rule(act=Act.CUT, name="/x$", times=1))
    objects.write("x", b"2")
    assert objects.read("x") == b"2"


def test_a_refused_write_says_who_refused_and_what_to_do(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    objects.write("x", b"1")
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.WRITE], status=403))
    with pytest.raises(BadPrefix, match=r"store/x: the store refused to write it \(.*told by a test.*\); check"):
        objects.write("x", b"2")
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.LIST, Operation.READ], status=403))
    with pytest.raises(BadPrefix, match="refused to list"):
        objects.list("records")
    with pytest.raises(BadPrefix, match="store/x: the store refused to read"):
        objects.read_many(["x"])


def test_a_bucket_that_does_not_exist_is_named(server: StoreServer) -> None:
    objects = open_objects(f"{server.kind}://nobodys/store")
    for use in (
        lambda: objects.list(""),
        lambda: objects.write("x", b"1"),
        lambda: objects.create("x", b"1"),
    ):
        with pytest.raises(BadPrefix, match=f"there is no bucket {server.kind}://nobodys; create it or fix --prefix"):
            use()


def test_a_store_is_asked_for_its_conditions_once_in_a_process(server: StoreServer, remote_prefix: str) -> None:
    assert open_objects(remote_prefix).create("x", b"1")
    server.obey()
    assert open_objects(remote_prefix).create("y", b"1")
    assert not [name for _, name, _ in server.calls() if name.endswith(".marin/conditions")]


@pytest.mark.parametrize("prefix", ["gs://", "s3:///folder"])
def test_a_prefix_without_a_bucket_is_refused(prefix: str) -> None:
    with pytest.raises(BadPrefix, match="names no bucket"):
        open_objects(prefix)


def test_a_kind_of_store_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadPrefix, match=r"ftp://.*conditional writes"):
        open_objects("ftp://host/store")


@pytest.mark.slow  # the clients wait half a minute before they give up
def test_a_store_that_is_away_is_named_once_the_client_gives_up(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    objects.write("x", b"1")
    server.obey(Rule(act=Act.ANSWER, operations=[Operation.WRITE], status=503))
    with pytest.raises(StoreError, match="store/x: could not write it, even after several tries"):
        objects.write("x", b"2")
    server.obey()
    assert objects.read("x") == b"1"


def test_a_forked_process_asks_by_a_client_of_its_own(server: StoreServer, remote_prefix: str) -> None:
    import os

    objects = open_objects(remote_prefix)
    objects.write("x", b"1")
    child = os.fork()
    if not child:
        try:
            os._exit(0 if objects.read("x") == b"1" and objects.create("y", b"2") else 1)
        except MarinError:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert objects.read("y") == b"2"
    assert server.kind in Kind


def test_what_is_removed_is_gone_and_can_be_made_again(objects: Objects) -> None:
    for name in ("f/a", "f/b c", "f/ü"):
        objects.write(name, b"1")
    objects.remove(["f/a", "f/ü", "f/never"])
    assert objects.list("f") == ["b c"]
    assert objects.read("f/a") is None
    assert objects.create("f/a", b"4")
    assert objects.read("f/a") == b"4"


def test_a_name_that_reads_like_a_pattern_removes_itself_alone(objects: Objects) -> None:
    names = ["a*", "ab", "a?", "[ab]", "b"]
    for name in names:
        objects.write(f"f/{name}", b"1")
    objects.remove(["f/a*", "f/[ab]"])
    assert objects.list("f") == ["a?", "ab", "b"]


def test_a_listing_takes_one_call_where_nothing_is(server: StoreServer, remote_prefix: str) -> None:
    objects = open_objects(remote_prefix)
    objects.write("other/x", b"1")
    server.obey()
    assert objects.list("folder") == []
    assert server.counts(remote_prefix) == {Operation.LIST: 1}


@pytest.mark.parametrize("content", [b"\r", b"half a line\r", b"x\n--==0==--\ny", b"\n--==0==\r"])
def test_bytes_that_look_like_the_end_of_an_upload_are_kept(objects: Objects, content: bytes) -> None:
    objects.write("written", content)
    assert objects.create("created", content)
    assert not objects.create("created", content + b"\r")
    assert objects.read_many(["written", "created"]) == {"written": content, "created": content}
