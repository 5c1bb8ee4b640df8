"""Test ``marin status --health`` on a folder, on a finished step, and on a running step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.data.artifacts import Checkpoint
from marin.steps.step import Context, ExecutorStep
from tests.support.toy import Write, run
from tests.training.test_health import rows


class Trained(ExecutorStep[Checkpoint], op="toy-trained"):
    spike: float
    fails: bool = False

    def run(self, ctx: Context) -> Checkpoint:
        made = rows()
        for row in made[400:]:
            row["loss"] += self.spike
        (ctx.state if self.fails else ctx.out).write_text("metrics.jsonl", text_of(made))
        if self.fails:
            raise ValueError("out of luck")
        return Checkpoint(step=600, tokens=1, parameters=1, architecture="toy", loss=0.5)


def text_of(made: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in made)


def health(*arguments: str, expect: Exit) -> Result:
    done = CliRunner().invoke(main, ["status", "--health", *arguments], env={"COLUMNS": "300"})
    assert done.exit_code == expect, done.output
    return done


def test_a_folder_even_while_its_last_line_is_being_written(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(text_of(rows()) + '{"step": 600, "lo')
    said = health(str(tmp_path), expect=Exit.OK).stdout
    assert said.strip().endswith("a folder, steps 0 to 599: healthy")
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "loss": 1.0}\n{"step": 1,\n')
    assert "line 2 is not JSON" in health(str(tmp_path), expect=Exit.STORE).stderr


def test_steps_by_name(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    run(store, good=Trained(spike=0.0, label="good"), bad=Trained(spike=1.5, label="bad"))
    run(store, lost=Trained(spike=1.5, fails=True, label="lost"))
    run(store, **{name: Write(text=name, label=name) for name in ("good", "lost")})  # no trainings
    assert "healthy" in health("good", "--prefix", store, expect=Exit.OK).stdout
    for name, standing in (("bad", "committed"), ("lost", "failed")):
        said = health(name, "--prefix", store, expect=Exit.ILL).stdout
        assert f"toy-trained/{name}, {standing}" in said
        assert "level shift" in said or "spike" in said
        found = json.loads(health(name, "--prefix", store, "--json", expect=Exit.ILL).stdout)
        assert any(each["ill"] and abs(each["step"] - 400) < 10 for each in found["findings"])
