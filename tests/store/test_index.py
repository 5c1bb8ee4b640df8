"""Packs of records spare reads and never change what is seen."""

import pytest

from marin.store.layout import INDEX, RECORDS
from marin.store.objects.objects import Objects, open_objects
from marin.store.record_packs import RecordIndex
from tests.support.servers import Operation, StoreServer

NAMES = [f"{digit}{number}.json" for digit in "0f" for number in range(4)]


@pytest.fixture
def objects(remote_prefix: str) -> Objects:
    objects = open_objects(remote_prefix)
    for name in NAMES:
        objects.write(f"{RECORDS}/{name}", f"record {name}".encode())
    RecordIndex(objects).read(None)
    first = RecordIndex(objects, worth=3)
    first.read(None)
    first.pack()
    return objects


def read(objects: Objects, server: StoreServer) -> tuple[dict[str, bytes], int, int]:
    """(what a fresh index sees, reads, listings)."""
    server.obey()
    found = RecordIndex(objects).read(None)
    operations = [operation for operation, _, _ in server.calls()]
    return found, operations.count(Operation.READ), operations.count(Operation.LIST)


def expected(**changed: bytes) -> dict[str, bytes]:
    return {name: f"record {name}".encode() for name in NAMES} | {
        f"{key[1:]}.json": new for key, new in changed.items()
    }


def test_packed_records_cost_one_listing_and_a_read_a_pack(objects: Objects, server: StoreServer) -> None:
    assert read(objects, server) == (expected(), 2, 1)


def test_a_changed_record_is_read_itself(objects: Objects, server: StoreServer) -> None:
    objects.write(f"{RECORDS}/01.json", b"record 00.json")
    assert read(objects, server) == (expected(_01=b"record 00.json"), 3, 1)


def test_a_new_record_is_read_itself_and_packed_when_worth_it(objects: Objects, server: StoreServer) -> None:
    objects.write(f"{RECORDS}/0new.json", b"new")
    index = RecordIndex(objects, worth=1)
    assert index.read({"0new.json", "gone.json"}) == {"0new.json": b"new"}
    index.pack()
    assert read(objects, server) == (expected(_0new=b"new"), 2, 1)


def test_few_single_reads_write_nothing(objects: Objects, server: StoreServer) -> None:
    objects.write(f"{RECORDS}/0new.json", b"new")
    index = RecordIndex(objects, worth=2)
    index.read(None)
    server.obey()
    index.pack()
    assert server.calls() == []


@pytest.mark.parametrize("content", [b"", b"garbage", b"x\x9c\x03\x00\x00\x00\x00\x01"])
def test_a_garbled_pack_is_no_pack(objects: Objects, server: StoreServer, content: bytes) -> None:
    objects.write(f"{INDEX}/records-0", content)
    assert read(objects, server)[0] == expected()
