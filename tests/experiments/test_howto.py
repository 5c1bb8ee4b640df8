"""Test docs/howto: its experiments run, and its pages show true output."""

import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from marin import BatchSchedule, ExecutorStep, Stages, mixture
from marin.cli.exits import Exit
from marin.data.documents import read_documents
from marin.data.dropped import read_dropped
from marin.data.tokenizer import train_bpe
from marin.executor.make_here import make_here
from marin.store.files.directory import Directory
from marin.training.model import Llama
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.download import FsspecFiles
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from operators.train_tokenizer import TrainTokenizer
from tests.operators.servers import HubServer, serving
from tests.support.new_project import marin, new_project, told
from tests.support.project import ROOT
from tests.text.real_texts import real_texts

PAGES = ROOT / "docs/howto"
BUILT = {
    "checkpoints",
    "evaluate",
    "fine-tune",
    "quality-model",
}  # these pages show other code too; tests/operators runs the steps that they name


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the code that `marin new` writes, without its layout."""
    made = new_project(tmp_path_factory.mktemp("new") / "my_project")
    marin(made, "new", "experiment", "sweep")
    return "".join(unspaced(path.read_text()) for path in sorted(made.rglob("*.py")))


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def unspaced(code: str) -> str:
    """A page is formatted for itself: without the indentation of the function that it quotes."""
    return "".join(code.split()).replace(",)", ")")


def page_steps() -> dict[str, Any]:
    """Return the arguments of the functions on the pages of BUILT, by the names of their parameters."""
    text = TextFiles(path="/data/text", label="own")
    tokenizer = TrainTokenizer(documents=(text,), vocabulary=512, label="own")
    tokens = mixture({Tokenize(documents=text, tokenizer=tokenizer, label="own"): 1.0})
    run = Train(
        label="run",
        model=Llama(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2, seq_len=32),
        vocabulary=512,
        optimizer=Adam(peak_lr=1e-3),
        schedule=Schedule(warmup=2),
        data=Stages({0: tokens}),
        batch=BatchSchedule({0: 4}),
        seq_len=32,
        seed=0,
        block=32,
        end_step=8,
    )
    chats = FsspecFiles(urls=("/data/chats/*.jsonl",), label="chats")
    return {
        **dict.fromkeys(("base", "checkpoint"), run),
        **dict.fromkeys(("web", "code", "c4"), text),
        "tokenizer": tokenizer,
        "pretraining": tokens,
        "files": chats,
    }


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_code_on_a_page_is_of_a_file_that_runs(page: Path, examples: str) -> None:
    """The code is in the file beside the page, or in the files of `marin new`, which tests/docs runs.

    Other code on the pages of BUILT runs by itself, and its functions return steps.
    """
    beside = page.with_name(f"{page.stem.replace('-', '_')}.py")
    known = examples + (unspaced(beside.read_text()) if beside.exists() else "")
    others = [block for block in blocks(page) if unspaced(block) not in known]
    assert others == [] or page.stem in BUILT
    names: dict[str, Any] = {"__name__": page.stem}
    for block in others:
        exec(block, names)
    given, functions = page_steps(), [one for one in names.values() if getattr(one, "__module__", "") == page.stem]
    assert functions or not any("def " in block for block in others)
    for function in functions:
        made = function(*(given[parameter] for parameter in inspect.signature(function).parameters))
        assert isinstance(made, ExecutorStep)
    assert not beside.exists() or f"({beside.name})" in page.read_text()


def test_every_file_beside_a_page_runs_below() -> None:
    run = {
        *HUB,
        "clean_text",
        "quality_model",
        "read_outputs",
        "change_a_run",
        "run_health",
        "tpu_slices",
        "ladder",
        "mixtures",
        "mixture_search",
        "microanneal",
        "contamination",
        "inspect_batches",  # tests/cli/test_inspect_command.py
        "published_model",
        "worth_adding",
        "compare_published",
    }
    assert {path.stem for path in PAGES.glob("*.py")} == run


REVISION = re.compile(r'"([0-9a-f]{40})"')
REPOSITORY = re.compile(r'repo(?:sitory)?="([^"]+)"')


def dataset(_: Path) -> dict[str, bytes]:
    """Each record with all fields that the page reads."""
    record = {"text": "one", "question": "2 + 2?", "answer": "4", "content": "pass", "language": "Python"}
    made: Any = io.BytesIO()
    table = pa.Table.from_pydict({name: [value] * 2 for name, value in record.items()})  # pyright: ignore
    pq.write_table(table, made)  # pyright: ignore
    return {"finemath-3plus/train-0.parquet": made.getvalue(), "README.md": b"not this"}


def tokenizer(folder: Path) -> dict[str, bytes]:
    train_bpe(Directory(str(folder)), ["some text to train on, and some more text"] * 9, 300)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


HUB: dict[str, tuple[str, Callable[[Path], dict[str, bytes]]]] = {
    "huggingface_dataset": ("4 ran", dataset),
    "own_tokenizer": ("6 ran, 1 aliased", tokenizer),
}


def given(page: str, folder: Path) -> Path:
    """Return the page's file, with our data in place of the data that the page names."""
    (folder / "data/text").mkdir(parents=True)
    (folder / "data/text/a.txt").write_text("the one and the other, one after the other. " * 300)
    (folder / "data/my_tokenizer").mkdir()
    tokenizer(folder / "data/my_tokenizer")
    source = (PAGES / f"{page}.py").read_text()
    (folder / f"{page}.py").write_text(source.replace('"/data/', f'"{folder}/data/'))
    return folder / f"{page}.py"


