"""A document is read exactly as written, or refused by the name of the wrong field. Nothing is converted to fit."""

import functools
import json
import subprocess
import sys
from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace
from pydantic import BaseModel, ValidationError, create_model

from marin.store.documents import BadDocument, Document
from marin.store.ends import Claim, End, How
from marin.store.files.manifest import FileEntry
from marin.store.process import Holder
from marin.store.record import Input, Provenance, Record

RECORD = Record(
    format=1,
    identity="0" * 64,
    op="toy",
    version=2,
    label="é ü\n",
    attempt="toy/x.0001",
    token=3,
    kind="toy",
    facts={"loss": float("inf"), "counts": {"a": 1}, "lines": ["x"]},
    config={"number": 1},
    inputs=[Input(name="a", identity="b", root="c")],
    outside={"url": "etag"},
    code="d",
    packages={"python": "3.12"},
    root="e",
    files=1,
    bytes=2,
    provenance=Provenance(who="ann", host="here", started="now", seconds=1.5),
)
CLAIM = Claim(
    number=1,
    attempt="toy/x.0001",
    holder=Holder(user="ann", host="here", boot="b", pid=1, started="2"),
    since="now",
)
END = End(how=How.RELEASED, attempt="toy/x.0001", by="ann@here (process 1)", when="now")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "1", "released"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@functools.cache
def model(kind: type[Document]) -> type[BaseModel]:
    """Return a model of the same fields in another library, as a comparison."""
    given: dict[str, Any] = {}
    for spec in fields(kind):
        default = spec.default if spec.default is not msgspec.NODEFAULT else spec.default_factory
        made = default() if callable(default) else default
        made = model(type(made))() if isinstance(made, Document) else made
        given[spec.name] = (as_model(spec.type), ... if spec.required else made)
    return create_model(kind.__name__, **given)


def as_model(hint: Any) -> Any:
    if get_origin(hint) is list:
        return list[as_model(get_args(hint)[0])]
    if get_origin(hint) is dict and isinstance(held := get_args(hint)[1], type) and issubclass(held, Document):
        return dict[str, model(held)]
    return model(hint) if isinstance(hint, type) and issubclass(hint, Document) else hint


@pytest.mark.parametrize("document", [RECORD, CLAIM, replace(CLAIM, beat=7), END])
def test_what_is_written_is_read_again(document: Record | Claim | End) -> None:
    assert type(document).parse(document.to_json()) == document


@settings(deadline=None)  # the time for one example depends on the machine
@given(st.data())
def test_it_reads_what_its_types_allow_and_nothing_else(data: st.DataObject) -> None:
    document: Any = data.draw(st.sampled_from([RECORD, CLAIM, END]))
    held = json.loads(document.to_json())
    place = held
    while isinstance(place, dict) and place:
        name = data.draw(st.sampled_from([*place, "unknown"]))
        if not isinstance(place.get(name), dict) or data.draw(st.booleans()):
            if data.draw(st.booleans()):
                place[name] = data.draw(JSON)
            else:
                place.pop(name, None)
            break
        place = place[name]
    content = json.dumps(held).encode()
    try:
        right = model(type(document)).model_validate_json(content, strict=True).model_dump()
    except ValidationError:
        with pytest.raises(BadDocument):
            type(document).parse(content)
    else:
        assert msgspec.to_builtins(type(document).parse(content)) == right


@pytest.mark.parametrize(
    ("kind", "content", "place"),
    [
        (Claim, b'{"number": 1', "the file"),
        (Claim, b"[]", "the file"),
        (Claim, b"\xff", "the file"),
        (Claim, CLAIM.to_json().replace(b'"pid": 1', b'"pid": "one"'), "holder.pid"),
        (End, END.to_json().replace(b'"released"', b'"stolen"'), "how"),
    ],
)
def test_an_error_names_the_field(kind: type[Document], content: bytes, place: str) -> None:
    with pytest.raises(BadDocument) as caught:
        kind.parse(content)
    assert caught.value.place == place


def test_a_list_of_documents_is_read_whole_or_not_at_all() -> None:
    entry = {"path": "a", "size": 1, "sha256": "0"}
    assert FileEntry.parse_list(json.dumps([entry]).encode()) == [FileEntry(path="a", size=1, sha256="0")]
    with pytest.raises(BadDocument) as caught:
        FileEntry.parse_list(json.dumps([entry, {**entry, "size": None}]).encode())
    assert caught.value.place == "1.size"


def test_numbers_that_json_has_no_word_for_are_read_as_they_were_written() -> None:
    record = replace(RECORD, facts={"loss": float("inf"), "least": float("-inf"), "number": 2**70})
    assert Record.parse(record.to_json()) == record
    nan = Record.parse(replace(RECORD, facts={"loss": float("nan")}).to_json()).facts["loss"]
    assert nan != nan


def test_a_plan_that_reads_records_does_not_wait_for_pydantic() -> None:
    script = (
        "import sys; from marin.store.record import Record; Record.parse(sys.stdin.buffer.read()); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], input=RECORD.to_json(), capture_output=True, check=True)
    assert "pydantic" not in done.stdout.decode().split()


FIRST_OF_MANY = """
import os, sys, threading
from tests.store.test_document import CLAIM, RECORD
from marin.store.ends import Claim
from marin.store.record import Record

sys.setswitchinterval(1e-7)
contents = [(Record, RECORD.to_bytes()), (Claim, CLAIM.to_json())]


def together():
    barrier = threading.Barrier(16)

    def parse(number):
        kind, content = contents[number % 2]
        barrier.wait()
        kind.parse(content)

    threads = [threading.Thread(target=parse, args=(number,)) for number in range(16)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    os._exit(0)


for _ in range(40):
    child = os.fork()
    if child == 0:
        together()
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0, ended
"""


def test_threads_that_read_the_first_documents_of_a_process_do_not_crash_it() -> None:
    """msgspec 0.22 builds the description of a type on first use, and other threads can find an unfinished one."""
    done = subprocess.run([sys.executable, "-c", FIRST_OF_MANY], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
