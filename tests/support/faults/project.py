"""The project that is struck: a text, a training run with state and a milestone, and what reads them."""

from __future__ import annotations

import shutil
from pathlib import Path

from marin.store.record import Record
from marin.store.store import Store
from tests.support.faults.client import Ended, Strikes
from tests.support.faults.hook import Strike, state_of
from tests.support.visible import visible_by_name

EXPERIMENT = '''
"""Does it survive?"""
import os
from pathlib import Path

from marin import Checkpoint, Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.executor.backends.inline import InlineBackend
from marin.steps.scale import Scale
from tests.support.toy import Blob, checkpoint

JOURNAL, FLAVOUR = Path({journal!r}), Path({flavour!r})


def began(step: ExecutorStep) -> str:
    """Notes that run() began; the flavour is what makes two builds of one step differ.

    A temporary file decides it: marin notes that it came or went, and does not count that as drift.
    """
    note = os.open(JOURNAL, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(note, (step.name + "\\n").encode())
    os.close(note)
    return "B" if os.path.exists(FLAVOUR) else "A"


class Say(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        flavour = began(self)
        ctx.out.write_text("text.txt", self.text + flavour)
        ctx.out.write_text("deep/down/text.txt", flavour)
        return Blob(bytes=1)


class Train(ExecutorStep[Checkpoint], op="train"):
    source: ExecutorStep[Blob]
    end: int

    def at(self, step: int) -> "At":
        return At(of=self, step=step, label=f"{{self.label}}@{{step}}")

    def run(self, ctx: Context) -> Checkpoint:
        flavour, text = began(self), ctx[self.source].directory.read_text("text.txt")
        for step in range(1, self.end + 1):
            piece = ctx.state / f"step-{{step}}"
            if not piece.exists("piece.txt"):
                piece.write_text("piece.txt", f"{{text}}{{step}}{{flavour}}")
            if step in ctx.milestones:
                ctx.publish(self.at(step), checkpoint(step), piece)
        pieces = [(ctx.state / f"step-{{step}}").read_text("piece.txt") for step in range(1, self.end + 1)]
        ctx.out.write_text("pieces.txt", " ".join(pieces))
        return checkpoint(self.end)


class At(ExecutorStep[Checkpoint], op="at"):
    of: Train
    step: int

    @property
    def producer(self) -> Train:
        return self.of

    def run(self, ctx: Context) -> Checkpoint:
        raise AssertionError("its training run publishes it")


class Read(ExecutorStep[Blob], op="read"):
    source: ExecutorStep[Checkpoint]

    def run(self, ctx: Context) -> Blob:
        began(self)
        source = ctx[self.source].directory
        ctx.out.write_text("text.txt", "+".join(source.read_text(name) for name in source.names()))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    train = Train(source=Say(text="hello", label="say"), end=3, label="train")
    results = {{"early": Read(source=train.at(2), label="early"), "late": Read(source=train, label="late")}}
    return Experiment(issue=1, question=__doc__, results=results)


if __name__ == "__main__":
    executor_main(build, backend=InlineBackend())
'''


def expected(flavour: str, said: str = "") -> dict[str, dict[str, str]]:
    """Files of every step's output. said: flavour of the first step, if it is another."""
    said = said or flavour
    text = f"hello{said}"
    pieces = [f"{text}{step}{flavour}" for step in (1, 2, 3)]
    return {
        "say/say": {"text.txt": text, "deep/down/text.txt": said},
        "train/train": {"pieces.txt": " ".join(pieces)},
        "at/train@2": {"piece.txt": pieces[1]},
        "read/early": {"text.txt": pieces[1]},
        "read/late": {"text.txt": " ".join(pieces)},
    }


class Struck(Strikes):
    """One project whose driver runs as children of a server. Folders are cheap: a new store for every strike."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.journal = folder / "journal"
        self.flavour = folder.with_name(f"{folder.name}-flavour")  # a temporary file beside the project: no drift
        self.store = folder / "store"
        file = folder / "exp1_struck.py"
        file.write_text(EXPERIMENT.format(journal=str(self.journal), flavour=str(self.flavour)))
        self.set_flavour("A")
        super().__init__(folder, file, *self._arguments(), environment={"PATH": ""})  # without git: it costs most
        self.reset()

    def _arguments(self) -> list[str]:
        return ["--prefix", str(self.store), "--backend", "inline"]

    def set_flavour(self, flavour: str) -> None:
        """A or B."""
        if flavour == "B":
            self.flavour.touch()
        else:
            self.flavour.unlink(missing_ok=True)

    def reset(self, like: Path | None = None) -> None:
        """Start from no store, or from a copy of one."""
        shutil.rmtree(self.store, ignore_errors=True)
        self.journal.unlink(missing_ok=True)
        self.synced.unlink(missing_ok=True)
        if like is not None:
            shutil.copytree(like, self.store)

    def run(
        self,
        *arguments: str,
        strike: Strike = Strike.NOTHING,
        at: int = -1,
        error: str = "EIO",
        costly: bool = False,
    ) -> Ended:
        """costly: every step counts as one that took long."""
        return self.strike(self.store, [*self._arguments(), *arguments], strike, at, error, costly=costly)

    def cut_power(self, *, spare: str = "nothing") -> list[str]:
        """Empty every file that was not synced in its present state, as a disk does that loses unwritten data.

        spare: files whose name below the store begins so stay as they are. Returns the names of the emptied files.
        """
        synced = set(self.synced.read_text().splitlines()) if self.synced.exists() else set[str]()
        files = {str(path.relative_to(self.store)): path for path in self.store.rglob("*") if path.is_file()}
        spared = {path.stat().st_ino for name, path in files.items() if name.startswith(spare)}
        emptied: list[str] = []
        for name, path in sorted(files.items()):
            held = path.stat()
            if held.st_size and held.st_ino not in spared and state_of(held) not in synced:
                path.write_bytes(b"")
                emptied.append(name)
        return emptied

    def began(self) -> list[str]:
        """Steps whose run() began, in all."""
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def visible(self) -> dict[str, Record]:
        return visible_by_name(Store(str(self.store)))

    def files(self, record: Record) -> dict[str, str]:
        output = Store(str(self.store)).output(record)
        return {name: output.read_text(name) for name in output.names()}
