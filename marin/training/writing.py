"""What a model writes: prompts continued by the weights of a running training, and the text of what was generated.

A line of samples.jsonl for each look and prompt. ``step``: optimizer steps that the weights have had. ``greedy``: the
likeliest tokens; ``sampled``: drawn at temperature 1. All of it is a function of weights, seed, step and prompt::

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
    """spec, trainer: of the run. On several processes each of them calls it, and gets the same."""

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
        """Of samples.jsonl, one a prompt. model: the weights after ``done`` steps."""
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
    """The text of tokens that follow a prompt, with the space before the first, which some tokenizers drop alone."""
    before, whole = tokenizer.decode(prompt), tokenizer.decode([*prompt, *made])
    return whole[len(before) :] if whole.startswith(before) else tokenizer.decode(made)
