"""Test ``marin ls|cat|logs|runs|status`` of a store: its outputs, their content, their makers, the failures."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from marin import Checkpoint, Context, Documents, ExecutorStep
from marin.cli.commands import main
from marin.data.documents import Document, write_documents
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer
from tests.cli.test_cli import Command
from tests.support.aging import tree
from tests.support.project import Project, gated, wait_for
from tests.support.toy import Fail, Join, Write, forget, run
from tests.support.waiting import is_gone, wait_until

TEXTS = [f"Document {number} says: the quick brown fox, {number} times." for number in range(8)]


class Poems(ExecutorStep[Documents], op="toy-poems"):
    texts: tuple[str, ...]
    shards: int = 3

    def run(self, ctx: Context) -> Documents:
        documents, size, shards = write_documents(ctx.out, [Document(text, "toy") for text in self.texts], self.shards)
        return Documents(documents=documents, bytes=size, shards=shards)


class Learnt(ExecutorStep[Checkpoint], op="toy-learnt"):
    steps: int

    def run(self, ctx: Context) -> Checkpoint:
        rows = [{"step": step, "loss": 10.0 / (step + 1), "sources": {"web": step}} for step in range(self.steps)]
        ctx.out.write_text("metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
        ctx.out.write_bytes("weights.bin", bytes(100))
        return Checkpoint(step=self.steps, tokens=1, parameters=1, architecture="toy", loss=0.5)


def marin(store: Path, *arguments: str, expect: int = 0) -> Result:
    done = CliRunner().invoke(main, [*arguments, "--prefix", str(store)], env={"COLUMNS": "200"})
    assert done.exit_code == expect, done.output
    return done


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    prefix = tmp_path_factory.mktemp("held") / "store"
    poems = Poems(texts=tuple(TEXTS), label="poems")
    tokenizer = TrainTokenizer(documents=(poems,), vocabulary=300, label="toy")
    tokens = Tokenize(documents=poems, tokenizer=tokenizer, label="poems")
    run(str(prefix), tokens=tokens, learnt=Learnt(steps=100, label="learnt"))
    return prefix


class TestLs:
    def listed(self, store: Path, *arguments: str) -> list[str]:
        return [held["step"] for held in json.loads(marin(store, "ls", "--json", *arguments).stdout)]

    def test_everything_and_by_pattern(self, store: Path) -> None:
        every = ["tokenize/poems", "toy-learnt/learnt", "toy-poems/poems", "train-tokenizer/toy"]
        assert self.listed(store) == every
        assert self.listed(store, "poems") == ["tokenize/poems", "toy-poems/poems"]  # the label
        assert self.listed(store, "tokenize") == ["tokenize/poems"]  # the operator, not a part of a name
        assert self.listed(store, "toy-*") == ["toy-learnt/learnt", "toy-poems/poems"]
        assert self.listed(store, "okeni") == ["tokenize/poems", "train-tokenizer/toy"]
        assert self.listed(store, "--kind", "tokens") == ["tokenize/poems"]
        assert self.listed(store, "--op", "toy-poems", "--label", "poems") == ["toy-poems/poems"]
        [held] = json.loads(marin(store, "ls", "--json", "tokenize", "--files").stdout)
        assert {entry["path"] for entry in held["manifest"]} == {"meta.json", "offsets.npy", "sample.txt", "tokens.bin"}
        assert self.listed(store, held["identity"][:8]) == ["tokenize/poems"]
        assert self.listed(store, held["output"]) == ["tokenize/poems"]
        assert held["bytes"] == sum(entry["size"] for entry in held["manifest"])

    def test_sorted_by_size(self, store: Path) -> None:
        held = json.loads(marin(store, "ls", "--json", "--sort", "size").stdout)
        assert [each["bytes"] for each in held] == sorted(each["bytes"] for each in held)

    def test_for_people(self, store: Path) -> None:
        lines = marin(store, "ls").stdout.splitlines()
        assert lines[0].split() == ["output", "identity", "kind", "size", "made", "by", "holds"]
        [poems] = [line for line in lines if line.startswith("toy-poems/poems")]
        assert "documents 8" in poems
        assert lines[-1].startswith("4 outputs")

    def test_near_misses(self, store: Path) -> None:
        assert "tokenize" in marin(store, "ls", "tokenise", expect=4).stderr
        assert "did you mean tokens" in marin(store, "ls", "--kind", "token", expect=4).stderr
        assert "toy-poems/poems" in marin(store, "ls", "toy-poems/poem", "--op", "toy-poems").stdout  # partial name

    def test_no_store_is_no_empty_store(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        for place in ("nowhere", "folder"):
            for command in ("ls", "status", "audit"):
                assert "no store at" in marin(tmp_path / place, command, expect=5).stderr
            assert "no store at" in marin(tmp_path / place, "cat", "x", expect=5).stderr
            assert "no store at" in marin(tmp_path / place, "logs", "x", expect=5).stderr


class TestCat:
    def lines(self, store: Path, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in marin(store, "cat", "--json", *arguments).stdout.splitlines()]

    def test_documents_from_any_shard(self, store: Path) -> None:
        assert [held["text"] for held in self.lines(store, "toy-poems")] == TEXTS
        for first in range(9):
            found = self.lines(store, "toy-poems", "--offset", str(first), "-n", "2")
            assert [held["text"] for held in found] == TEXTS[first : first + 2]
        assert [held["text"] for held in self.lines(store, "toy-poems", "--offset", "-1")] == TEXTS[-1:]

    def test_tokens_are_decoded_with_their_own_tokenizer(self, store: Path) -> None:
        found = self.lines(store, "tokenize/poems")
        assert [held["text"] for held in found] == [f"{text}<|eos|>" for text in TEXTS]
        [one] = self.lines(store, "tokenize/poems", "--offset", "3", "-n", "1")
        assert one == found[3]
        assert one["tokens"][-1] == 1  # eos
        said = marin(store, "cat", "tokenize/poems", "-n", "1")
        assert TEXTS[0] in said.stdout
        assert "go on with --offset 1" in said.stderr

    def test_tokens_without_their_tokenizer_are_numbers(self, tmp_path: Path) -> None:
        prefix = tmp_path / "store"
        poems = Poems(texts=tuple(TEXTS), label="poems")
        tokenizer = TrainTokenizer(documents=(poems,), vocabulary=300, label="toy")
        run(str(prefix), tokens=Tokenize(documents=poems, tokenizer=tokenizer, label="poems"))
        forget(prefix, tokenizer)
        [first, *_] = [json.loads(line) for line in marin(prefix, "cat", "tokenize", "--json").stdout.splitlines()]
        assert "text" not in first
        assert " ".join(map(str, first["tokens"])) in marin(prefix, "cat", "tokenize").stdout

    def test_only_what_fits_is_shown(self, store: Path) -> None:
        def texts(*conditions: str) -> list[str]:
            wanted = [part for condition in conditions for part in ("--where", condition)]
            return [held["text"] for held in self.lines(store, "toy-poems", *wanted)]

        assert texts("source=toy") == TEXTS
        assert texts("source!=toy") == []
        assert texts("text~Document [36]") == [TEXTS[3], TEXTS[6]]
        assert texts("text~Document [36]", "text~6 times") == [TEXTS[6]]
        found = self.lines(store, "toy-poems", "--where", "text~ 5 times")
        assert texts(f"id={found[0]['id']}") == [TEXTS[5]]
        assert [held["step"] for held in self.lines(store, "learnt", "--where", "step>=97")] == [97, 98, 99]
        assert [held["step"] for held in self.lines(store, "learnt", "--where", "sources.web=5")] == [5]
        said = marin(store, "cat", "toy-poems", "--where", "text~fox", "-n", "2")
        assert said.stdout.count("— document") == 2
        assert "more may fit" in said.stderr
        assert "no more fit" in marin(store, "cat", "toy-poems", "--where", "text~ 5 times").stderr
        assert "document 5" in marin(store, "cat", "tokenize/poems", "--where", "text~ 5 times").stdout
        said = marin(store, "cat", "toy-poems", "--where", "sourse=toy", expect=4).stderr
        assert "no entry has the field 'sourse'; there are id, text, source, metadata" in said
        assert "is no regular expression" in marin(store, "cat", "toy-poems", "--where", "text~(", expect=2).stderr

    def test_metrics_are_sampled_with_both_ends(self, store: Path) -> None:
        said = marin(store, "cat", "learnt")
        heading, *rows = [line.split() for line in said.stdout.splitlines()]
        assert heading == ["step", "loss"]
        steps = [int(row[0]) for row in rows]
        assert len(steps) == 20
        assert steps[0] == 0
        assert steps[-1] == 99
        assert max(after - before for before, after in itertools.pairwise(steps)) <= 6
        assert [held["step"] for held in self.lines(store, "learnt", "--offset", "-3")] == [97, 98, 99]
        assert len(self.lines(store, "learnt")) == 100

    def test_one_file_of_an_output(self, store: Path) -> None:
        meta = json.loads((next((store / "tokenize").iterdir()) / "meta.json").read_text())
        assert self.lines(store, "tokenize", "--file", "meta.json") == [meta]
        path = next((store / "tokenize").iterdir()) / "meta.json"
        assert json.loads(marin(store, "cat", str(path)).stdout) == meta
        assert "is not text" in marin(store, "cat", "learnt", "--file", "weights.bin").stdout
        assert "did you mean meta.json?" in marin(store, "cat", "tokenize", "--file", "mata.json", expect=4).stderr

    def test_a_tokenizer_s_entries(self, store: Path) -> None:
        assert self.lines(store, "train-tokenizer", "-n", "2") == [
            {"id": 0, "token": "<|bos|>"},
            {"id": 1, "token": "<|eos|>"},
        ]

    def test_long_texts_are_cut_unless_asked_for(self, tmp_path: Path) -> None:
        prefix, long = tmp_path / "store", "word " * 2000
        run(str(prefix), end=Poems(texts=(long,), shards=1, label="long"))
        said = marin(prefix, "cat", "long").stdout
        assert len(said) < 2000
        assert "--full" in said
        assert long in marin(prefix, "cat", "long", "--full").stdout

    def test_a_name_that_fits_several_lists_them(self, store: Path, tmp_path: Path) -> None:
        said = marin(store, "cat", "poems", expect=4).stderr
        assert "tokenize/poems" in said
        assert "toy-poems/poems" in said
        prefix = tmp_path / "store"
        for text in ("old", "new"):
            run(str(prefix), end=Write(text=text, label="same"))
        identity = Write(text="old", label="same").identity
        said = marin(prefix, "cat", "toy-write/same", expect=4).stderr
        assert identity[:12] in said
        assert "--latest" in said
        assert marin(prefix, "cat", identity[:12]).stdout.strip() == "old"
        assert marin(prefix, "cat", "same", "--latest").stdout.strip() in ("old", "new")  # made in one second

    def test_the_same_bytes_twice_are_no_ambiguity(self, tmp_path: Path) -> None:
        prefix = tmp_path / "store"
        for encoding in ("utf-8", "ascii"):
            run(str(prefix), end=Write(text="same", encoding=encoding, label="same"))
        assert marin(prefix, "cat", "toy-write/same").stdout.strip() == "same"

    def test_a_deleted_file_is_named(self, tmp_path: Path) -> None:
        prefix = tmp_path / "store"
        run(str(prefix), end=Write(text="x", label="x"))
        next((prefix / "toy-write").glob("*/text.txt")).unlink()
        assert "text.txt is missing" in marin(prefix, "cat", "x", expect=5).stderr


class TestLogs:
    def test_of_failed_and_earlier_attempts(self, tmp_path: Path) -> None:
        prefix, switch = tmp_path / "store", tmp_path / "switch"
        broken = Fail(source=Write(text="x", label="x"), switch=str(switch), label="broken")
        for _ in range(2):
            run(str(prefix), end=broken)
        said = marin(prefix, "logs", "broken")
        assert "ValueError: the disk of dreams is empty" in said.stdout
        assert "Traceback" in said.stdout
        assert "attempt 2, 2 attempts: failed" in said.stderr
        switch.touch()
        run(str(prefix), end=broken)
        last = json.loads(marin(prefix, "logs", "toy-fail/broken", "--json").stdout)
        assert (last["attempt"], last["attempts"], last["standing"]) == (3, [1, 2, 3], "committed")
        first = json.loads(marin(prefix, "logs", "toy-fail", "--attempt", "1", "--json").stdout)
        assert first["standing"] == "failed"
        assert first["lines"][-1].startswith("ValueError")
        assert len(marin(prefix, "logs", "broken", "--attempt", "1", "-n", "2").stdout.splitlines()) == 2
        assert marin(prefix, "logs", "broken", "--attempt", "1", "-n", "0").stdout == ""
        assert "there are 1, 2, 3" in marin(prefix, "logs", "broken", "--attempt", "7", expect=4).stderr

    def test_names(self, tmp_path: Path) -> None:
        prefix = tmp_path / "store"
        old, new = (Write(text=text, label="a b") for text in ("old", "new"))
        run(str(prefix), end=old)
        run(str(prefix), end=new)
        said = marin(prefix, "logs", "toy-write/a b", expect=4).stderr
        assert old.identity[:12] in said
        assert new.identity[:12] in said
        assert old.identity in marin(prefix, "logs", old.identity[:8]).stdout
        assert new.identity in marin(prefix, "logs", new.identity).stdout
        [path] = [held for held in (prefix / "toy-write").iterdir() if old.identity[:12] in held.name]
        assert old.identity in marin(prefix, "logs", str(path)).stdout
        assert "did you mean toy-write" in marin(prefix, "logs", "toy-writ", expect=4).stderr

    def test_follow_until_the_step_ends(self, tmp_path: Path) -> None:
        """A name with two identities means the running step."""
        project, gate = gated(tmp_path)
        Project(tmp_path / "before").run("--prefix", str(project.store))  # the same name, other code and identity
        project.file.write_text(project.file.read_text().replace('text="hello"', 'text="bye"'))
        started = subprocess.Popen(project.command(), env=project.environment(), stdout=subprocess.DEVNULL)
        try:
            wait_for(Path(f"{gate}.started"))
            told = json.loads(marin(project.store, "logs", "say/say", "--json").stdout)
            assert told["standing"] == "running"
            following = subprocess.Popen(
                [*Command.program(), "logs", "say", "--follow", "--prefix", str(project.store)],
                env=project.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert following.stdout is not None
            assert "attempt 1" in following.stdout.readline()
            assert following.poll() is None
        finally:
            gate.touch()
            assert started.wait(timeout=60) == 0
        _, said = following.communicate(timeout=60)
        assert following.returncode == 0
        assert "running" in said.splitlines()[0]
        assert "committed" in said.splitlines()[-1]


class TestRunsAndStatus:
    def test_runs_say_who_what_and_how_it_ended(self, tmp_path: Path) -> None:
        project = Project(tmp_path / "project")
        project.run("--scale", "full")
        project.edit("return text.upper() + ending()", "raise RuntimeError(text)")
        project.run("--rebuild", "say", expect=1)
        bad, good = json.loads(marin(project.store, "status", "--json").stdout)["runs"][::-1]
        assert (good["outcome"], good["steps"], good["todo"], good["scale"]) == ("done", {"ran": 2}, 2, "full")
        assert (bad["outcome"], bad["steps"]["failed"], bad["experiment"]) == ("failed", 1, "exp1_toy")
        assert "--rebuild say" in bad["command"]
        assert "RuntimeError: hello" in marin(project.store, "status", "exp1_toy").stdout  # the last one's events
        told = json.loads(marin(project.store, "status", good["name"], "--json").stdout)
        assert [event["event"] for event in told["events"]] == ["began", *["started", "ended"] * 2, "ended"]
        assert "did you mean exp1_toy?" in marin(project.store, "status", "exp2_toy", expect=4).stderr
        assert good["name"] not in marin(project.store, "status", "-n", "1").stdout

    @pytest.mark.parametrize(("number", "outcome"), [(signal.SIGINT, "stopped"), (signal.SIGKILL, "died")])
    def test_a_run_that_was_ended_early_is_seen(self, tmp_path: Path, number: signal.Signals, outcome: str) -> None:
        project, gate = gated(tmp_path)
        started = subprocess.Popen(
            project.command(), env=project.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_for(Path(f"{gate}.started"))
        status = json.loads(marin(project.store, "status", "--json").stdout)
        [row] = status["steps"]
        assert (row["step"], row["status"]) == ("say/say", "running")
        (worker,) = psutil.Process(started.pid).children()
        assert str(worker.pid) in row["detail"]
        assert status["runs"][0]["outcome"] == "running"
        os.kill(started.pid, number)
        started.wait(timeout=60)
        wait_until(lambda: is_gone(worker.pid))
        status = json.loads(marin(project.store, "status", "--json").stdout)
        assert status["runs"][0]["outcome"] == outcome
        assert [row["status"] for row in status["steps"]] == ["stopped" if outcome == "stopped" else "dead"]
        gate.touch()
        project.run()
        said = marin(project.store, "status").stdout
        assert "nothing runs, nothing failed" in said
        assert outcome in said

    def test_status_folds_what_is_well(self, tmp_path: Path) -> None:
        prefix = tmp_path / "store"
        run(str(prefix), **{f"r{number}": Write(text=str(number), label=str(number)) for number in range(3)})
        run(str(prefix), end=Fail(source=Write(text="0", label="0"), label="broken"))
        said = marin(prefix, "status").stdout
        assert "the disk of dreams is empty" in said
        assert "toy-write" not in said


def test_commands_that_only_read_write_nothing(tmp_path: Path) -> None:
    prefix = tmp_path / "store"
    run(str(prefix), end=Join(parts=(Write(text="x", label="x"),), label="end"))
    before = tree(prefix)
    reading = (["ls"], ["ls", "--json"], ["cat", "x"], ["logs", "x"], ["status"], ["lineage", "end"], ["audit"])
    for command, *arguments in (*reading, ["lineage", "x", "--down"]):
        marin(prefix, command, *arguments)
    assert tree(prefix) == before


def test_an_output_s_kind_that_no_module_defines_is_shown_all_the_same(tmp_path: Path) -> None:
    """marin reads a store without the operators that filled it."""
    prefix = tmp_path / "store"
    run(str(prefix), end=Write(text="x", label="x"))
    script = f"""
from click.testing import CliRunner
from marin.cli.commands import main
for arguments in (["ls"], ["cat", "x"], ["logs", "x"], ["status"], ["audit", "--bytes"]):
    done = CliRunner().invoke(main, [*arguments, "--prefix", {str(prefix)!r}])
    assert done.exit_code == 0, done.output
"""
    subprocess.run([sys.executable, "-c", script], check=True)
