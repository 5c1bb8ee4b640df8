"""Make the tiny models beside this file and their logits, with torch and transformers, which marin does not need.

    python tests/training/published/make.py

One folder for each architecture, as transformers' save_pretrained writes it, plus logits.npz: ``tokens`` (2, 24) int32
and ``logits`` (2, 24, 304) float32, computed in float32. Norms and biases are random too, so that code that swaps two
norms or biases changes the logits. llama3 is stored in bfloat16, in several shards.
"""

from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

SIZES = {
    "vocab_size": 304,
    "hidden_size": 16,
    "intermediate_size": 40,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
MODELS = {
    "llama": ("llama", {"rms_norm_eps": 1e-5}),
    "llama3": (
        "llama",
        {
            "tie_word_embeddings": True,
            "head_dim": 4,
            "rope_parameters": {**LLAMA3, "original_max_position_embeddings": 16, "rope_theta": 500.0},
        },
    ),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 6}),
    "olmo2": ("olmo2", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "qwen2": ("qwen2", {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}}),
    "qwen3": ("qwen3", {"tie_word_embeddings": True, "head_dim": 8}),
}


def make(folder: Path, name: str) -> None:
    model_type, fields = MODELS[name]
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **SIZES, **fields)).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.2 if parameter.dim() > 1 else 0.1))
            if parameter.dim() == 1:
                parameter.add_(1.0)
            if name == "llama3":
                parameter.copy_(parameter.bfloat16())
    tokens = torch.randint(0, SIZES["vocab_size"], (2, 24))
    with torch.no_grad():
        logits = model(tokens).logits
    if name == "llama3":
        model = model.bfloat16()  # only now: it rounds the frequencies of rotary positions, too
    model.save_pretrained(folder / name, max_shard_size="8KB" if name == "llama3" else "1GB")
    np.savez_compressed(folder / name / "logits.npz", tokens=tokens.numpy().astype(np.int32), logits=logits.numpy())


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for each in MODELS:
        make(Path(__file__).parent, each)
