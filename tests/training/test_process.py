"""Test that a training process passes on its printed lines, and compiles into the folder that is set."""

from __future__ import annotations

from pathlib import Path

import pytest

from marin.training.child import Printed
from marin.training.process import Listeners, run_training
from marin.training.schedule import Schedule
from tests.training.runs import small_spec


def test_whole_lines_once_and_the_rest_at_the_end(tmp_path: Path) -> None:
    log, told = tmp_path / "training.log", list[str]()
    log.write_text("of an earlier attempt\n")
    printed = Printed(log)
    with log.open("a") as writing:
        for piece in ("one\ntw", "o\n", " 10%\r 50%\r100%\n", "", "dead in the mid"):
            writing.write(piece)
            writing.flush()
            printed.tell(told.append)
    assert told == ["one", "two", "100%"]
    printed.tell(told.append, ended=True)
    printed.tell(told.append, ended=True)
    assert told == ["one", "two", "100%", "dead in the mid"]


@pytest.mark.slow
def test_compiled_programs_go_to_the_folder_of_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))
    run_training(small_spec(tmp_path / "run", end_step=2, schedule=Schedule(warmup=1)), tmp_path / "log", Listeners())
    assert list((tmp_path / "programs").iterdir())
