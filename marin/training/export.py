"""Export a checkpoint as a Hugging Face model. Imports JAX and Levanter: do so inside run()."""

# pyright: basic
from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path

from marin.data.tokenizer import CONFIG, TOKENIZER, load_tokenizer
from marin.errors import UnreadableCheckpoint
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.model import Architecture, Precision

CLASSES = {
    Architecture.LLAMA: "LlamaForCausalLM",
    Architecture.QWEN3: "Qwen3ForCausalLM",
    Architecture.QWEN2: "Qwen2ForCausalLM",
    Architecture.OLMO2: "Olmo2ForCausalLM",
}
WITHOUT_HEAD_WIDTH = (Architecture.QWEN2, Architecture.OLMO2)  # transformers computes the width as hidden / heads
# Levanter's defaults for encoder-decoders: as generation defaults they would suppress the first tokens of an answer.
NOT_OURS = ("begin_suppress_tokens", "decoder_start_token_id")


def export_name(step: int, tokens: int) -> str:
    """Return a name such as ``step192000-tokens3264B``, with three digits below 1,000 billion tokens."""
    billions = tokens / 1e9
    if billions >= 1000:
        return f"step{step}-tokens{billions:.0f}B"
    decimals = max(0, 2 - int(f"{billions:e}".rpartition("e")[2])) if billions else 0
    text = f"{billions:.{decimals}f}"
    return f"step{step}-tokens{text.rstrip('0').rstrip('.') if '.' in text else text}B"


def tokenizer_files(tokenizer: Directory, before: int | None) -> dict[str, str]:
    """Return the tokenizer's files for a model that read ``before`` in front of each text.

    The files name a bos token, and put it in front of a text, if and only if the model was trained so. Other programs
    begin texts with the bos token. If this token was never trained, everything after it is worthless.
    """
    written = {name: tokenizer.read_bytes(name).decode() for name in (TOKENIZER, CONFIG)}
    content, config = (json.loads(text) for text in written.values())
    loaded, given = load_tokenizer(tokenizer), content.get("post_processor")
    steps = given["processors"] if given and given["type"] == "Sequence" else [given] if given else []
    steps = [step for step in steps if step["type"] != "TemplateProcessing"]
    if before is not None and before == loaded.bos != loaded.eos:
        name = loaded.tokenizer.id_to_token(before)
        text, pair = ({"Sequence": {"id": which, "type_id": at}} for at, which in enumerate("AB"))
        first = {"SpecialToken": {"id": name, "type_id": 0}}
        steps.append(
            {
                "type": "TemplateProcessing",
                "single": [first, text],
                "pair": [first, text, pair],
                "special_tokens": {name: {"id": name, "ids": [before], "tokens": [name]}},
            }
        )
    else:
        config = {name: held for name, held in config.items() if name not in ("bos_token", "add_bos_token")}
    whole = {"type": "Sequence", "processors": steps} if len(steps) > 1 else next(iter(steps), None)
    if whole != given:
        written[TOKENIZER] = json.dumps(content | {"post_processor": whole}, indent=2, ensure_ascii=False)
    return written | {CONFIG: json.dumps(config, indent=1, sort_keys=True) + "\n"}


def export(source: Directory, tokenizer: Directory, folder: Path, *, averaged: bool, precision: Precision) -> None:
    """Write config.json, generation_config.json, safetensors and the tokenizer's files into a local folder.

    averaged: export the moving average of the weights. Raises UnreadableCheckpoint if the checkpoint keeps no average,
    or if the weights cannot be read.
    """
    import jax
    import jax.numpy as jnp
    from jax.sharding import AxisType
    from levanter.compat.hf_checkpoints import load_tokenizer as load_for_levanter

    from marin.training.bucket_address import find_buckets
    from marin.training.finite import non_finite_arrays, write_arrays
    from marin.training.hub_offline import hub_offline
    from marin.training.levanter_model import levanter_config, load_weights

    for noisy in ("levanter.tensorstore_serialization", "levanter.compat.hf_checkpoints"):
        logging.getLogger(noisy).setLevel(logging.ERROR)  # warns of static fields, and of files missing on the hub
    find_buckets()
    facts = checkpoint.read_facts(source)
    checkpoint.verify(source)
    if averaged and not facts.averaged:
        raise UnreadableCheckpoint(
            f"{source.url} keeps no moving average of the weights; export Weights.LAST, or train with Adam(ema=…)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in tokenizer_files(tokenizer, facts.before).items():
        (folder / name).write_text(text, encoding="utf-8")
    dtype = {Precision.FLOAT32: jnp.float32, Precision.BFLOAT16: jnp.bfloat16}[precision]
    mesh = jax.make_mesh((jax.local_device_count(),), ("data",), axis_types=(AxisType.Auto,))
    with hub_offline(), jax.set_mesh(mesh):
        loaded = load_for_levanter(str(folder))
        config = dataclasses.replace(levanter_config(facts.model), reference_checkpoint=str(folder), tokenizer=loaded)
        fits = facts.model.hidden % mesh.size == 0
        model = load_weights(source, facts, averaged=averaged, mesh=mesh, spread=fits)
        if found := non_finite_arrays(model):
            raise UnreadableCheckpoint(f"{source.url} holds {write_arrays(found)}; export an earlier checkpoint")
        said = {"architectures": [CLASSES[facts.model.architecture]], "dtype": dtype.dtype.name}
        if facts.model.architecture not in WITHOUT_HEAD_WIDTH:
            said["head_dim"] = facts.model.head_size  # Levanter leaves out a width other than hidden / heads
        converter = config.hf_checkpoint_converter().with_config_overrides(said)
        converter.save_pretrained(model, str(folder), save_reference_code=False, save_tokenizer=False, dtype=dtype)
    written = folder / "config.json"
    content = {name: held for name, held in json.loads(written.read_text()).items() if name not in NOT_OURS}
    written.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    generation = {name: content[name] for name in ("bos_token_id", "eos_token_id", "pad_token_id") if name in content}
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=2, sort_keys=True) + "\n")
