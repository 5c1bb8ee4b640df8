"""Published weights as checkpoints: the logits of transformers, the same bytes out again, and clear refusals."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from huggingface_hub import constants
from safetensors import safe_open
from safetensors.numpy import save_file

from marin import BatchSchedule, Stages, mixture
from marin.data.tokenizer import train_bpe
from marin.errors import BadField, InputError, MissingRevision, StoreFull, TokenizerMismatch
from marin.report.decontamination import undecontaminated
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.model import Architecture, ModelShape, Precision
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.evaluate import Evaluate
from operators.export import Export
from operators.microanneal import Microanneal
from operators.pretrained_model import FolderModel, PretrainedModel
from operators.start import Fork, OptimizerState
from operators.text_files import TextFiles
from operators.tokenize import Tokenize
from operators.train import Train
from tests.operators.running import Given, run_step
from tests.operators.servers import HubServer, serving
from tests.operators.test_pretrained_tokenizer import COMMIT, set_endpoint

MODELS = Path(__file__).parents[1] / "training" / "published"
NAMES = ("llama", "llama3", "mistral", "olmo2", "qwen2", "qwen3")
ROWS = 304
MET = ("marin.training.model.Llama3Rope", "marin.training.optimizer.Optimizer")


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    train_bpe(Directory(str(folder)), ["some text to train on, and some more text"] * 9, 300)
    return folder


@pytest.fixture
def folder(tmp_path: Path, tokenizer: Path) -> Callable[[str], Path]:
    """A copy of a published model, with a tokenizer of its own."""

    def copied(name: str) -> Path:
        target = tmp_path / name
        shutil.copytree(MODELS / name, target)
        shutil.copytree(tokenizer, target, dirs_exist_ok=True)
        (target / "README.md").write_text("---\nlicense: mit\n---\n# A tiny model\n")
        return target

    return copied


def tensors(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "numpy") as held:
            found |= {name: held.get_tensor(name) for name in held.keys()}  # noqa: SIM118
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_transformers(name: str, folder: Callable[[str], Path], tmp_path: Path) -> None:
    from marin.evaluation.prefix_tree import Wanted
    from marin.training.scoring import load_model

    given = folder(name)
    model = FolderModel(path=str(given), vocabulary=ROWS)
    made = run_step(model, {}, tmp_path / "model", met=MET)
    facts = checkpoint.read_facts(made.directory)
    kept = np.load(given / "logits.npz")
    tokens, logits = kept["tokens"], kept["logits"].astype(np.float64)
    expected = np.take_along_axis(logits[:, :-1], tokens[:, 1:, None].astype(int), -1)[..., 0] - np.log(
        np.exp(logits[:, :-1]).sum(-1)
    )
    assert logits.std() > 0.3, "logits that hardly differ would prove nothing"
    loaded = load_model(made.directory)
    np.testing.assert_allclose(loaded(tokens), expected, atol=1e-4)
    # The other way of scoring, which evaluations use, and the decoder.
    laid = loaded.continuations([Wanted(row, 1) for row in tokens])
    np.testing.assert_allclose([each.logprobs for each in laid], expected, atol=1e-4)
    written = loaded.generate([row[:9] for row in tokens], 6, -1, lambda _: False)
    for row, new in zip(tokens, written, strict=True):
        whole = np.concatenate([row[:9], new]).astype(np.int32)
        assert loaded.continuations([Wanted(whole, 9)])[0].greedy.all()
    # Out again: the same bytes under the same names.
    precision = Precision.BFLOAT16 if name == "llama3" else Precision.FLOAT32
    tokenizer: Any = run_step(model.tokenizer, {}, tmp_path / "tokenizer")
    export = Export(checkpoint=model, tokenizer=model.tokenizer, precision=precision)
    exported = run_step(export, {model: made, model.tokenizer: tokenizer}, tmp_path / "export", met=MET)
    again = exported.directory.path / exported.folder
    theirs, ours = tensors(given), tensors(again)
    assert theirs.keys() == ours.keys()
    assert all(theirs[each].tobytes() == ours[each].tobytes() for each in theirs)
    back = run_step(FolderModel(path=str(again)), {}, tmp_path / "again", met=MET)
    assert checkpoint.read_facts(back.directory).model == facts.model
    assert facts.origin is not None
    assert dataclasses.asdict(facts.origin) | {"source": ""} == {
        "source": "",
        "licence": "mit",
        "tokenizer": tokenizer.digest,
        "entries": tokenizer.vocabulary,
        "stored": "BF16" if name == "llama3" else "F32",
    }
    assert (facts.vocabulary, made.parameters) == (ROWS, sum(each.size for each in theirs.values()))


def changed(folder: Path, **fields: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | fields
    (folder / "config.json").write_text(json.dumps(config))


WINDOW = "attends through a sliding window"
REFUSED = [
    ({"model_type": "gemma3_text"}, "is a 'gemma3_text' model. marin reads llama, mistral, olmo2, qwen2, qwen3"),
    ({"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}, WINDOW),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}}, "does not compute rope_type 'yarn'"),
    ({"quantization_config": {"bits": 4}}, "has quantised weights"),
    ({"hidden_act": "gelu"}, "hidden_act is 'gelu'; marin computes 'silu' only"),
    ({"logit_scale": 0.5}, "may change the arithmetic: logit_scale = 0.5"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("fields", "message"), REFUSED)
def test_what_marin_does_not_compute_is_refused_before_the_weights_are_asked_for(
    fields: dict[str, Any], message: str, folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = folder("qwen2")
    changed(given, **fields)
    files = {path.name: path.read_bytes() for path in given.iterdir()}
    with hub(monkeypatch, tmp_path, files) as log, pytest.raises(InputError, match=message):
        run_step(HUB_MODEL, {}, tmp_path / "model", met=MET)
    assert [path for path, _ in log if "/resolve/" in path] == [f"/lab/model/resolve/{COMMIT}/config.json"]


HUB_MODEL = PretrainedModel(repo="lab/model", revision=COMMIT)


@contextmanager
def hub(
    monkeypatch: pytest.MonkeyPatch, folder: Path, files: dict[str, bytes], **served: Any
) -> Generator[list[tuple[str, str]]]:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    log: list[tuple[str, str]] = []
    given: dict[str, Any] = dict.fromkeys(("large", "lies", "gated"), frozenset[str]()) | {
        "breaks": {},
        "troubles": {},
        "log": log,
    }
    with serving(HubServer, repo="lab/model", revision=COMMIT, files=files, **given | served) as base:
        set_endpoint(monkeypatch, base)
        monkeypatch.setattr(constants, "ENDPOINT", base)
        yield log


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_repository_is_read_shard_by_shard(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = folder("llama3")
    files = {path.name: path.read_bytes() for path in given.iterdir() if path.name != "logits.npz"}
    shards = frozenset(name for name in files if name.endswith(".safetensors"))
    assert len(shards) == 3
    with hub(monkeypatch, tmp_path, files, large=shards, breaks={min(shards): (1, 1000)}):
        made = run_step(HUB_MODEL, {}, tmp_path / "hub", met=MET)
    beside = run_step(FolderModel(path=str(given)), {}, tmp_path / "folder", met=MET)
    ours, theirs = (checkpoint.read_facts(each.directory) for each in (made, beside))
    assert ours.origin is not None
    assert theirs.origin is not None
    assert dataclasses.replace(ours.origin, source="", licence="") == dataclasses.replace(
        theirs.origin, source="", licence=""
    )
    assert (ours.origin.source, ours.origin.licence) == (f"hf:lab/model@{COMMIT[:12]}", "apache-2.0")
    from marin.training.parameter_change import parameter_changes

    assert all(each.relative == 0 for each in parameter_changes(made.directory, beside.directory))
    # A shard with other bytes than the hub says, an account that may not see it, and a commit that is not there.
    with hub(monkeypatch, tmp_path, files, large=shards, lies=shards), pytest.raises(InputError, match="sha256"):
        run_step(HUB_MODEL, {}, tmp_path / "lies", met=MET)
    gated = hub(monkeypatch, tmp_path, files, gated=frozenset({"files"}))
    with gated, pytest.raises(InputError, match="lab/model is gated: accept its terms"):
        run_step(HUB_MODEL, {}, tmp_path / "gated", met=MET)
    other = PretrainedModel(repo="lab/model", revision="f" * 40)
    with hub(monkeypatch, tmp_path, files), pytest.raises(MissingRevision, match="no revision"):
        run_step(other, {}, tmp_path / "other", met=MET)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_folder_that_is_not_one_model_is_refused_by_name(
    folder: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = folder("llama")
    model = FolderModel(path=str(given))

    def refused(error: type[Exception], message: str, step: FolderModel = model) -> None:
        with pytest.raises(error, match=message):
            run_step(step, {}, tmp_path / str(len(list(tmp_path.iterdir()))), met=MET)

    weights, whole = given / "model.safetensors", tensors(given)
    norm = "model.norm.weight"
    save_file({name: held for name, held in whole.items() if name != norm}, weights)
    refused(InputError, rf"lacks {norm}, which its llama model has")
    save_file(whole | {"model.layers.0.self_attn.q_proj.bias": whole[norm]}, weights)
    refused(InputError, r"holds model\.layers\.0\.self_attn\.q_proj\.bias, which a llama model does not have")
    save_file(whole | {norm: whole[norm][:8]}, weights)
    refused(InputError, rf"{norm} has shape \(8,\), and config\.json says \(16,\)")
    save_file(whole | {norm: whole[norm] * np.nan}, weights)
    refused(InputError, "numbers that are not finite")
    weights.write_bytes(b"garbage")
    refused(InputError, "is no safetensors file")
    weights.rename(given / "pytorch_model.bin")
    refused(InputError, r"has no model\.safetensors .* marin reads safetensors only")
    save_file(whole, weights)
    refused(InputError, "vocabulary is 300, and config.json of .* says 304", dataclasses.replace(model, vocabulary=300))
    changed(given, vocab_size=200)
    refused(TokenizerMismatch, "its tokenizer has .* entries and its embedding only 200 rows")
    changed(given, vocab_size=ROWS)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 0))  # type: ignore[attr-defined]
    refused(StoreFull, "The step has read only the configuration and the tokenizer, no weights")
    with pytest.raises(BadField, match=r"revision is 'main', wanted a commit of 40 hex digits"):
        PretrainedModel(repo="lab/model", revision="main")
    with pytest.raises(BadField, match="wanted an absolute path"):
        FolderModel(path="models/mine")


def test_trainings_and_evaluations_that_do_not_suit_the_model_are_refused_when_built() -> None:
    shape = ModelShape(
        architecture=Architecture.QWEN3, hidden=16, intermediate=40, layers=2, heads=4, kv_heads=2, seq_len=64
    )
    model = PretrainedModel(repo="lab/model", revision=COMMIT, shape=shape, vocabulary=ROWS, label="m")
    text = TextFiles(path="/data/text", label="own")
    tokens = mixture({Tokenize(documents=text, tokenizer=model.tokenizer, label="own"): 1.0})
    run = Train(
        label="run",
        model=shape,
        vocabulary=ROWS,
        start=Fork(model, optimizer_state=OptimizerState.FRESH),
        optimizer=Adam(peak_lr=1e-4),
        schedule=Schedule(warmup=2),
        data=Stages({0: tokens}),
        batch=BatchSchedule({0: 4}),
        seq_len=32,
        seed=0,
        block=4,
        end_step=8,
    )
    other = dataclasses.replace(model.tokenizer, repo="lab/other")
    theirs = mixture({Tokenize(documents=text, tokenizer=other, label="own"): 1.0})
    for fields, message in (
        ({"start": Fork(model)}, "has weights and no optimizer state"),
        ({"first_step": 2}, "wanted first_step=0"),
        ({"model": dataclasses.replace(shape, norm_eps=1e-6)}, "its model differs from pretrained-model/m"),
        ({"vocabulary": 400}, "vocabulary is 400, but the embedding of pretrained-model/m has 304 rows"),
        ({"data": Stages({0: theirs})}, "which is not the tokenizer of pretrained-model/m"),
    ):
        with pytest.raises(BadField, match=message):
            dataclasses.replace(run, **fields)
    with pytest.raises(BadField, match="which is not the tokenizer of pretrained-model/m"):
        Evaluate(checkpoint=model, tokenizer=other, domains={"own": text})
    scores = Evaluate(checkpoint=model, tokenizer=model.tokenizer, tasks={"gsm": Given(label="gsm")})
    said = undecontaminated([model, scores]).doubt
    assert said.startswith("Unknown: the training text of pretrained-model/m before this experiment.")
    annealed: dict[str, Any] = {
        "control": tokens,
        "candidates": {"new": theirs},
        "tokens": 10_000,
        "evaluations": (scores,),
        "primary": ("gsm/olmes/bpb",),
        "shortest": 0.0,
    }
    with pytest.raises(BadField, match="does not give its last learning rate; give one, such as peak_lr=1e-4"):
        Microanneal(base=model, **annealed)
    with pytest.raises(BadField, match="gives no shape and vocabulary"):
        Microanneal(base=dataclasses.replace(model, shape=None), peak_lr=1e-4, **annealed)
    with pytest.raises(BadField, match="leave peak_lr out"):
        Microanneal(base=run, peak_lr=1e-4, **annealed)
