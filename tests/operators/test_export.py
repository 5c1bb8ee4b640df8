"""Test that an exported model scores real text as our own scorer does, read by NumPy alone and by transformers."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.data.artifacts import Checkpoint, HuggingFaceModel, Tokenizer
from marin.data.tokenizer import load_tokenizer, train_bpe
from marin.errors import BadField, UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.export import CLASSES
from marin.training.model import Llama3Rope, ModelShape, Precision
from marin.training.optimizer import Adam
from operators.evaluate import Weights
from operators.export import Export
from operators.train_tokenizer import TrainTokenizer
from tests.operators.running import Given, run_step
from tests.operators.test_train import PRETRAIN
from tests.training.runs import LLAMA, QWEN3, random_checkpoint

TEXT = (Path(__file__).parents[2] / "LICENSE").read_text()[2000:2600]  # which nobody edits
VOCABULARY = 416  # some more rows than the tokenizer has entries
RUN, TOKENIZER = Given(name_of_input="run", label="run"), Given(name_of_input="tokenizer", label="tokenizer")
STRETCHED = Llama3Rope(factor=8.0, original=64)
MET = ("marin.training.model.Llama3Rope",)
SHAPES = {
    "llama": dataclasses.replace(LLAMA, seq_len=256),
    "llama3-rope": dataclasses.replace(LLAMA, seq_len=256, rope=STRETCHED, rope_theta=10_000.0),
    "tied": dataclasses.replace(LLAMA, seq_len=256, tied_embeddings=True, head_width=16),
    "qwen3": dataclasses.replace(QWEN3, seq_len=256, rope=STRETCHED, rope_theta=10_000.0),
}


@pytest.mark.parametrize(
    ("step", "tokens", "name"),
    [
        (192_000, 6_400_000_000_000, "step192000-tokens6400B"),
        (80_000, 2_684_354_560_000, "step80000-tokens2684B"),
        (500, 16_777_216_000, "step500-tokens16.8B"),
        (100, 104_857_600_000, "step100-tokens105B"),
        (12, 3072, "step12-tokens0.00000307B"),
        (10, 1_000_000, "step10-tokens0.001B"),
        (0, 0, "step0-tokens0B"),
    ],
)
def test_the_name_tells_steps_and_billions_of_tokens(step: int, tokens: int, name: str) -> None:
    from marin.training.export import export_name

    assert export_name(step, tokens) == name


def test_what_makes_no_sense_is_refused_when_built() -> None:
    plain = dataclasses.replace(PRETRAIN, optimizer=Adam(peak_lr=1e-2, ema=None))
    with pytest.raises(BadField, match=r"keeps no moving average of its weights; take Weights\.LAST"):
        Export(checkpoint=plain, tokenizer=TOKENIZER, weights=Weights.AVERAGED)
    Export(checkpoint=PRETRAIN.at(4), tokenizer=TOKENIZER, weights=Weights.AVERAGED)
    odd = dataclasses.replace(PRETRAIN, model=dataclasses.replace(LLAMA, hidden=LLAMA.hidden + 2, head_width=16))
    with pytest.raises(BadField, match="transformers refuses a Llama whose hidden is not a multiple of its heads"):
        Export(checkpoint=odd, tokenizer=TOKENIZER)
    large = TrainTokenizer(documents=(Given(),), vocabulary=300)
    with pytest.raises(BadField, match="may have 300 entries, Train 'pretrain' has a vocabulary of 64"):
        Export(checkpoint=PRETRAIN, tokenizer=large)


def written_tokenizer(where: Path) -> Tokenizer:
    directory = Directory(str(where))
    vocabulary, digest = train_bpe(directory, [TEXT], 400)
    made: Any = Tokenizer(vocabulary=vocabulary, digest=digest).at(directory)
    return made


def written_checkpoint(where: Path, shape: ModelShape, before: int | None = None) -> Checkpoint:
    """Random weights, large enough that every part of the model shows in the loss; the average has others."""
    import jax
    from levanter.checkpoint import save_checkpoint

    from marin.training.levanter_model import build_model

    directory = Directory(str(where))
    last, average = (
        jax.tree.map(lambda array: 3 * array, build_model(shape, VOCABULARY, jax.random.PRNGKey(seed)))
        for seed in (1, 2)
    )
    save_checkpoint({"model": last, "model_averaging": {"model": average}}, step=7, checkpoint_path=directory.url)
    directory.write_text(checkpoint.METRICS, "")
    facts = checkpoint.Facts(
        step=7, tokens=1792, loss=None, model=shape, vocabulary=VOCABULARY, averaged=True, before=before
    )
    checkpoint.complete(directory, facts)
    made: Any = Checkpoint(step=7, tokens=1792, parameters=facts.parameters, architecture=shape.architecture.value)
    return made.at(directory)


def test_a_token_is_called_bos_and_put_before_texts_if_the_model_was_trained_so(tmp_path: Path) -> None:
    from tokenizers import Tokenizer as Library

    from marin.training.export import tokenizer_files

    directory = written_tokenizer(tmp_path / "tokenizer").directory
    bos, eos = load_tokenizer(directory).bos, load_tokenizer(directory).eos
    for before, named, first in ((bos, True, [bos]), (eos, False, []), (None, False, [])):
        files = tokenizer_files(directory, before)
        assert ("bos_token" in json.loads(files["tokenizer_config.json"])) is named
        library = Library.from_str(files["tokenizer.json"])
        plain = library.encode(TEXT, add_special_tokens=False).ids
        assert library.encode(TEXT).ids == first + plain
        # As published tokenizers that put it there themselves: taken away again if the model never read it.
        directory.write_text("tokenizer.json", tokenizer_files(directory, bos)["tokenizer.json"])


@dataclasses.dataclass
class Exported:
    """folder: of the model. losses: what our scorer says of TEXT, by weights."""

    made: HuggingFaceModel
    shape: ModelShape
    tokens: np.ndarray
    losses: dict[Weights, float]
    inputs: dict[Any, Any]

    @property
    def folder(self) -> Path:
        return self.made.directory.path / self.made.folder


@pytest.fixture(scope="module", params=SHAPES)
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Exported:
    from marin.training.scoring import load_model

    where = tmp_path_factory.mktemp(request.param)
    tokenizer = written_tokenizer(where / "tokenizer")
    source = written_checkpoint(where / "checkpoint", SHAPES[request.param])
    [ids] = load_tokenizer(tokenizer.directory).encode([TEXT])
    tokens = ids[:200].astype(np.int32)[None]
    losses = {
        weights: -float(load_model(source.directory, averaged=weights is Weights.AVERAGED)(tokens).mean())
        for weights in Weights
    }
    inputs: dict[Any, Any] = {RUN: source, TOKENIZER: tokenizer}
    export = Export(checkpoint=RUN, tokenizer=TOKENIZER)
    made: Any = run_step(export, inputs, where, met=MET)
    return Exported(made, SHAPES[request.param], tokens, losses, inputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_is_what_a_reading_from_scratch_takes_it_for(exported: Exported, tmp_path: Path) -> None:
    assert (exported.made.folder, exported.made.step) == ("step7-tokens0.00000179B", 7)
    loss = loss_from_scratch(exported.folder, exported.tokens)
    assert loss == pytest.approx(exported.losses[Weights.LAST], abs=1e-4)
    if exported.shape.rope is not None:  # which would show
        unstretched = loss_from_scratch(exported.folder, exported.tokens, rope_scaling=None)
        assert abs(unstretched - loss) > 1e-3
    assert {
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    } == {path.name for path in exported.folder.iterdir()}
    for precision, bound in ((Precision.FLOAT32, 1e-4), (Precision.BFLOAT16, 0.1)):
        step = Export(checkpoint=RUN, tokenizer=TOKENIZER, weights=Weights.AVERAGED, precision=precision)
        averaged: Any = run_step(step, exported.inputs, tmp_path, met=MET)
        folder = averaged.directory.path / averaged.folder
        loss = loss_from_scratch(folder, exported.tokens)
        assert loss == pytest.approx(exported.losses[Weights.AVERAGED], abs=bound)
    sizes = [(path / "model.safetensors").stat().st_size for path in (folder, exported.folder)]
    assert sizes[0] / sizes[1] == pytest.approx(0.5, abs=0.05)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_transformers_loads_it_and_says_the_same(exported: Exported) -> None:
    python = os.environ.get("MARIN_TORCH_PYTHON", sys.executable)
    probe = subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no torch here; MARIN_TORCH_PYTHON names a Python that has torch and transformers")
    done = subprocess.run(
        [python, "-c", TRANSFORMERS, str(exported.folder)], input=TEXT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["ids"] == exported.tokens[0].tolist()
    assert said["class"] == (CLASSES[exported.shape.architecture])
    assert said["loss"] == pytest.approx(exported.losses[Weights.LAST], abs=1e-4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_without_an_average_has_none_to_export(tmp_path: Path) -> None:
    random_checkpoint(Directory(str(tmp_path / "checkpoint")), LLAMA, VOCABULARY, seed=0)
    source: Any = Checkpoint(step=0, tokens=0, parameters=1, architecture="llama").at(
        Directory(str(tmp_path / "checkpoint"))
    )
    inputs: dict[Any, Any] = {RUN: source, TOKENIZER: written_tokenizer(tmp_path / "tokenizer")}
    with pytest.raises(UnreadableCheckpoint, match="keeps no moving average"):
        run_step(Export(checkpoint=RUN, tokenizer=TOKENIZER, weights=Weights.AVERAGED), inputs, tmp_path)


TRANSFORMERS = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
tokens = AutoTokenizer.from_pretrained(sys.argv[1])(sys.stdin.read(), return_tensors="pt").input_ids[:, :200]
with torch.no_grad():
    loss = float(model(tokens, labels=tokens).loss)
print(json.dumps({"class": type(model).__name__, "loss": loss, "ids": tokens[0].tolist()}))
"""


