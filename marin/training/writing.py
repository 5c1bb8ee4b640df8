"""Samples of a running training: continue prompts with its weights, and decode the generated tokens.

samples.jsonl has a line for each look and prompt. ``step``: optimizer steps of the weights. ``greedy``: the likeliest
tokens; ``sampled``: sampled at temperature 1. A line depends on weights, seed, step and prompt only::

    {"step": 100, "prompt": "The capital of France is", "greedy": " the city of …", "sampled": " a town in …"}
"""

# pyright: basic
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from marin.data.tokenizer import LoadedTokenizer, load_tokenizer
from marin.errors import InputError
from marin.store.files.directory import Directory
from marin.training.chips import Chips
from marin.training.decoding import Drawing, drawing_key, written_on
from marin.training.spec import Prompts, TrainingSpec


class Writing:
    """The writer of a run's samples. Every process of the run must call ``lines``, and gets the same lines."""

    def __init__(self, spec: TrainingSpec, trainer: Any, prompts: Prompts) -> None:
        self._spec, self._trainer, self._prompts = spec, trainer, prompts
        self._tokenizer = load_tokenizer(Directory(prompts.tokenizer))
        self._chips = Chips(trainer.device_mesh, trainer.compute_axis_mapping)
        if (highest := max(max(tokens) for tokens in prompts.tokens)) >= spec.vocabulary:
            raise InputError(
                f"the prompts have token ids up to {highest}, the model has a vocabulary of {spec.vocabulary}; give "
                "Watch the tokenizer that made the training's tokens"
            )

    def lines(self, model: Any, done: int) -> list[dict[str, Any]]:
        """Return lines of samples.jsonl, one a prompt. model: the weights after ``done`` steps."""
        spec, prompts = self._spec, self._prompts
        count = len(prompts.texts)
        keys = np.stack([drawing_key(spec.seed, done, text) for text in prompts.texts])
        tokens = [np.array(each, np.int32) for each in prompts.tokens]
        made = written_on(
            self._trainer.mp.cast_to_compute(eqx.nn.inference_mode(model, True)),
            tokens * 2,
            prompts.most,
            self._tokenizer.eos,
            lambda _: False,
            self._chips,
            separator=self._tokenizer.eos if spec.separate_documents else None,
            drawing=Drawing(np.repeat(np.array([0, 1], np.float32), count), np.tile(keys, (2, 1))),
        )
        texts = [continuation(self._tokenizer, *each) for each in zip(prompts.tokens * 2, made, strict=True)]
        return [
            {"step": done, "prompt": text, "greedy": greedy, "sampled": sampled}
            for text, greedy, sampled in zip(prompts.texts, texts[:count], texts[count:], strict=True)
        ]


def continuation(tokenizer: LoadedTokenizer, prompt: Sequence[int], made: Sequence[int]) -> str:
    """Return the text of tokens after a prompt, with the first space, which some tokenizers drop without a prompt."""
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *made])
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(made)
