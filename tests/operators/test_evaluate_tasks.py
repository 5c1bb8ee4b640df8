"""EvaluateTasks: the harness's own tasks, on small data in the hub's form, from a server that speaks its protocol."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from infra.hardware import gpu
from marin.data.artifacts import Checkpoint, Tokenizer
from marin.data.mixture import Mixture, Stages
from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import BadField, InputError, NothingScored, TokenizerMismatch
from marin.evaluation.contamination import Sets, evidence
from marin.evaluation.harness_task import HarnessTask
from marin.evaluation.items import read_items
from marin.evaluation.olmes import as_olmes
from marin.evaluation.results import Results, read_results
from marin.store.files.directory import Directory
from operators.download import HuggingFace
from operators.evaluate_tasks import EvaluateTasks
from operators.export import Export
from operators.task_items import TaskItems
from operators.tokenize import Tokenize
from tests.evaluation.problems import problems
from tests.operators.running import Given, file_bytes, run_step
from tests.operators.servers import HubServer, serving
from tests.operators.stock_data import ARC, FILES, GSM8K, gsm8k, parquet
from tests.operators.test_export import written_checkpoint, written_tokenizer
from tests.operators.test_pretrained_tokenizer import set_endpoint
from tests.operators.test_train import PRETRAIN
from tests.training.runs import QWEN3, random_checkpoint

CHECKPOINT, TOKENIZER, ALIEN = (Given(name_of_input=name) for name in ("checkpoint", "tokenizer", "alien"))
ELSEWHERE = dataclasses.replace(
    PRETRAIN, data=Stages({0: Mixture({Tokenize(documents=Given(), tokenizer=ALIEN): 1.0})})
)
COMMIT = "ab" * 20


@pytest.fixture(scope="module")
def downloaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, tuple[HuggingFace, Any]]]:
    """Each dataset by its repository: the step that downloads it, and what came."""
    held: dict[str, tuple[HuggingFace, Any]] = {}
    with pytest.MonkeyPatch.context() as patch:
        for repo, files in FILES.items():
            settings = {"repo": repo, "revision": COMMIT, "files": files, "large": frozenset(), "lies": frozenset()}
            with serving(HubServer, gated=frozenset(), **settings) as url:
                patch.setattr("huggingface_hub.constants.ENDPOINT", url)
                set_endpoint(patch, url)
                step = HuggingFace(repo=repo, revision=COMMIT)
                held[repo] = (step, run_step(step, {}, tmp_path_factory.mktemp("download")))
        yield held


@pytest.fixture(scope="module")
def inputs(downloaded: Mapping[str, tuple[HuggingFace, Any]], tmp_path_factory: pytest.TempPathFactory) -> Any:
    from marin.training.model import Qwen3

    root = tmp_path_factory.mktemp("inputs")
    texts = [f"{item.question} {item.answer}" for item in problems(40, 3)]
    vocabulary, digest = train_bpe(Directory(str(root / "tokenizer")), texts, 400)
    shape = Qwen3(hidden=32, intermediate=64, layers=1, heads=2, kv_heads=1, seq_len=512)
    facts = random_checkpoint(Directory(str(root / "checkpoint")), shape, vocabulary, seed=0)
    checkpoint = Checkpoint(step=0, tokens=0, parameters=facts.parameters, architecture="qwen3")
    at = Directory(str(root / "tokenizer"))
    return {
        CHECKPOINT: checkpoint.at(Directory(str(root / "checkpoint"))),
        TOKENIZER: Tokenizer(vocabulary=vocabulary, digest=digest).at(at),
        ALIEN: Tokenizer(vocabulary=vocabulary + 1, digest=digest).at(at),
        **dict(downloaded.values()),
    }


def evaluation(downloaded: Mapping[str, tuple[HuggingFace, Any]], **changes: Any) -> EvaluateTasks:
    fields: dict[str, Any] = {
        "checkpoint": CHECKPOINT,
        "tokenizer": TOKENIZER,
        "tasks": {"gsm8k": GSM8K, "arc_easy": ARC},
        "data": {repo: step for repo, (step, _) in downloaded.items()},
        "max_new_tokens": 8,
    }
    return EvaluateTasks(**fields | changes)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_stock_tasks_are_scored_from_what_was_downloaded(downloaded: Any, inputs: Any, tmp_path: Path) -> None:
    step = evaluation(downloaded)
    made: Any = run_step(step, inputs, tmp_path)
    assert set(made.metrics) == {
        "arc_easy/acc",
        "arc_easy/acc_norm",
        "arc_easy/lm_eval/bpb",
        "arc_easy/lm_eval/choice_probability",
        "gsm8k/exact_match,strict-match",
        "gsm8k/exact_match,flexible-extract",
    }
    scores = json.loads(made.directory.read_text("scores.json"))
    assert scores["items"] == {"arc_easy": 6, "gsm8k": 4}
    by_harness = {name: held for name, held in scores["metrics"].items() if "lm_eval" not in name}
    assert scores["stderr"].keys() == by_harness.keys()
    logged = read_results(made.directory).logged
    assert {metric: fmean(each.values()) for metric, each in logged.items()} == pytest.approx(by_harness)

    # The harness's own tools find and read the written files.
    from lm_eval.utils import get_latest_filename, get_results_filenames, get_sample_results_filenames, make_table

    for name, metric in (("arc_easy", "acc,none"), ("gsm8k", "exact_match,strict-match")):
        folder = made.directory.path / name
        there = [str(path) for path in folder.iterdir()]
        results = json.loads(Path(get_latest_filename(get_results_filenames(there))).read_text())
        assert results["results"][name][metric] == made.metrics[f"{name}/{metric.removesuffix(',none')}"]
        assert f"|{name}" in make_table(results).replace(" ", "")
        assert results["configs"][name]["dataset_path"] in FILES
        assert results["n-shot"][name] == 1
        (samples,) = get_sample_results_filenames(there)
        rows = [json.loads(line) for line in Path(samples).read_text().splitlines()]
        assert {row["doc_id"] for row in rows} == set(range(scores["items"][name]))
        mean = sum(row[metric.split(",")[0]] for row in rows if row["filter"] == metric.split(",")[1]) / len(
            {row["doc_id"] for row in rows}
        )
        assert mean == pytest.approx(results["results"][name][metric])
        assert str(tmp_path) not in "".join(Path(path).read_text() for path in there)
    # With an accelerator: one after the other, in a process of its own.
    again: Any = run_step(step, inputs, tmp_path / "again", accelerator=gpu("h100").accelerator)
    assert file_bytes(again.directory) == file_bytes(made.directory)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_the_same_items_in_two_prompt_forms_show_what_a_form_costs(
    downloaded: Any, inputs: Any, tmp_path: Path
) -> None:
    tasks = {"arc_easy": ARC, "arc_easy/olmes": replace(as_olmes(ARC), shots=1)}
    step = evaluation(downloaded, tasks=tasks)
    made: Any = run_step(step, inputs, tmp_path / "scores")
    results = read_results(made.directory)
    plain, olmes = (results.of("arc_easy", form) for form in ("lm_eval", "olmes"))
    assert [one.id for one in plain] == [one.id for one in olmes] == [f"arc_easy/{number}" for number in range(6)]
    assert {one.bytes for one in olmes} == {len(" A")}
    for items, form in ((plain, "lm_eval"), (olmes, "olmes")):
        bits, size = (sum(getattr(one, field) for one in items) for field in ("bits", "bytes"))
        assert made.metrics[f"arc_easy/{form}/bpb"] == pytest.approx(bits / size)
    (samples,) = (path for path in (made.directory.path / "arc_easy/olmes").iterdir() if "samples_" in path.name)
    sample = json.loads(samples.read_text().splitlines()[0])
    example, asked = sample["arguments"]["gen_args_0"]["arg_0"].split("\n\n")
    assert asked == "Question: Which of these is number 0?\n A. a stone\n B. a river\n C. the sun\n D. a leaf\nAnswer:"
    assert example.endswith(("Answer: A", "Answer: B", "Answer: C"))
    assert float(sample["resps"][0][0][0]) == pytest.approx(-olmes[0].bits * math.log(2))

    # Signs of contamination and fragility need no more: parent, arm, and which items the arm read.
    items: Any = run_step(TaskItems(task=ARC, data=step.data[ARC.dataset]), inputs, tmp_path / "items")
    assert [item.id for item in read_items(items.directory)] == [one.id for one in plain]
    dearer = [replace(one, bits=one.bits + 9 + number / 9) for number, one in enumerate(olmes)]
    arm = Results({("arc_easy", "lm_eval"): plain, ("arc_easy", "olmes"): dearer})
    found = {one.name: one for one in evidence(arm, results, Sets("arc_easy"))}
    costs = found["what the olmes format costs more than the lm_eval format beyond the parent's on test items"]
    assert costs.flagged
    assert costs.estimate.value == pytest.approx((9 + 2.5 / 9) / 2)


def test_prompts_are_those_of_a_task(downloaded: Any) -> None:
    with pytest.raises(BadField, match="no prompts of OLMES are known for gsm8k, only for arc_challenge, arc_easy"):
        as_olmes(GSM8K)
    other = replace(ARC, name="arc_challenge")
    with pytest.raises(BadField, match=r"arc_easy/olmes asks arc_challenge of .* asks the same items"):
        evaluation(downloaded, tasks={"arc_easy": ARC, "arc_easy/olmes": other})
    with pytest.raises(BadField, match="a task is called 'arc/a/b'; wanted 'arc_easy', or 'arc_easy/olmes'"):
        evaluation(downloaded, tasks={"arc/a/b": ARC})


def files_of(repo: str, where: Path, **changed: bytes | None) -> Any:
    """Return the dataset as a download leaves it, with some files changed."""
    from marin.data.artifacts import RawFiles

    for name, content in (FILES[repo] | changed).items():
        if content is not None:
            Directory(str(where)).write_bytes(name, content)
    return RawFiles(files=1, bytes=1).at(Directory(str(where)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"main/test-00000-of-00001.parquet": None}, InputError, "task gsm8k: the files of openai/gsm8k in"),
        ({"main/test-00000-of-00001.parquet": parquet(gsm8k(1, 1)[:0])}, (NothingScored, InputError), "gsm8k"),
        ({"README.md": b"---\nconfigs:\n- config_name: other\n---\n"}, InputError, "task gsm8k: the files"),
        ({"main/train-00000-of-00001.parquet": None}, InputError, "task gsm8k"),
    ],
)
def test_data_that_a_task_does_not_find_is_an_error_before_the_model_is_loaded(
    downloaded: Any, inputs: Any, tmp_path: Path, changed: Any, error: Any, message: str
) -> None:
    step = evaluation(downloaded, tasks={"gsm8k": GSM8K})
    files = files_of("openai/gsm8k", tmp_path / "files", **changed)
    with pytest.raises(error, match=message):
        run_step(step, {**inputs, step.data["openai/gsm8k"]: files}, tmp_path)


@pytest.mark.filterwarnings("ignore")
def test_what_the_harness_does_not_have_or_the_model_cannot_read_is_said_first(
    downloaded: Any, inputs: Any, tmp_path: Path
) -> None:
    unknown = HarnessTask(name="gsm9k", folder="gsm8k", dataset="openai/gsm8k")
    with pytest.raises(InputError, match="has no task gsm9k in tasks/gsm8k; there are: gsm8k"):
        run_step(evaluation(downloaded, tasks={"gsm9k": unknown}), inputs, tmp_path)
    with pytest.raises(TokenizerMismatch, match=r"'alien'|evaluate with the tokenizer of the checkpoint's training"):
        run_step(evaluation(downloaded, tokenizer=ALIEN), inputs, tmp_path)
    for changed in ({"prompt": "{{nope}}"}, {"choices": "{{question}}"}, {"target": "{{9}}"}):
        with pytest.raises(InputError, match="task arc_easy: its templates fail on an item of allenai/ai2_a"):
            run_step(evaluation(downloaded, tasks={"arc_easy": replace(ARC, **changed)}), inputs, tmp_path)
    hungry = evaluation(downloaded, tasks={"gsm8k": HarnessTask("gsm8k", "gsm8k", "openai/gsm8k", shots=5)})
    with pytest.raises(InputError, match="3 examples to choose from, but a prompt shows 5"):
        run_step(hungry, inputs, tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": {}}, "tasks is empty"),
        (
            {"data": {}},
            r"no data for allenai/ai2_arc \(of arc_easy\), openai/gsm8k .of gsm8k., and evaluation does not use",
        ),
        ({"items": 0}, "items is 0"),
        (
            {"data": {repo: HuggingFace(repo=repo, revision=COMMIT, patterns=("*/*",)) for repo in FILES}},
            r"does not download README.md, which assigns the files of allenai/ai2_arc to splits.* \['\*/\*'\]",
        ),
        (
            {"checkpoint": ELSEWHERE.at(4)},
            "the tokenizer is given/.*, but the checkpoint's training reads tokenize/.*, made by given/",
        ),
    ],
)
def test_evaluation_refuses_what_cannot_be_meant(downloaded: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadField, match=message):
        evaluation(downloaded, **changes)
    with pytest.raises(BadField, match="shots is -1"):
        HarnessTask("gsm8k", "gsm8k", "openai/gsm8k", shots=-1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("bos", [False, True])
def test_the_harness_own_model_of_transformers_says_the_same_of_the_export(
    downloaded: Any, tmp_path: Path, bos: bool
) -> None:
    """Every log-likelihood, every generated text and every metric. The harness's model needs torch.

    bos: the model was trained with one before each text, so that ``hf`` puts it there too.
    """
    python = os.environ.get("MARIN_TORCH_PYTHON", sys.executable)
    probe = subprocess.run([python, "-c", "import torch, transformers, lm_eval"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no torch here; MARIN_TORCH_PYTHON names a Python that has torch, transformers and lm-eval")
    tokenizer = written_tokenizer(tmp_path / "tokenizer")
    before = load_tokenizer(tokenizer.directory).bos if bos else None
    source = written_checkpoint(tmp_path / "checkpoint", dataclasses.replace(QWEN3, seq_len=768), before)
    inputs: Any = {CHECKPOINT: source, TOKENIZER: tokenizer, **dict(downloaded.values())}
    exported: Any = run_step(Export(checkpoint=CHECKPOINT, tokenizer=TOKENIZER), inputs, tmp_path)
    step = evaluation(downloaded, max_new_tokens=None, separated=bos)
    made: Any = run_step(step, inputs, tmp_path)
    asked = [
        {
            "name": task.name,
            "folder": task.folder,
            "data": str(inputs[step.data[task.dataset]].directory.path),
            "shots": task.shots,
        }
        for task in (GSM8K, ARC)
    ]
    script, folder = Path(__file__).parents[1] / "evaluation/hf_reference.py", exported.directory.path / exported.folder
    done = subprocess.run(
        [python, str(script), str(folder), "3"], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name in ("gsm8k", "arc_easy"):
        (samples,) = (path for path in (made.directory.path / name).iterdir() if path.name.startswith("samples_"))
        ours = [json.loads(line)["resps"] for line in samples.read_text().splitlines()]
        assert len(ours) == len(theirs[name]["responses"])
        for mine, other in zip(ours, theirs[name]["responses"], strict=True):
            if name == "gsm8k":
                assert mine == other
                continue
            for (likelihood, greedy), (wanted, whether) in zip(map(numbers, mine), map(numbers, other), strict=True):
                assert likelihood == pytest.approx(wanted, abs=2e-3)
                assert greedy == whether
        for metric, held in theirs[name]["metrics"].items():
            if "," in metric and "stderr" not in metric:
                assert made.metrics[f"{name}/{metric.removesuffix(',none')}"] == pytest.approx(held)


def numbers(response: list[Any]) -> tuple[float, bool]:
    """Log-likelihood and whether it is the likeliest; the harness writes both as text into its files."""
    likelihood, greedy = response[0]
    return float(likelihood), str(greedy) == "True"