def loss_from_scratch(folder: Path, tokens: np.ndarray, **changed: Any) -> float:
    """Mean negative log-probability of tokens[0, 1:], in float64, as the format's files define the model.

    Source: the definitions of LlamaForCausalLM and Qwen3ForCausalLM in transformers; Dubey et al. 2024 for the rope.
    Shapes: T tokens, H query heads, K key heads, W their width.
    """
    import ml_dtypes  # noqa: F401  # safetensors stores bfloat16
    from safetensors.flax import load_file

    config = json.loads((folder / "config.json").read_text()) | changed
    weights = {name: np.asarray(held, np.float64) for name, held in load_file(folder / "model.safetensors").items()}
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    count = tokens.shape[1]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[f"{name}.weight"]

    angles = np.arange(count)[:, None] * frequencies(config, width)
    cos, sin = (np.concatenate([part, part], -1)[None] for part in (np.cos(angles), np.sin(angles)))

    def turned(x: np.ndarray) -> np.ndarray:  # (heads, T, W)
        left, right = np.split(x, 2, -1)
        return x * cos + np.concatenate([-right, left], -1) * sin

    x = weights["model.embed_tokens.weight"][tokens[0]]
    for number in range(config["num_hidden_layers"]):
        at = f"model.layers.{number}"

        def projected(x: np.ndarray, part: str, many: int, at: str = at) -> np.ndarray:
            y = (x @ weights[f"{at}.self_attn.{part}_proj.weight"].T).reshape(count, many, width)
            if f"{at}.self_attn.{part}_norm.weight" in weights:
                y = norm(y, f"{at}.self_attn.{part}_norm")
            return y.transpose(1, 0, 2)

        y = norm(x, f"{at}.input_layernorm")
        query, key = turned(projected(y, "q", heads)), turned(projected(y, "k", shared))
        key, worth = (np.repeat(each, heads // shared, 0) for each in (key, projected(y, "v", shared)))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(width)
        scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (shares / shares.sum(-1, keepdims=True)) @ worth
        x = x + mixed.transpose(1, 0, 2).reshape(count, -1) @ weights[f"{at}.self_attn.o_proj.weight"].T
        y = norm(x, f"{at}.post_attention_layernorm")
        gate = y @ weights[f"{at}.mlp.gate_proj.weight"].T
        up = y @ weights[f"{at}.mlp.up_proj.weight"].T
        x = x + (gate / (1 + np.exp(-gate)) * up) @ weights[f"{at}.mlp.down_proj.weight"].T
    last = "model.embed_tokens.weight" if config["tie_word_embeddings"] else "lm_head.weight"
    logits = norm(x, "model.norm") @ weights[last].T
    logits -= logits.max(-1, keepdims=True)
    chosen = logits[np.arange(count - 1), tokens[0, 1:]] - np.log(np.exp(logits[:-1]).sum(-1))
    return -float(chosen.mean())


def frequencies(config: dict[str, Any], width: int) -> np.ndarray:
    """(W/2,) radians a token."""
    plain = config["rope_theta"] ** (-np.arange(0, width, 2) / width)
    rope = config.get("rope_scaling") or {}
    if rope.get("rope_type") != "llama3":
        return plain
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    waves = rope["original_max_position_embeddings"] * plain / (2 * np.pi)  # how many fit into the old length
    kept = np.clip((waves - low) / (high - low), 0, 1)
    return plain * (kept + (1 - kept) / rope["factor"])
