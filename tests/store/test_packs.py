"""Packs of ends save reads and never change the ends that a reader sees."""

import pytest

from marin.store.ends import End, How
from marin.store.layout import ENDS, INDEX
from marin.store.objects.objects import Objects, open_objects
from marin.store.packs import Packs
from tests.support.servers import Operation, StoreServer

NAMES = [f"{ENDS}/{digit}{number}.0001.json" for digit in "0f" for number in range(4)]
NEW = f"{ENDS}/00.0002.json"


def end(name: str) -> bytes:
    return End(how=How.RELEASED, attempt="toy/x.0001", by="ann", when="now", why=name, id=name).to_json()


EVERY = {name: end(name) for name in NAMES}


@pytest.fixture
def objects(remote_prefix: str) -> Objects:
    objects = open_objects(remote_prefix)
    for name, content in EVERY.items():
        objects.write(name, content)
    first = Packs(objects, worth=3)
    assert dict(first.read(NAMES)) == EVERY
    first.pack()
    return objects


def read(objects: Objects, server: StoreServer, *more: str) -> tuple[dict[str, bytes], int]:
    """Return (the content of fresh packs, the number of reads). Asserts that nothing was listed."""
    server.obey()
    found = dict(Packs(objects).read([*NAMES, *more]))
    operations = [operation for operation, _, _ in server.calls()]
    assert Operation.LIST not in operations
    return found, operations.count(Operation.READ)


def test_packed_ends_cost_a_read_a_pack(objects: Objects, server: StoreServer) -> None:
    assert read(objects, server) == (EVERY, 2)


def test_a_new_end_is_read_itself_and_packed_when_worth_it(objects: Objects, server: StoreServer) -> None:
    objects.write(NEW, end(NEW))
    assert read(objects, server, NEW) == (EVERY | {NEW: end(NEW)}, 3)
    packs = Packs(objects, worth=1)
    assert dict(packs.read([NEW, f"{ENDS}/gone.0001.json"])) == {NEW: end(NEW)}
    packs.pack()
    assert read(objects, server, NEW) == (EVERY | {NEW: end(NEW)}, 2)


def test_few_single_reads_write_nothing(objects: Objects, server: StoreServer) -> None:
    objects.write(NEW, end(NEW))
    packs = Packs(objects, worth=2)
    assert dict(packs.read([NEW])) == {NEW: end(NEW)}
    server.obey()
    packs.pack()
    assert server.calls() == []


@pytest.mark.parametrize("content", [b"", b"{not json", b"\xff"])
def test_an_end_that_cannot_be_read_is_not_packed_so_that_restoring_it_helps(
    objects: Objects, server: StoreServer, content: bytes
) -> None:
    objects.write(NEW, content)
    packs = Packs(objects, worth=1)
    assert dict(packs.read([NEW])) == {NEW: content}
    packs.pack()
    assert read(objects, server, NEW)[0] == EVERY | {NEW: content}
    objects.write(NEW, end(NEW))
    assert read(objects, server, NEW)[0] == EVERY | {NEW: end(NEW)}


@pytest.mark.parametrize("content", [b"", b"garbage", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_a_garbled_pack_is_no_pack(objects: Objects, server: StoreServer, content: bytes) -> None:
    objects.write(f"{INDEX}/ends-0", content)
    assert read(objects, server)[0] == EVERY
