"""Test the pages of a served store over HTTP, on a store that steps made."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import zstandard

from marin import BatchSchedule, Checkpoint, Context, Documents, ExecutorStep, Items, Stages, Tokens, mixture
from marin.data.documents import Document, write_documents
from marin.data.token_store import write_token_store
from marin.evaluation.items import Item, write_items
from marin.report.serve import looked, site, texts
from marin.store.inventory import Inventory
from marin.store.layout import end_name, state_name
from marin.store.revocation import revoke
from marin.store.store import Store
from marin.text.presets import SHORT
from marin.training.checkpoint import METRICS, Facts, complete, step_directory
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.checkpoint_artifact import artifact_of
from operators.decontaminate import Decontaminate
from operators.exact_dedup import ExactDedup
from operators.filter import Filter
from operators.near_dedup import NearDedup
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer
from tests.cli.test_cli_store import Learnt
from tests.report.serve.browsing import Browser, served
from tests.support.project import Project, gated, wait_for
from tests.support.servers import StoreServer
from tests.support.toy import Blob, Fail, Write, record_of, run
from tests.training.runs import LLAMA

HOSTILE = "</pre></body><script>document.title='pwned'</script><img src=x onerror=alert(1)>"
ITEM = "A farmer keeps nine geese, seven ducks and three very old horses; how many wings are there on the farm in all?"
LONG = "x" * 10_000_000 + " needle at the end of a long line"


class Stories(ExecutorStep[Documents], op="toy-stories"):
    """Documents of every troublesome kind, in two shards. long: with a line of ten megabytes at the end."""

    long: bool = False

    def run(self, ctx: Context) -> Documents:
        rows = [
            Document(f"Story {number} is about a fox, {number} hens and the wolf of the wood.") for number in range(45)
        ]
        words = [f"word{number}" for number in range(200)]
        rows += [Document(" ".join([*words[:number], "other", *words[number:]])) for number in range(0, 200, 15)]
        rows += [rows[7], Document("too short"), Document("story\u202e 46 \x1b[31m\x00 with Needle and ümlaut\n" * 3)]
        rows += [Document(HOSTILE * 2, HOSTILE, {HOSTILE: [HOSTILE]})]
        rows += [Document(f"They asked: {ITEM} Nobody knew.")]
        rows += [Document(LONG)] if self.long else []
        documents, size, shards = write_documents(ctx.out, rows, 2)
        return Documents(documents=documents, bytes=size, shards=shards)


class Bomb(ExecutorStep[Blob], op="toy-bomb"):
    """A few kilobytes that become a hundred megabytes."""

    ending: str

    def run(self, ctx: Context) -> Blob:
        text = bytes(100 << 20)
        packed = gzip.compress(text) if self.ending == "gz" else zstandard.ZstdCompressor().compress(text)
        ctx.out.write_bytes(f"text.txt.{self.ending}", packed)
        return Blob(bytes=len(packed))


class Asked(ExecutorStep[Items], op="toy-asked"):
    def run(self, ctx: Context) -> Items:
        return Items(items=write_items(ctx.out, [Item("item-7", ITEM, "the answer is 7", "7")]))


class Trained(Train, op="toy-quickly-trained"):
    """A training that has its checkpoints at once."""

    def run(self, ctx: Context) -> Checkpoint:
        for done, out in ((20, step_directory(ctx.out / "kept", 20)), (self.end_step, ctx.out)):
            out.write_text(METRICS, "".join(f'{{"step": {step}, "loss": 2.5}}\n' for step in range(done)))
            facts = Facts(step=done, tokens=done, loss=2.5, model=LLAMA, vocabulary=self.vocabulary, averaged=False)
            complete(out, facts)
        return artifact_of(ctx.out)


STORIES = Stories(label=HOSTILE[:60])
LINES = Stories(long=True, label="lines")
DISTINCT = ExactDedup(documents=STORIES, label="distinct")
FILTERED = Filter(documents=DISTINCT, quality=SHORT, max_removed=1.0, label="filtered")
NEAR = NearDedup(documents=FILTERED, max_removed=1.0, label="near")
TOKENIZER = TrainTokenizer(documents=(NEAR,), vocabulary=300, label="toy")
TOKENS = Tokenize(documents=NEAR, tokenizer=TOKENIZER, label="tokens")
CLEAN = Decontaminate(documents=STORIES, against=(Asked(label="asked"),), max_removed=1.0, label="clean")
GIANT = Write(text="y" * 3_000_000, label="giant")
LEARNT = {f"learnt-{steps}": Learnt(steps=steps, label=f"learnt-{steps}") for steps in (40, 100)}


def made(prefix: str) -> None:
    run(prefix, tokens=TOKENS, clean=CLEAN, lines=LINES, giant=GIANT, **LEARNT)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    prefix = str(tmp_path_factory.mktemp("views") / "store")
    made(prefix)
    return prefix


@pytest.fixture(scope="module")
def browser(store: str) -> Iterator[Browser]:
    with served(store) as browser:
        yield browser


@pytest.fixture
def copy(store: str, tmp_path: Path) -> str:
    """To be spoilt."""
    shutil.copytree(store, tmp_path / "copy")  # with its times
    return str(tmp_path / "copy")


def started(project: Project) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(project.command(), env=project.environment(), stdout=nothing, stderr=nothing)


def begun(project: Project) -> str:
    """The identity of the one step that is at work."""
    [identity] = Inventory(Store(str(project.store))).claims
    return identity


def at(step: ExecutorStep[object], view: str = "") -> str:
    return f"step/{step.identity[:12]}" + (f"/{view}" if view else "")


def test_every_link_leads_to_a_page_whose_tags_balance_and_where_nothing_runs(browser: Browser) -> None:
    pages = browser.crawl(most=150)
    assert {at(STORIES), at(FILTERED, "dropped"), at(TOKENS, "tokens"), "curves", "outputs"} <= pages.keys()
    for path, reply in pages.items():
        assert len(reply.text) < 1_000_000, path
        if path != "style.css":
            tags = {tag for tag, _ in reply.read.tags}
            own = {"script"} if "script-src 'sha256-" in reply.headers["Content-Security-Policy"] else set[str]()
            assert not tags & {"script", "img", "iframe", "object"} - own, path
            assert not any(name.startswith("on") for _, given in reply.read.tags for name in given), path


def test_a_store_of_any_kind_is_served(any_prefix: str) -> None:
    made(any_prefix)
    with served(any_prefix) as browser:
        assert "toy-learnt/learnt-40" in browser.get().text or "checkpoint" in browser.get().text
        for step, view in (
            (STORIES, "contents"),
            (FILTERED, "dropped"),
            (TOKENS, "tokens"),
            (TOKENS, ""),
            (STORIES, "log"),
        ):
            browser.get(at(step, view))
        assert "figure class" in browser.get(f"curves?run={LEARNT['learnt-40'].identity[:12]}").text


class TestTexts:
    def test_documents_twenty_a_page(self, browser: Browser) -> None:
        first = browser.get(at(STORIES, "contents")).read.text
        assert "Entries 0 to 19 of 64" in first
        assert "Story 19 is" in first
        assert "Story 20 is" not in first
        assert "Story 20 is" in browser.get(at(STORIES, "contents?from=20")).read.text
        [field] = [
            given for _, given in browser.get(at(STORIES, "contents?from=20")).read.tags if given.get("name") == "from"
        ]
        assert "value" not in field, "a new search would leave out what comes before this page"
        assert "No more entries" in browser.get(at(STORIES, "contents?from=999")).read.text

    def test_hostile_text_is_shown_as_text(self, browser: Browser) -> None:
        page = browser.get(at(STORIES, "contents?from=62")).read
        assert HOSTILE * 2 in page.text
        assert STORIES.name in page.text

    def test_a_line_of_ten_megabytes_is_cut_and_can_be_read_on(self, browser: Browser) -> None:
        page = browser.get(at(LINES, "contents?from=64"))
        assert len(page.text) < 50_000
        assert f"{len(LONG) - texts.CUT:,} more characters" in page.read.text
        end = browser.get(at(LINES, f"contents?from=64&at={len(LONG) - 1000}"))
        assert "needle at the end" in end.read.text
        assert len(browser.get(at(LINES, "contents?from=64&at=0")).text) < 1_000_000

    @pytest.mark.parametrize(
        ("words", "found"),
        [("NEEDLE", 2), ("story 3 is", 1), ("STORY", 46), ("ÜMLAUT", 1), ("<script>", 1), ("nowhere", 0)],
    )
    def test_a_search_says_what_it_looked_through(self, browser: Browser, words: str, found: int) -> None:
        page = browser.get(at(LINES, f"contents?q={quote(words)}")).read
        shown = min(found, 20)
        assert re.search(rf"{shown} of these \d+ holds? “{re.escape(words)}”", page.text), page.text[:600]
        marks = [tag for tag, _ in page.tags if tag == "mark"]
        assert len(marks) >= shown
        assert ("next" in page.text) == (found > 20)

    def test_a_search_that_takes_too_long_says_how_far_it_came(
        self, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(texts, "SEARCH_SECONDS", 0.0)
        looked_at, path = 0, at(LINES, "contents?q=needle")
        for _ in range(80):
            reply = browser.get(path)
            if "The search is not complete" not in reply.text:
                break
            assert "were searched" in reply.text
            following = re.search(r"contents\?(from=\d+&amp;q=needle)\">Continue", reply.text)
            assert following is not None
            path, looked_at = at(LINES, f"contents?{following[1].replace('&amp;', '&')}"), looked_at + 1
        assert looked_at == 64  # one more each time, never none

    def test_files_and_records_are_texts_too(self, browser: Browser) -> None:
        learnt = LEARNT["learnt-40"]
        assert "0.25" in browser.get(at(learnt, "file/metrics.jsonl")).read.text
        assert "is not text" in browser.get(at(learnt, "file/weights.bin")).read.text
        assert "{'web" not in browser.get(at(learnt, "contents")).text

    def test_what_is_too_large_to_be_read_whole_is_not_read(
        self, browser: Browser, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(site, "LARGEST", 99)
        learnt = LEARNT["learnt-40"]
        said = browser.get(at(learnt, "file/weights.bin"), expect=400).read.text
        assert "weights.bin has more than 99 B" in said
        browser.get(at(learnt, "file/metrics.jsonl"))
        browser.get(at(GIANT, "contents"), expect=400)

    @pytest.mark.parametrize("ending", ["gz", "zst"])
    def test_what_grows_without_end_is_not_decompressed(
        self, prefix: str, monkeypatch: pytest.MonkeyPatch, ending: str
    ) -> None:
        monkeypatch.setattr(site, "LARGEST", 1 << 20)
        bomb = Bomb(ending=ending, label="bomb")
        run(prefix, end=bomb)
        with served(prefix) as browser:
            assert "has more than 1.0 MiB" in browser.get(at(bomb, "contents"), expect=400).read.text


class TestDropped:
    def test_each_text_with_its_reason_beside_what_was_kept(self, browser: Browser) -> None:
        page = browser.get(at(DISTINCT, "dropped")).read
        assert page.row("duplicate_document")[1:] == ["1", "1.56 %"]
        assert page.row("kept")[1:] == ["63", "98.44 %"]
        dropped, kept = page.text.split("Kept", 1)
        assert "Story 7 is about" in dropped
        assert "Story 8 is about" in kept

    def test_one_reason_alone_and_further_pages(self, store: str, browser: Browser) -> None:
        reason, count = next(iter(record_of(store, FILTERED).facts["dropped"].items()))
        page = browser.get(at(FILTERED, f"dropped?reason={reason}")).read.text
        assert page.count(f". {reason}") == min(count, 10)
        more = browser.get(at(NEAR, "dropped?from=10&kept=3")).read.text
        assert "11. near_duplicate" in more
        assert "Copy of this document:" in more

    def test_a_document_that_holds_a_test_item_beside_the_item(self, browser: Browser) -> None:
        page = browser.get(at(CLEAN, "dropped")).read.text
        assert "Holds test item item-7:" in page
        assert f"{ITEM}\n→ the answer is 7" in page
        assert f"They asked: {ITEM}" in page

    def test_without_its_input_the_reason_is_still_there(self, copy: str) -> None:
        shutil.rmtree(Path(copy) / record_of(copy, DISTINCT).attempt)
        with served(copy) as browser:
            page = browser.get(at(FILTERED, "dropped")).read.text
        assert "No text:" in page
        assert "cannot be read" in page


class ManyTokens(ExecutorStep[Tokens], op="toy-many-tokens"):
    documents: int = 2000

    def run(self, ctx: Context) -> Tokens:
        texts = [np.full(999, number % 7 + 1) for number in range(self.documents)]
        meta = write_token_store(ctx.out, texts, vocabulary=300, tokenizer="t" * 64, eos=0)
        return Tokens(tokens=meta.tokens, documents=meta.documents, vocabulary=300, tokenizer=meta.tokenizer)


class TestTokens:
    def test_the_boxes_make_up_the_documents_and_say_where_they_end(self, browser: Browser) -> None:
        cat = browser.get(at(TOKENS, "contents")).read.text
        assert "tokens" in cat
        page = browser.get(at(TOKENS, "tokens?length=64"))
        boxes = re.findall(r'<span title="[\d ]+"(?: class="several")?>(.*?)</span>', page.text, re.DOTALL)
        assert "".join(boxes).startswith("Story 0 is about a fox, 0 hens and the wolf")
        assert "document 0 ends" in page.text
        ends = [int(number) for number in re.findall(r"document (\d+) ends", page.text)]
        assert ends == list(range(len(ends)))

    def test_a_length_and_a_place_of_ones_own(self, browser: Browser) -> None:
        page = browser.get(at(TOKENS, "tokens?length=1&from=5")).read.text
        assert "Sequences 5 to 8" in page
        total = re.search(r"of ([\d,]+), in the order", page)
        assert total is not None
        last = browser.get(at(TOKENS, "tokens?from=99999999")).read.text
        assert "Sequence " in last

    def test_of_a_bucket_only_what_is_shown_is_read(self, server: StoreServer) -> None:
        prefix, many = server.new_prefix(), ManyTokens(label="many")
        run(prefix, many=many)
        with served(prefix) as browser:
            server.obey()
            assert "Sequences 3,900 to 3,903" in browser.get(at(many, "tokens?length=512&from=3900")).read.text
            browser.get(at(many, "contents"))
        assert 0 < server.bytes_read(prefix)["tokens.bin"] < 500_000 < many.documents * 1000 * 2


class TestCurves:
    def test_several_runs_over_one_another(self, browser: Browser) -> None:
        runs = "&".join(f"run={step.identity[:12]}" for step in LEARNT.values())
        page = browser.get(f"curves?{runs}")
        [drawn] = page.read.data
        assert [(run["name"], run["colour"], len(run["y"]["loss"])) for run in drawn["runs"]] == [
            ("toy-learnt/learnt-100", 0, 100), ("toy-learnt/learnt-40", 1, 40),
        ]  # fmt: skip
        assert "script-src 'sha256-" in page.headers["Content-Security-Policy"]
        assert [page.read.row(f"toy-learnt/{name}")[1] for name in LEARNT] == ["40", "100"]
        assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
        assert "has no grace by step; it has step, loss" in browser.get(f"curves?{runs}&metric=grace").read.text

    def test_checkpoints_of_other_operators_stand_folded_below_trainings(self, copy: str) -> None:
        training = Trained(
            label="quick", model=LLAMA, vocabulary=300, optimizer=Adam(), schedule=Schedule(), seq_len=32, seed=0,
            data=Stages({0: mixture({TOKENS: 1.0})}), batch=BatchSchedule({0: 8}), block=16, end_step=40,
        )  # fmt: skip
        mark = training.at(20)
        run(copy, last=training, mark=mark)
        with served(copy) as browser:
            text = browser.get("curves").text
            assert (
                text.index("toy-learnt/learnt-40")
                < text.index("1 checkpoint of milestone")
                < text.index("milestone/quick@20")
            )
            assert "<details open>" not in text
            assert "<details open>" in browser.get(f"curves?run={mark.identity[:12]}").text

    def test_a_training_that_still_runs(self, copy: str, tmp_path: Path) -> None:
        project, gate = gated(tmp_path)
        process = started(project)
        wait_for(Path(f"{gate}.started"))
        identity = begun(project)
        state = project.store / state_name(identity)
        state.mkdir(parents=True)
        line = {"step": 1, "prompt": "Once", "greedy": " upon\na time", "sampled": ""}
        (state / "samples.jsonl").write_text(f'{json.dumps(line)}\n{{"step": 2, "pro')
        (state / "metrics.jsonl").write_text('{"step": 0, "loss": null}\n{"step": 1, "loss": 3.5}\n{"step": 2, "lo')
        try:
            with served(str(project.store)) as browser:
                assert ["say/say", "running"] in [
                    [row[1].split()[0], *row[2].split()] for row in browser.get("curves").read.rows[1:]
                ]
                page = browser.get(f"curves?run={identity[:12]}").read
                assert page.row("say/say")[1:4] == ["2", "3.5", "1"]
                page = browser.get(f"step/{identity[:12]}").read
                assert (page.row("greedy"), page.row("sampled")) == (["greedy", "upon⏎a time"], ["sampled", "—"])
        finally:
            gate.touch()
            process.wait()


class TestTrust:
    def test_what_is_revoked_says_so_on_every_view(self, copy: str) -> None:
        revoke(Store(copy), record_of(copy, DISTINCT), "holds <b>test</b> items")
        with served(copy) as browser:
            for step, kind in ((DISTINCT, "REVOKED"), (FILTERED, "UNTRUSTED"), (TOKENS, "UNTRUSTED")):
                for view in (
                    "",
                    "contents",
                    "record",
                    "tokens" if step is TOKENS else "dropped",
                    "contents?from=0&at=0",
                ):
                    page = browser.get(at(step, view))
                    assert f"✕ {kind}" in page.text, (step.name, view)
                    assert "holds &lt;b&gt;test&lt;/b&gt; items" in page.text
            assert "✕ revoked" in browser.get("outputs").text
            assert "REVOKED" not in browser.get(at(STORIES)).text

    def test_what_is_damaged_says_so_on_every_view(self, copy: str) -> None:
        shard = Path(copy) / record_of(copy, STORIES).attempt / "shard-00001-of-00002.parquet"
        shard.write_bytes(shard.read_bytes()[:-100])
        with served(copy) as browser:
            for view in ("", "record", "contents"):
                page = browser.get(at(STORIES, view))
                assert "✕ DAMAGED" in page.text
                assert "truncated: shard-00001-of-00002.parquet" in page.text
            assert "✕ damaged" in browser.get("outputs").text
            page = browser.get(at(STORIES, "contents?from=40"), expect=500).read.text
            assert "shard-00001-of-00002.parquet cannot be read" in page

    def test_bytes_that_were_touched_are_not_called_right(self, copy: str) -> None:
        shard = Path(copy) / record_of(copy, STORIES).attempt / "shard-00000-of-00002.parquet"
        shard.write_bytes(shard.read_bytes())
        with served(copy) as browser:
            page = browser.get(at(STORIES)).text
        assert "TOUCHED" in page
        assert "its files match the manifest" not in page

    def test_a_record_that_cannot_be_read_is_named_on_every_page(self, copy: str) -> None:
        (Path(copy) / end_name(NEAR.identity, 1)).write_text("{")
        with served(copy) as browser:
            for path in ("", "outputs", "curves", at(STORIES)):
                assert "1 record cannot be read" in browser.get(path).text
            assert "corrupt" in browser.get(at(NEAR)).text

    def test_an_output_that_is_deleted_meanwhile(self, copy: str) -> None:
        with served(copy) as browser:
            assert "Story 0" in browser.get(at(STORIES, "contents")).text
            shutil.rmtree(Path(copy) / record_of(copy, STORIES).attempt)
            assert "✕ DAMAGED" in browser.get(at(STORIES)).text
            browser.get(at(STORIES, "contents"), expect=500)
            assert "STORE" not in browser.get("outputs").text


def test_a_step_that_is_at_work_has_failed_or_was_made_a_moment_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looked, "STALE_SECONDS", 0.0)
    monkeypatch.setattr(looked, "STALE_SHARE", 0)
    project, gate = gated(tmp_path)
    process = started(project)
    wait_for(Path(f"{gate}.started"))
    with served(str(project.store)) as browser:
        identity = begun(project)
        assert browser.get().read.row("running")[1] == "say/say"
        assert "running" in browser.get(f"step/{identity[:12]}").text
        assert "exp1_toy" in browser.get("runs").text
        gate.touch()
        assert process.wait() == 0
        assert browser.get().read.row("exp1_toy")[1] == "done"
        pages = browser.crawl()
        assert any(path.startswith("page/") for path in pages)
        assert any(path.startswith("run/") for path in pages)
        assert "HELLO!!" in pages[f"step/{identity[:12]}/file/text.txt"].text
    run(str(project.store), failed=Fail(source=Write(text="a", label="a"), label="bad"))
    with served(str(project.store)) as browser:
        row = browser.get().read.row("failed")
        assert row[1] == "toy-fail/bad"
        assert "disk of dreams" in row[2]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nothing", 404),
        ("step/zzzzzz", 404),
        ("step/0123456789ab", 404),
        ("step/a", 404),
        ("step/../../etc/passwd", 404),
        ("page/..%2f..%2fetc%2fpasswd", 404),
        ("run/latest", 404),
        ("run/%2e%2e%2f", 404),
        ("outputs?from=-1", 400),
        ("outputs?from=x", 400),
        (f"{'x' * 30_000}", 404),
        ("step/%ff%00", 404),
        ("outputs?q=%ff%00%f0", 200),
        ("outputs?kind=%3Cscript%3E", 200),
        ("curves?run=%3Cscript%3E&metric=%3Cscript%3E", 200),
        ("runs?experiment=%3Cscript%3E", 200),
    ],
)
def test_an_address_that_nobody_offered(browser: Browser, path: str, status: int) -> None:
    reply = browser.get(path, expect=status)
    assert "<script" not in reply.text
    assert "Traceback" not in reply.text


@pytest.mark.parametrize(
    "path", ["../../record.json", "..%2f..%2fx", "/etc/passwd", ".marin/record.json", "%00", "a//b"]
)
def test_no_file_outside_an_output_is_read(browser: Browser, path: str) -> None:
    assert "has no file" in browser.get(at(STORIES, f"file/{path}"), expect=404).read.text


def test_a_giant_record_does_not_make_a_giant_page(browser: Browser) -> None:
    assert len(browser.get(at(GIANT)).text) < 40_000
    record = browser.get(at(GIANT, "record"))
    assert "this is only a part" in record.text
    assert len(record.text) < 1_000_000


def test_many_browsers_at_once(browser: Browser) -> None:
    run_ids = "&".join(f"run={step.identity[:12]}" for step in LEARNT.values())
    paths = ["", "outputs", f"curves?{run_ids}", at(TOKENS, "tokens"), at(NEAR, "dropped"), at(STORIES)] * 4
    with ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(browser.get, paths))
    for path, reply in zip(paths, replies, strict=True):
        assert without_time(reply.text) == without_time(replies[paths.index(path)].text)


def without_time(text: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d", "", text)
