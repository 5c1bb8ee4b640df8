"""An output holds regular files. marin refuses anything else by name."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from marin import Context, ExecutorStep, execution
from marin.cli.commands import main
from marin.errors import InputError, StoreError
from marin.store.files.verify import Check
from marin.store.store import Store
from marin.upkeep.adopt import adopt
from tests.support.toy import Blob, Write, run, statuses

pytestmark = pytest.mark.timeout(60)  # a pipe that somebody opens hangs


def pipe(out: Path) -> None:
    os.mkfifo(out / "sub/odd")


def door(out: Path) -> None:
    here = Path.cwd()
    os.chdir(out / "sub")  # a socket's address is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("odd")
    finally:
        os.chdir(here)


def inside(out: Path) -> None:
    (out / "sub/odd").symlink_to("../text.txt")


def absolute(out: Path) -> None:
    (out / "sub/odd").symlink_to(out / "text.txt")


def escaping(out: Path) -> None:
    (out.parent / "beside.txt").write_text("not of this output")
    (out / "sub/odd").symlink_to("../../beside.txt")


def dangling(out: Path) -> None:
    (out / "sub/odd").symlink_to("nothing")


def looping(out: Path) -> None:
    (out / "sub/odd").symlink_to("odd")


def own(out: Path) -> None:
    (out / "sub/odd").symlink_to("../.marin/log.txt")


def folder(out: Path) -> None:
    (out / "more").mkdir()
    (out / "more/text.txt").write_text("is not in the manifest twice")
    (out / "sub/odd").symlink_to("../more")


ODD: dict[Callable[[Path], None], str] = {
    pipe: "a pipe, a socket or a device",
    door: "a pipe, a socket or a device",
    inside: "a link to ../text.txt; copy the file",
    absolute: "a link to /",
    escaping: "a link to ../../beside.txt",
    dangling: "a link to nothing",
    looping: "a link to odd",
    own: "a link to ../.marin/log.txt",
    folder: "a link to ../more",
}
LINKS = (inside, absolute, escaping, own)  # links that lead to files


class Odd(ExecutorStep[Blob], op="toy-not-files"):
    """Write a file, and beside the file an entry that is no regular file."""

    what: str
    fixed: str = execution(default="")  # path of a file: while it exists, run() works

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", "text")
        (ctx.out.path / "sub").mkdir(exist_ok=True)
        if not Path(self.fixed).is_file():
            {make.__name__: make for make in ODD}[self.what](ctx.out.path)
        return Blob(bytes=4)


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_a_step_that_leaves_something_else_fails_and_says_which(tmp_path: Path, make: Callable[[Path], None]) -> None:
    step = Odd(what=make.__name__, fixed=str(tmp_path / "fixed"), label="odd")
    failed = run(str(tmp_path / "store"), odd=step).results[step]
    assert failed.status == "failed"
    assert "sub/odd" in failed.error
    assert ODD[make] in failed.error
    assert "copy" in failed.error or "remove" in failed.error
    assert Store(str(tmp_path / "store")).record(step.identity) is None
    (tmp_path / "fixed").touch()
    assert statuses(run(str(tmp_path / "store"), odd=step)) == {"toy-not-files/odd": "ran"}


def test_on_an_object_store_nothing_of_it_is_uploaded(tmp_path: Path) -> None:
    for make in ODD:
        if make is absolute:
            continue  # the local folder is gone by then, so the link is like any other
        step = Odd(what=make.__name__, label="odd")
        failed = run("memory://odd-output", odd=step).results[step]
        assert (failed.status, "sub/odd" in failed.error) == ("failed", True), failed
        assert ODD[make] in failed.error
        assert Store("memory://odd-output").record(step.identity) is None


def test_a_link_that_an_older_marin_committed_is_read_and_mirrored(tmp_path: Path) -> None:
    class Twice(ExecutorStep[Blob], op="toy-twice"):
        def run(self, ctx: Context) -> Blob:
            ctx.out.write_text("sub/step-2.txt", "text")
            ctx.out.write_text("latest.txt", "text")
            return Blob(bytes=4)

    step, store = Twice(label="twice"), Store(str(tmp_path / "store"))
    done = run(store.prefix, twice=step).results[step].record
    assert done is not None
    latest = Path(store.prefix) / done.attempt / "latest.txt"
    latest.unlink()
    latest.symlink_to("sub/step-2.txt")
    assert [entry.path for entry in store.manifest(done)] == ["latest.txt", "sub/step-2.txt"]
    assert store.verify(done, Check.BYTES) == []
    other = str(tmp_path / "other")
    told = CliRunner().invoke(main, ["mirror", "twice", "--from", store.prefix, "--to", other])
    assert told.exit_code == 0, told.output
    copied = Store(other).record(step.identity)
    assert copied is not None
    assert Store(other).verify(copied, Check.BYTES) == []
    (Path(store.prefix) / done.attempt / "sub/step-2.txt").write_text("xxxx")
    assert [wrong.split()[1] for wrong in store.verify(done, Check.BYTES)] == ["latest.txt", "sub/step-2.txt"]


@pytest.mark.parametrize("make", ODD, ids=lambda make: make.__name__)
def test_verify_and_mirror_name_what_came_into_an_output_later(tmp_path: Path, make: Callable[[Path], None]) -> None:
    store = Store(str(tmp_path / "store"))
    step = Write(text="text", label="plain")
    record = run(store.prefix, plain=step).results[step].record
    assert record is not None
    out = Path(store.prefix) / record.attempt
    (out / "sub").mkdir()
    make(out)
    for check in Check:
        assert any("sub/odd" in wrong and ODD[make] in wrong for wrong in store.verify(record, check))
    told = CliRunner().invoke(main, ["audit", "--bytes", "--prefix", store.prefix])
    assert (told.exit_code, "sub/odd" in told.output) == (5, True)
    told = CliRunner().invoke(main, ["mirror", "plain", "--from", store.prefix, "--to", str(tmp_path / "other")])
    assert (told.exit_code != 0, "sub/odd" in told.output) == (True, True), told.output
    with pytest.raises(StoreError, match="sub/odd"):
        run(store.prefix, plain=step)


def test_a_file_that_became_a_pipe_is_not_opened(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store"))
    step = Write(text="text", label="plain")
    record = run(store.prefix, plain=step).results[step].record
    assert record is not None
    path = Path(store.prefix) / record.attempt / "text.txt"
    path.unlink()
    os.mkfifo(path)
    (wrong,) = store.verify(record, Check.BYTES)
    assert "text.txt" in wrong
    assert "a pipe" in wrong


@pytest.mark.parametrize("make", [made for made in ODD if made not in LINKS], ids=lambda make: make.__name__)
def test_adopt_refuses_what_is_no_file(tmp_path: Path, make: Callable[[Path], None]) -> None:
    source = tmp_path / "release"
    (source / "sub").mkdir(parents=True)
    (source / "text.txt").write_text("text")
    make(source)
    store = Store(str(tmp_path / "store"))
    with pytest.raises(InputError, match="sub/odd"):
        adopt(store, str(source), kind="raw_files", label="x", because="y", facts={}, on_message=lambda _: None)


@pytest.mark.parametrize("make", LINKS, ids=lambda make: make.__name__)
def test_adopt_copies_what_links_to_files_lead_to(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """The hub's cache consists of links to files. marin commits the bytes."""
    source = tmp_path / "release"
    (source / "sub").mkdir(parents=True)
    (source / ".marin").mkdir()
    (source / "text.txt").write_text("text")
    (source / ".marin/log.txt").write_text("of an output that was copied")
    make(source)
    store = Store(str(tmp_path / "store"))
    done = adopt(store, str(source), kind="raw_files", label="x", because="y", facts={}, on_message=lambda _: None)
    copied = Path(store.prefix) / done.record.attempt / "sub/odd"
    assert copied.is_file()
    assert not copied.is_symlink()
