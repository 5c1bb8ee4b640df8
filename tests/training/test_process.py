"""Test that the output of a training process reaches the process that waits for the training."""

from __future__ import annotations

from pathlib import Path

from marin.training.child import Printed


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
