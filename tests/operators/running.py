"""Run one step without the engine: a Context with real directories and an inline map.

::

    documents = Given(name_of_input="web")                       # stands for the step that made an input
    made = run_step(Filter(documents=documents), {documents: artifact.at(directory)}, tmp_path)
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from marin.data.artifacts import Checkpoint, Documents
from marin.data.documents import Document, write_documents
from marin.executor.shards import MakeShard, Shards
from marin.steps.artifact import Artifact
from marin.steps.resources import ALONE, Accelerator, Host
from marin.steps.step import Context, ExecutorStep
from marin.store.files.directory import Directory
from tests.fingerprint.traced import executed, unseen


class Given(ExecutorStep[Any], op="given"):
    """A step that only stands for an input; its artifact is handed to run_step."""

    name_of_input: str = "input"

    def run(self, ctx: Context) -> Any:
        raise AssertionError("an input is given, never run")


@dataclasses.dataclass
class RunningStep:
    """marin.steps.step.Context, for one step."""

    out: Directory
    state: Directory
    artifacts: Mapping[ExecutorStep[Any], Artifact]
    milestones: Sequence[int] = ()
    tracker: str = ""
    profile: tuple[int, int] | None = None
    code: str = ""
    accelerator: Accelerator | None = None
    logged: list[str] = dataclasses.field(default_factory=list)
    published: list[tuple[ExecutorStep[Checkpoint], Checkpoint, Directory]] = dataclasses.field(default_factory=list)

    def __getitem__(self, step: ExecutorStep[Any]) -> Any:
        return self.artifacts[step]

    def map(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [work(item) for item in items]

    def write_shards(
        self, work: Callable[[Any, Directory], Any], items: Sequence[Any], kind: Any, by: Any = None
    ) -> list[Any]:
        if by is not None:
            shards = Shards(self.state, len(items), kind)
            by(MakeShard(work), [(item, shards.folder(at)) for at, item in enumerate(items)], shards.add)
            return shards.move_to(self.out)
        found = [work(item, self.out) for item in items]
        plain = msgspec.json.decode(msgspec.json.encode(found))
        assert msgspec.convert(plain, list[kind], str_keys=True) == found
        return found

    def on_hosts(self, lead: Callable[[Host], Any], follow: Callable[[Host], object]) -> Any:
        return lead(ALONE)

    def progress(self, done: float, total: float, unit: str, note: str = "") -> None:
        assert 0 <= done <= total
        assert unit

    def log(self, message: str) -> None:
        self.logged.append(message)

    def note(self, message: str) -> None:
        self.logged.append(message)

    def publish(self, milestone: ExecutorStep[Checkpoint], artifact: Checkpoint, source: Directory) -> None:
        self.published.append((milestone, artifact, source))


def run_step[A: Artifact](
    step: ExecutorStep[A],
    inputs: Mapping[ExecutorStep[Any], Artifact],
    tmp_path: Path,
    milestones: Sequence[int] = (),
    accelerator: Accelerator | None = None,
    met: Sequence[str] = (),
) -> A:
    """The step's artifact, tied to its output directory below tmp_path; one directory per identity.

    met: code that a file names which it reads; a real run's record has what ran beside the fingerprint.
    """
    where = tmp_path / f"{step.op}-{step.identity[:12]}"
    ctx = RunningStep(Directory(str(where / "out")), Directory(str(where / "state")), inputs, milestones)
    ctx.accelerator = accelerator
    for dependency in step.dependencies:
        assert dependency in inputs, f"run_step({step.name}): no artifact given for {dependency.name}"
    with executed() as codes:
        made: Any = step.run(ctx)
    missed = [name for name in unseen(step, codes) if name not in met]
    assert not missed, f"run() executed what its fingerprint does not hold, so that a change is missed: {missed}"
    return made.at(ctx.out)


def given_documents(documents: Iterable[Document], where: Path, shards: int = 1) -> Documents:
    """Write documents and describe them: an input for run_step."""
    directory = Directory(str(where))
    count, size, shards = write_documents(directory, documents, shards)
    made: Any = Documents(documents=count, bytes=size, shards=shards).at(directory)
    return made


def rows_digest(directory: Directory) -> str:
    """16 hex digits over every file's name and content; of Parquet files, the schema and the rows.

    Rows and not file bytes, so that a pin survives another pyarrow's footer.
    """
    digest = hashlib.sha256()
    for name in directory.names():
        digest.update(name.encode())
        if name.endswith(".parquet"):
            with directory.open(name) as handle:
                table = pq.read_table(handle)
            digest.update(repr((table.column_names, table.to_pylist())).encode())
        else:
            digest.update(directory.read_bytes(name))
    return digest.hexdigest()[:16]


def file_bytes(directory: Directory) -> dict[str, bytes]:
    """Every file's content, by name: to show that two runs wrote the same bytes."""
    return {name: directory.read_bytes(name) for name in directory.names()}
