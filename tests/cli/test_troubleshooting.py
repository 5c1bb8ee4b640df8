"""docs/troubleshooting.md and docs/durations.md agree with the code."""

import ast
import os
import re
import subprocess
import sys

import pytest

from tests.support.project import ROOT
from tests.test_layering import FILES

PAGE = ROOT / "docs/troubleshooting.md"
QUOTED = re.findall(r"^\| `(.+?)` \|", PAGE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return every string that the code can print, with … for each value."""
    found = [line for line in (ROOT / "py").read_text().splitlines()]
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values))
    return [text.replace("\n", " ") for text in found]


def test_there_is_something_to_look_up() -> None:
    assert len(QUOTED) > 25


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_one_that_the_code_can_print(message: str, texts: list[str]) -> None:
    parts = message.split("…")
    assert any(in_order(parts, text) for text in texts), message


def in_order(parts: list[str], text: str) -> bool:
    at = 0
    for part in parts:
        if (found := text.find(part, at)) < 0:
            return False
        at = found + len(part)
    return True


def test_the_plan_on_the_page_of_costs_is_todays() -> None:
    command = [sys.executable, "experiments/exp1529_mantis.py", "--scale", "full", "--dry-run"]
    wide = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = {" ".join(line.split()) for line in done.stdout.splitlines()}
    [block] = re.findall(r"^```\n(train .*?)^```", (ROOT / "docs/durations.md").read_text(), re.MULTILINE | re.DOTALL)
    assert {" ".join(line.split()) for line in block.splitlines()} - shown == set()