@pytest.mark.parametrize("page", HUB)
def test_what_reads_the_hub_runs(page: str, tmp_path: Path) -> None:
    says, served = HUB[page]
    file = given(page, tmp_path)
    [repository], [revision] = (found.findall(file.read_text()) for found in (REPOSITORY, REVISION))
    (tmp_path / "hub").mkdir()
    of: dict[str, object] = {"repo": repository, "revision": revision, "files": served(tmp_path / "hub")}
    of |= dict.fromkeys(("large", "lies", "gated"), frozenset[str]())
    with serving(HubServer, **of) as base:
        hub = {"HF_ENDPOINT": base, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(tmp_path / "home")}
        assert says in told(tmp_path, sys.executable, file.name, "--backend", "inline", ends=0, **hub)


def run_with_a_tiny_model(page: str, folder: Path) -> str:
    """Run the experiment of a page with a tiny Qwen3 in place of the page's model, and return its output."""
    file = given(page, folder)
    for number, text in enumerate(real_texts("stdlib")[:30]):
        (folder / f"data/text/{number}.txt").write_text(text)
    for name in ("web", "new"):
        shutil.copytree(folder / "data/text", folder / "data" / name)
    model = ROOT / "tests/training/published/qwen3"
    declared = told(folder, sys.executable, "-m", "marin", "new", "model", str(model))
    shape = re.compile(r"shape=ModelShape\(.*?\),\n    vocabulary=[\d_]+", re.DOTALL)
    file.write_text(shape.sub(shape.findall(declared)[0], file.read_text()))
    asked = [{"question": f"{n} and {n}?", "answer": f"It is {2 * n}. #### {2 * n}"} for n in range(12)]
    (folder / "data/questions.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    shutil.copytree(ROOT / "tests/training/published/llama3", folder / "data/my_model")
    tokenizer(folder / "data/my_model")
    [repository], [revision] = ({*found.findall(file.read_text())} for found in (REPOSITORY, REVISION))
    (folder / "tokenizer").mkdir()
    files = tokenizer(folder / "tokenizer") | {
        path.name: path.read_bytes() for path in model.iterdir() if path.name != "logits.npz"
    }
    of: dict[str, object] = {"repo": repository, "revision": revision, "files": files}
    of |= dict.fromkeys(("large", "lies", "gated"), frozenset[str]())
    with serving(HubServer, **of) as base:
        hub = {"HF_ENDPOINT": base, "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": str(folder / "home")}
        return told(folder, sys.executable, file.name, "--backend", "inline", **hub)


@pytest.mark.slow
def test_a_published_model_is_trained_on(tmp_path: Path) -> None:
    assert "11 ran" in run_with_a_tiny_model("published_model", tmp_path)
    (report,) = (tmp_path / "store/compare").glob("continued-*/report.json")
    assert json.loads(report.read_text())["arms"] == ["continued", "published"]
    (config,) = (tmp_path / "store/export").glob("continued-*/step8-*/config.json")
    assert json.loads(config.read_text())["architectures"] == ["Qwen3ForCausalLM"]


@pytest.mark.slow
def test_a_dataset_is_judged_by_cooldowns_of_a_published_model(tmp_path: Path) -> None:
    said = run_with_a_tiny_model("worth_adding", tmp_path)
    unknown = "Unknown: the training text of pretrained-model/"
    assert unknown in said
    assert unknown in (tmp_path / "store/.marin/pages/worth_adding-rehearsal.html").read_text()
    audited = told(tmp_path, sys.executable, "-m", "marin", "audit", "worth_adding.py", "--json")
    assert "is unknown, because it was trained elsewhere" in audited
    assert len(list((tmp_path / "store/train").iterdir())) == 6
    (report,) = (tmp_path / "store/judge").glob("*/report.json")
    assert json.loads(report.read_text())["candidates"].keys() == {"new"}


@pytest.mark.slow
def test_published_models_are_compared(tmp_path: Path) -> None:
    assert "Unknown: the training text of folder-model/mine, pretrained-model/qwen before" in run_with_a_tiny_model(
        "compare_published", tmp_path
    )
    (report,) = (tmp_path / "store/compare").glob("published-*/report.json")
    metrics = {row["metric"] for row in json.loads(report.read_text())["rows"]}
    assert {"bpb/own", "questions/olmes/bpb"} <= metrics


@pytest.mark.slow
def test_a_run_is_changed_in_the_middle_and_planned_on_slices(tmp_path: Path) -> None:
    """The slices' training is the run that was changed: at rehearsal scale it is there already."""
    changed, sliced = given("change_a_run", tmp_path / "a"), PAGES / "tpu_slices.py"
    on_slices = changed.with_name(sliced.name)
    on_slices.write_text(sliced.read_text().replace('"/data/', f'"{tmp_path}/a/data/'))
    assert "6 ran" in told(tmp_path, sys.executable, str(changed), "--backend", "inline")
    assert "4 cached" in told(tmp_path, sys.executable, str(on_slices), "--backend", "inline")
    assert "2 × v5p-1024" in told(tmp_path, sys.executable, str(changed), "--scale", "full", "--dry-run")
    said = told(tmp_path, sys.executable, str(on_slices), "--scale", "full", "--dry-run")
    assert re.search(r"run .* v4-2048 ", said)
    on_slices.write_text(on_slices.read_text().replace("Scale.FULL: 4096}", "Scale.FULL: 4000}"))
    said = told(tmp_path, sys.executable, str(on_slices), "--scale", "full", "--dry-run", ends=Exit.EXPERIMENT)
    watched = given("run_health", tmp_path / "b")
    for domain in ("code", "web"):
        shutil.copytree(tmp_path / "a/data/text", tmp_path / "b/data" / domain)
    told(tmp_path, sys.executable, str(watched), "--backend", "inline")
    (metrics,) = (tmp_path / "store/train").glob("watched-*/metrics.jsonl")
    assert "held_out/bpb/web" in metrics.read_text()
    [shown] = re.findall(r"^BadField: .*$", (PAGES / "tpu-slices.md").read_text(), re.MULTILINE)
    assert shown in said


def test_shares_by_tokens_are_gone_over_to_evenly_and_shown_before(tmp_path: Path) -> None:
    """The training draws the numbers of the plan's table, which marin computes from the store."""
    mixed = given("mixtures", tmp_path / "a")
    for domain, times in (("web", 8), ("code", 4), ("papers", 1)):
        (tmp_path / "a/data" / domain).mkdir()
        for number in range(times):
            shutil.copytree(tmp_path / "a/data/text", tmp_path / "a/data" / domain / str(number))
    before = json.loads(marin(tmp_path, "plan", str(mixed), "--data", "--json"))["phases"][0]
    assert (before["draws"], [shares for _, shares in before["stages"]]) == (None, [{}, {}])
    assert "ran" in told(tmp_path, sys.executable, str(mixed), "--backend", "inline")
    shown = marin(tmp_path, "plan", str(mixed), "--data", "--json", "--prefix", "store")
    after = json.loads(shown)["phases"][0]
    held = {row["name"]: row["available"] for row in after["draws"]["total"]}
    assert after["over"] == {"4": 2}
    cooldown = after["stages"][1][1]
    good = held["code"] + 5 * held["papers"]
    assert cooldown["papers"] == pytest.approx(0.3 * 5 * held["papers"] / good)
    (metrics,) = (tmp_path / "store/train").glob("run-*/metrics.jsonl")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    drawn = {name: 32 * sum(row["sources"].get(name, 0) for row in rows) for name in held}
    assert {row["name"]: row["drawn"] for row in after["draws"]["total"]} == drawn
    assert [row["sources"].get("papers", 0) for row in rows[:4]] == [0, 0, 0, 0]
    assert any("over 2 steps" in str(row) for row in rows)


@pytest.mark.slow
@pytest.mark.timeout(2400)  # five trainings, the last of several minutes where four tests share two cores
def test_a_ladder_predicts_with_a_backtest(tmp_path: Path) -> None:
    file = given("ladder", tmp_path)
    (tmp_path / "data/held_out").mkdir()
    for number, text in enumerate(real_texts("stdlib")[:60]):
        folder = "held_out" if number % 6 == 0 else "text"
        (tmp_path / f"data/{folder}/{number}.txt").write_text(text)
    assert "ran" in told(tmp_path, sys.executable, file.name, "--backend", "inline")
    (report,) = (tmp_path / "store/ladder").glob("*/report.json")
    found = json.loads(report.read_text())["recipes"]["recipe"]
    assert len(found["rungs"]) == 5
    assert found["backtest"]["measured"] == found["rungs"][-1]["mean"]
    assert found["prediction"]["low"] <= found["prediction"]["value"] <= found["prediction"]["high"]


@pytest.mark.slow
@pytest.mark.timeout(2400)  # 17 trainings
def test_a_mixture_is_searched_and_the_optimum_trained(tmp_path: Path) -> None:
    """The validation reads the shares that the report found."""
    file = given("mixture_search", tmp_path)
    for domain, text in (("web", "one and the other. "), ("code", "def one(): return 1\n"), ("papers", "∑ 1/n = ∞; ")):
        (tmp_path / "data" / domain).mkdir()
        for number in range(8):  # the verdict compares documents, so a domain needs several
            (tmp_path / "data" / domain / f"{number}.txt").write_text(text * 50)
    assert "ran" in told(tmp_path, sys.executable, str(file), "--backend", "inline")
    (output,) = (tmp_path / "store/find-mixture").glob("mixture-*")
    found = json.loads((output / "mixtures.json").read_text())
    shares = {name: share for name, share in found["best proxy"].items() if share}
    (metrics,) = (tmp_path / "store/train").glob("mixture-best-proxy-seed-1-*/metrics.jsonl")
    read: dict[str, int] = {}
    for line in metrics.read_text().splitlines():
        for name, count in json.loads(line)["sources"].items():
            read[name] = read.get(name, 0) + count
    assert {name: count / sum(read.values()) for name, count in read.items()} == pytest.approx(shares, abs=0.02)


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_links_of_a_page_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_text_is_cleaned_and_what_is_bad_of_it_listed(tmp_path: Path) -> None:
    file = given("clean_text", tmp_path)
    (tmp_path / "data/text/b.jsonl").write_bytes(b'{"text": "one"}\n{"text": null}\n')
    # As Python 3.12 has them, one of these nine stays.
    for number, text in enumerate(real_texts("stdlib")[25:34]):
        (tmp_path / f"data/text/{number}.txt").write_text(text)
    assert "6 ran" in told(tmp_path, sys.executable, file.name, "--backend", "inline")
    (crawl,) = (tmp_path / "store/text-files").glob("crawl-*")
    [bad] = read_dropped(Directory(str(crawl)))
    assert (bad.reason, bad.id.rpartition("/")[2]) == ("no text", "b.jsonl line 2")
    theirs, ours = (tmp_path.glob(f"store/{name}-*/") for name in ("datatrove/blocks", "filter/fineweb"))
    kept = [[document.source for document in read_documents(Directory(str(*found)))] for found in (theirs, ours)]
    assert kept[0] == kept[1] != []


def test_what_holds_a_test_item_is_dropped(tmp_path: Path) -> None:
    file = given("contamination", tmp_path)
    asked = "Which of these rivers, seen from the harbour wall at noon, carries the most barley to the sea?"
    (tmp_path / "data/suite").mkdir()
    (tmp_path / "data/suite/mmlu.jsonl").write_text(json.dumps({"question": asked, "answer": "none"}) + "\n")
    (tmp_path / "data/text/b.txt").write_text(f"Somebody asked: {asked.upper()}")
    assert "4 ran" in told(tmp_path, sys.executable, file.name, "--backend", "inline")
    (clean,) = (tmp_path / "store/decontaminate").glob("crawl-*")
    [gone] = read_dropped(Directory(str(clean)))
    assert (gone.reason, gone.detail["items"]) == ("contaminated", 1)


def test_a_model_of_a_judges_opinion_keeps_the_best_of_a_crawl(tmp_path: Path) -> None:
    file = given("quality_model", tmp_path)
    reasons = [f"It fell because it was {n} kg. It rose because it was warm." for n in range(300)]
    others = [f"Buy {n} now. Best price of {n} shops." for n in range(300)]
    lines = [json.dumps({"text": text}) for pair in zip(reasons, others, strict=True) for text in pair]
    (tmp_path / "data/text/crawl.jsonl").write_text("\n".join(lines) + "\n")
    assert "8 ran" in told(tmp_path, sys.executable, file.name, "--backend", "inline")
    (best,) = (tmp_path / "store/select").glob("best-*")
    kept = [document.text for document in read_documents(Directory(str(best)))]
    assert 55 <= len(kept) < 300
    assert all("because" in text for text in kept)


def test_documents_are_read_in_python_as_the_page_says(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for name in "ab":
        (tmp_path / f"text/{name}.txt").write_text(name)
    step, prefix = TextFiles(path=str(tmp_path / "text")), str(tmp_path / "store")
    make_here(step, prefix)
    assert told(tmp_path, sys.executable, str(PAGES / "read_outputs.py"), prefix, step.identity) == "a\nb\n"


def test_the_experiment_of_the_readme_runs(tmp_path: Path) -> None:
    [experiment] = blocks(ROOT / "README.md")
    (tmp_path / "exp1.py").write_text(experiment)
    done = subprocess.run(
        [sys.executable, "exp1.py", "--backend", "inline"],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 ran" in done.stdout
    assert "• as code: documents" in done.stdout
    assert len(experiment.splitlines()) <= 25
