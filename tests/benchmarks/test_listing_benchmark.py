"""The benchmark of listings lists the outputs that it made."""

from pathlib import Path

from benchmarks.engine.listing import COMMANDS, fill, measure
from marin.store.inventory import read_inventory
from marin.store.store import Store


def test_a_small_store_is_listed_by_every_command(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    fill(store, 1004)
    inventory = read_inventory(store)
    assert (len(inventory.records), inventory.damage) == (1004, {})
    said = [measure(store.prefix, arguments).said for arguments in COMMANDS]
    assert min(said) > 0
    assert said[0] > said[3] > said[4]
