"""Test a training's prompts, from the file in a how-to to the page, and ``marin cat --prompt``."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from marin.cli.cat import command
from marin.cli.exits import Exit
from tests.cli.test_compare_command import Learnt
from tests.experiments.test_howto import given
from tests.report.serve.browsing import served
from tests.support.new_project import marin, told
from tests.support.toy import Write, run

PROMPTS = ["the one and", "one after"]


@pytest.mark.slow
def test_a_training_writes_on_from_prompts_and_so_does_its_checkpoint(tmp_path: Path) -> None:
    file = given("run_health", tmp_path / "a")
    for domain in ("code", "web"):
        shutil.copytree(tmp_path / "a/data/text", tmp_path / "a/data" / domain)
    file.write_text(file.read_text().replace("peak_lr=1e-3", "peak_lr=1e-3, ema=None"))
    told(tmp_path, sys.executable, str(file), "--backend", "inline")
    (samples,) = (tmp_path / "store/train").glob("watched-*/samples.jsonl")
    lines = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [(line["step"], line["prompt"]) for line in lines] == [(4, prompt) for prompt in PROMPTS]
    (page,) = (tmp_path / "store/.marin/pages").glob("run_health-*.html")
    with served(str(tmp_path / "store")) as browser:
        shown = browser.get(f"step/{re.findall('watched-([0-9a-f]{12})', str(samples))[0]}").text
    for html in (page.read_text(), shown):
        assert "Samples</h2>" in html
        assert "step 4</th>" in html
        assert PROMPTS[0] in html

    asked = [part for prompt in PROMPTS for part in ("--prompt", prompt)]

    def texts(*options: str) -> list[dict[str, Any]]:
        said = marin(tmp_path, "cat", "watched", *asked, "--tokens", "16", "--json", *options)
        return [json.loads(line) for line in said.splitlines() if line.startswith("{")]

    assert texts() == [{"prompt": line["prompt"], "text": line["greedy"]} for line in lines]
    drawn = texts("--temperature", "1")
    assert drawn == texts("--temperature", "1", "--tokenizer", "train-tokenizer")
    assert drawn != texts("--temperature", "1", "--seed", "5")
    assert f"{PROMPTS[1]}{lines[1]['greedy']}" in marin(tmp_path, "cat", "watched", *asked, "--tokens", "16")
    said = marin(tmp_path, "cat", "watched", *asked, "--tokens", "40", ends=Exit.EXPERIMENT)
    assert "40 more do not fit into the model's sequences of 32; shorten the prompt, or give fewer --tokens" in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("text", "--prompt", "x"), "toy-write/text holds toy-blob; only a checkpoint writes on from a prompt"),
        (("bison", "--prompt", "x"), "no input of toy-learnt-to-compare/bison, direct or not, names a tokenizer"),
        (("bison", "--prompt", "x", "--tokenizer", "text"), "toy-write/text holds toy-blob; name a tokenizer"),
        (("bison", "--prompt", "x", "-n", "3"), "leave out --file, -n, --offset"),
        (("bison", "--temperature", "1"), "--temperature says how a checkpoint writes on; give --prompt"),
    ],
)
def test_what_cannot_write_on_is_refused(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    run(str(tmp_path), bison=Learnt(seed=1, label="bison"), text=Write(text="x", label="text"))
    done = CliRunner(env={"COLUMNS": "300"}).invoke(command, [*arguments, "--prefix", str(tmp_path)])
    assert done.exit_code != 0
    assert says in done.output
