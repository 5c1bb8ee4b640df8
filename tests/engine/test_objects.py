"""Control files: what every kind of store must do alike."""

from pathlib import Path

import pytest

from marin.errors import StoreError
from marin.objects import Objects, open_objects


@pytest.fixture(params=["file", "memory"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    return open_objects(str(tmp_path / "store") if request.param == "file" else f"memory://{request.node.name}")


def test_many_are_read_at_once_and_what_is_absent_is_left_out(objects: Objects) -> None:
    assert objects.read_many(["a/1", "b"]) == {}
    written = {f"a/{number}": f"content {number}".encode() for number in range(20)}
    for name, content in written.items():
        objects.write(name, content)
    assert objects.read_many([*written, "a/none", "none"]) == written


def test_a_refused_read_among_many_names_the_file(tmp_path: Path) -> None:
    objects = open_objects(str(tmp_path / "store"))
    objects.write("folder/a", b"1")
    with pytest.raises(StoreError, match="store/folder: "):
        objects.read_many(["folder/a", "folder"])
