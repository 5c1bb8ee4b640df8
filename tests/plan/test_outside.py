"""Test data outside the store as a user meets it: folders, globs and URLs that change between two commands."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from tests.operators.servers import PageServer, serving
from tests.support.forks import Ended, Forks

EXPERIMENT = '''
"""What is in these files?"""
from pathlib import Path

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from operators.download import FsspecFiles
from tests.support.toy import Blob

URL = Path(__file__).with_name("url").read_text()


class Read(ExecutorStep[Blob], op="outside-read"):
    files: FsspecFiles

    def run(self, ctx: Context) -> Blob:
        raw = ctx[self.files].directory
        text = "".join(f"{name}={raw.read_text(name)} " for name in raw.names())
        ctx.out.write_text("text.txt", text)
        return Blob(bytes=len(text))


def build(scale: Scale) -> Experiment:
    files = FsspecFiles(urls=(URL,), label="fetch")
    return Experiment(issue=1, question=__doc__, results={"end": Read(files=files, label="read")})
'''
PLACES = ("folder", "glob", "web page", "web page without etags", "gs", "s3")


@dataclass
class Place:
    """A place with files. url: selects the files. shown: the name of a file in drift."""

    url: str
    shown: Callable[[str], str]
    write: Callable[[str, bytes], None]
    remove: Callable[[str], None]


@pytest.fixture(scope="module")
def forks(_gs: object, _s3: object) -> Iterator[Forks]:
    """Start a server whose processes know the addresses of the object stores."""
    with Forks("aiohttp", "gcsfs", "s3fs", "operators.download", "sqlite3") as server:
        yield server


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    kind = request.param
    with ExitStack() as stack:
        if kind in ("folder", "glob"):
            folder = tmp_path / "data"
            url = str(folder) if kind == "folder" else f"{folder}/*.txt"
            held = _place(str(folder), url)
        elif kind.startswith("web"):
            files: dict[str, bytes] = {}
            base = stack.enter_context(serving(PageServer, files=files, etags="without" not in kind))

            def write(name: str, content: bytes) -> None:
                files[f"/data/{name}"] = content

            def remove(name: str) -> None:
                del files[f"/data/{name}"]

            held = Place(f"{base}/data/*.txt", lambda name: f"{base}/data/{name}", write, remove)
        else:
            folder = f"{kind}://lab/{uuid.uuid4().hex[:12]}"
            held = _place(folder, f"{folder}/" if kind == "gs" else f"{folder}/*.txt")
        for name in ("a.txt", "b.txt"):
            held.write(name, name[:1].encode())
        yield held


def _place(folder: str, url: str) -> Place:
    filesystem, path = fsspec.core.url_to_fs(folder)

    def write(name: str, content: bytes) -> None:
        filesystem.makedirs(path, exist_ok=True)
        filesystem.pipe_file(f"{path}/{name}", content)

    return Place(url, lambda name: f"{folder}/{name}", write, lambda name: filesystem.rm_file(f"{path}/{name}"))


class Lab:
    """One experiment file beside its store."""

    def __init__(self, forks: Forks, folder: Path, url: str, experiment: str = EXPERIMENT) -> None:
        self.forks, self.folder = forks, folder
        folder.mkdir()
        (folder / "exp.py").write_text(experiment)
        (folder / "url").write_text(url)

    def __call__(self, command: str, *arguments: str) -> Ended:
        how = ("--backend", "inline") if command == "run" else ()
        return self.forks.marin(self.folder, command, "exp.py", *arguments, *how, "--prefix", "store")

    def drift(self, prefix: str = "store") -> list[str]:
        told = json.loads(self.forks.marin(self.folder, "plan", "exp.py", "--json", "--prefix", prefix).said)
        return [line for step in told["steps"] for line in step["drift"]]

    def ran(self, *arguments: str) -> list[str]:
        """Return the steps that ``marin run`` ran, sorted."""
        before = self._events()
        ended = self("run", *arguments)
        assert ended.code == 0, ended.said
        events = [json.loads(line) for path in self._events() - before for line in path.read_text().splitlines()]
        return sorted(event["step"] for event in events if event.get("status") == "ran" and event["event"] == "ended")

    def _events(self) -> set[Path]:
        return set((self.folder / "store/.marin/runs").glob("*"))


@pytest.mark.parametrize("place", PLACES, indirect=True)
def test_a_file_added_removed_or_changed_is_named_and_stops(forks: Forks, place: Place, tmp_path: Path) -> None:
    lab = Lab(forks, tmp_path / "lab", place.url)
    assert lab.ran() == ["download-files/fetch", "outside-read/read"]
    assert (lab.drift(), lab.ran()) == ([], [])
    place.write("a.txt", b"a")  # the same again
    assert (lab.drift(), lab.ran()) == ([], [])

    place.write("b.txt", b"B")
    [changed] = lab.drift()
    assert changed.startswith(f"outside data {place.shown('b.txt')}: 1 bytes, ")
    assert " → 1 bytes, " in changed
    stopped = lab("run")
    assert (stopped.code, changed in stopped.said) == (3, True), stopped.said
    assert "--on-drift rebuild" in stopped.said

    place.write("c.txt", b"more")
    place.remove("a.txt")
    gone, also_changed, new = lab.drift()
    assert also_changed == changed
    assert gone.startswith(f"outside data {place.shown('a.txt')} is gone, it was: 1 bytes, ")
    assert new.startswith(f"outside data {place.shown('c.txt')} is new: 4 bytes, ")

    assert lab.ran("--on-drift", "rebuild") == ["download-files/fetch", "outside-read/read"]
    [made] = (lab.folder / "store/outside-read").glob("*.0002/text.txt")
    assert made.read_text() == "b.txt=B c.txt=more "
    assert lab.drift() == []


def test_a_touched_or_copied_file_is_no_drift(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    file = tmp_path / "data/a.txt"
    file.write_text("as it is")
    lab = Lab(forks, tmp_path / "lab", "../data/*.txt")
    lab.ran()
    os.utime(file, (1, 1))
    assert lab.drift() == []
    file.rename(tmp_path / "other")
    file.write_text("as it is")
    assert lab.drift() == []
    file.write_text("as it's ")  # as long
    os.utime(file, (1, 1))
    assert [line.split(":")[0] for line in lab.drift()] == ["outside data ../data/a.txt"]


def test_another_glob_for_the_same_bytes_reruns_nothing_behind_it(forks: Forks, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/a.gz").write_text("a")
    lab = Lab(forks, tmp_path / "lab", f"{tmp_path}/data/*.gz")
    lab.ran()
    (lab.folder / "url").write_text(f"{tmp_path}/data/*")
    assert lab.ran() == ["download-files/fetch"]
    assert lab.ran() == []


def test_of_many_files_the_record_holds_a_digest_and_drift_the_names(forks: Forks, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for number in range(300):
        (data / f"{number:03}.txt").write_text(str(number))
    lab = Lab(forks, tmp_path / "lab", str(data))
    lab.ran()
    [record] = [
        json.loads(path.read_text()) for path in (lab.folder / "store/download-files").glob("*/.marin/record.json")
    ]
    assert [(name, held.split(",")[0]) for name, held in record["outside"].items()] == [("in all", "300 entries")]
    mirrored = lab.forks.marin(lab.folder, "mirror", "fetch", "read", "--to", "other")
    assert mirrored.code == 0, mirrored.said
    (data / "007.txt").write_text("bond")
    (data / "300.txt").write_text("300")
    changed, new = lab.drift()
    assert [changed, new] == lab.drift("other")
    assert changed.startswith(f"outside data {data}/007.txt: 1 bytes, ")
    assert new.startswith(f"outside data {data}/300.txt is new: 3 bytes, ")
    accepted = lab("run", "--on-drift", "accept", "--because", "nobody reads them")
    assert accepted.code == 0, accepted.said
    assert lab.drift() == []


CHANGING = '''
"""What if somebody writes there meanwhile?"""
from pathlib import Path

from marin import Context, ExecutorStep
from marin.data.outside_files import outside_files
from marin.steps.experiment import Experiment
from marin.steps.scale import Scale
from tests.support.toy import Blob

SOURCE = Path(Path(__file__).with_name("url").read_text())


class Meddle(ExecutorStep[Blob], op="meddle"):
    """Somebody else, who writes while others read."""

    def run(self, ctx: Context) -> Blob:
        SOURCE.write_text("meddled")
        ctx.out.write_text("text.txt", "")
        return Blob(bytes=0)


class Read(ExecutorStep[Blob], op="outside-read"):
    after: tuple[Meddle, ...]

    def outside(self) -> dict[str, str]:
        return outside_files(str(SOURCE))

    def run(self, ctx: Context) -> Blob:
        ctx.out.write_text("text.txt", SOURCE.read_text())
        if SOURCE.read_text() == "at first" and not self.after:
            SOURCE.write_text("meanwhile")
        return Blob(bytes=0)


def build(scale: Scale) -> Experiment:
    after = (Meddle(label="other"),) if SOURCE.with_name("before").exists() else ()
    return Experiment(issue=1, question=__doc__, results={"end": Read(after=after, label="read")})
'''


@pytest.mark.parametrize("when", ["between planning and running", "while it ran"])
def test_what_changes_under_a_run_fails_the_step_and_commits_nothing(forks: Forks, tmp_path: Path, when: str) -> None:
    source = tmp_path / "source.txt"
    source.write_text("at first")
    lab = Lab(forks, tmp_path / "lab", str(source), CHANGING)
    if "between" in when:
        (tmp_path / "before").touch()
    failed = lab("run")
    assert failed.code == 1
    assert "InputChanged" in failed.said
    assert when in failed.said
    assert f"outside data {source}: 8 bytes, " in failed.said
    assert lab.ran() == ["outside-read/read"]
    [made] = (lab.folder / "store/outside-read").glob("*.0002/text.txt")
    assert made.read_text() == source.read_text()


def test_a_place_that_cannot_be_asked_is_said_without_a_traceback(forks: Forks, tmp_path: Path) -> None:
    with serving(PageServer, files={}) as base:
        pass
    for number, url in enumerate((f"{base}/a.txt", f"{tmp_path}/none/*.gz", "gs://nobody-has-this/x", "nonsense://x")):
        lab = Lab(forks, tmp_path / f"lab-{number}", url)
        for command in ("plan", "run"):
            ended = lab(command)
            assert ended.code == 1, ended.said
            assert url in ended.said
            assert "Traceback" not in ended.said
