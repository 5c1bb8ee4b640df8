"""Test ``marin inspect``, which shows a training's batches from the store before it trains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from marin.cli.commands import main
from marin.cli.exits import Exit
from marin.executor.make_here import make_here
from marin.steps.experiment_file import load_build
from marin.steps.scale import Scale
from tests.support.project import ROOT
from tests.support.topics import write_topics


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return the page's experiment. A store holds its tokens and held-out text, and nothing was trained."""
    folder = tmp_path_factory.mktemp("inspected")
    write_topics(folder / "text")
    (folder / "asked").mkdir()
    asked = [json.dumps({"text": f"Question: what is {i} and {i}?\nAnswer: {2 * i}"}) for i in range(60)]
    (folder / "asked" / "a.jsonl").write_text("\n".join(asked))
    source = (ROOT / "docs/howto/inspect_batches.py").read_text()
    evaluated = source.replace(
        'label="small",\n        model',
        'label="small",\n        watch=Watch(domains={"held out": held_out}, tokenizer=tokenizer),\n        model',
    )
    file = folder / "exp9_inspect.py"
    file.write_text(
        evaluated.replace("/data/text", str(folder / "text"))
        .replace('{"held out": held_out}', f'{{"held out": held_out, "asked": TextFiles(path="{folder}/asked")}}')
        .replace(
            "from operators.train_tokenizer",
            "from operators.watch import Watch\nfrom operators.train_tokenizer",
        )
    )
    prefix = str(folder / "store")
    made = make_here(load_build(str(file))[0](Scale.REHEARSAL).results["batches"], prefix)
    assert made.headline[0].endswith("between steps 0 and 4: nothing is wrong")
    return file, prefix


def run(*arguments: str, expect: Exit) -> Result:
    done = CliRunner().invoke(main, ["inspect", *arguments], env={"COLUMNS": "300"})
    assert done.exit_code == expect, done.output
    return done


def test_what_is_looked_at_is_shown_with_its_text(made: tuple[Path, str]) -> None:
    file, prefix = made
    lines = run(str(file), "--prefix", prefix, expect=Exit.OK).stdout.splitlines()
    assert lines[0] == "train/small, 32 sequences of 4 batches between steps 0 and 4: nothing is wrong"
    assert any(line.split()[:1] == ["own"] for line in lines)
    assert any("<|eos|>" in line for line in lines)
    assert any(line.split()[:4] == ["asked", "ask", "and", "answer"] for line in lines)
    assert [line.split()[:3] for line in lines if line.startswith("held out ")] == [["held", "out", "in"]]  # a heading


def test_a_script_gets_all_of_it_and_the_code(made: tuple[Path, str]) -> None:
    file, prefix = made
    (found,) = json.loads(run(str(file), "small", "--json", "--prefix", prefix, expect=Exit.OK).stdout)
    assert found["training"] == "train/small"
    assert found["held_out"]["held out"]["copied"] == 0
    (bad,) = json.loads(run(str(file), "--json", "--bos", "<|bos|>", "--prefix", prefix, expect=Exit.ILL).stdout)
    assert [finding["kind"] for finding in bad["findings"]] == ["special"]


def test_a_training_that_is_not_and_tokens_that_are_not(made: tuple[Path, str], tmp_path: Path) -> None:
    file, prefix = made
    assert (
        "did you mean small or train/small?"
        in run(str(file), "smal", "--prefix", prefix, expect=Exit.EXPERIMENT).stderr
    )
    other = tmp_path / "exp10_other.py"
    other.write_text(file.read_text().replace("holdout=0.05", "holdout=0.1"))
    said = run(str(other), "--prefix", prefix, expect=Exit.EXPERIMENT).stderr
    assert "train/small reads tokenize/own, which the store" in said
    assert "does not hold. Build it first" in said
