"""A model for lm-evaluation-harness that answers with a LanguageModel.

Questions, tokens and cuts are the same as with the harness's own ``hf`` model, so that numbers can be compared.
"""

# pyright: basic
from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

# Before the first import of `tqdm`, which reads it once.
os.environ.setdefault("TQDM_DISABLE", "1")

from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window

from marin.errors import InputError, NonFiniteLoss
from marin.evaluation.encoder import Encoder
from marin.evaluation.language_model import LanguageModel
from marin.evaluation.prefix_tree import Wanted

# ((prompt, continuation), or None for a window of a text; tokens of the context; tokens of the continuation).
type Pair = tuple[tuple[str, str] | None, list[int], list[int]]
GREEDY = {"until", "max_gen_toks", "do_sample", "temperature"}  # the generation settings that this model knows


class HarnessModel(TemplateLM):
    """A LanguageModel as lm-evaluation-harness asks it.

    separated: put the token before each text that stood there in training; False: put none. max_new_tokens: bound on
    an answer, even if a task asks for more; None for no bound. Raises InputError for a question that the model cannot
    answer: an answer longer than the model's sequences, or sampling.
    """

    def __init__(
        self, model: LanguageModel, encoder: Encoder, *, separated: bool = True, max_new_tokens: int | None = None
    ) -> None:
        super().__init__()
        self.model, self.encoder = model, encoder
        self.before = [encoder.start] if separated else []
        self.max_new_tokens = max_new_tokens
        # The choices of an item share their prompt.
        self._encoded = lru_cache(maxsize=256)(lambda text: encoder.encode([text])[0].ids.tolist())

    @property
    def eot_token_id(self) -> int:
        return self.encoder.eos

    @property
    def prefix_token_id(self) -> int:
        return self.encoder.start

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: object) -> list[int]:
        return ([] if add_special_tokens is False else self.before) + self._encoded(string)

    def loglikelihood(self, requests: list[Instance], disable_tqdm: bool = True) -> list[tuple[float, bool]]:
        """Return (natural log-likelihood, whether every token is the likeliest) of each continuation."""
        return super().loglikelihood(requests, disable_tqdm=disable_tqdm)

    def _loglikelihood_tokens(self, requests: Sequence[Pair], **kwargs: object) -> list[tuple[float, bool]]:
        wanted: list[Wanted] = []
        for pair, context, continuation in requests:
            text = repr(pair[1][:60]) if pair else "a text"
            if not continuation or len(continuation) > self.model.length:
                raise InputError(
                    f"{text} is {len(continuation)} tokens; wanted 1 to "
                    f"{self.model.length}, the length of the model's sequences"
                )
            tokens = np.asarray((context + continuation)[-(self.model.length + 1) :], np.int32)
            wanted.append(Wanted(tokens, len(tokens) - len(continuation)))
        out = [(float(one.logprobs.sum()), bool(one.greedy.all())) for one in self.model.continuations(wanted)]
        for (pair, _, _), (found, _) in zip(requests, out, strict=True):
            if not np.isfinite(found):
                raise NonFiniteLoss(
                    f"the model gives {repr(pair[1][:60]) if pair else 'a text'} no finite log-probability; "
                    "look at the checkpoint's last losses"
                )
        return out

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = True) -> list[float]:
        """Return the natural log-likelihood of each whole text, in windows as long as the model's sequences."""
        windows: list[Pair] = []
        counts: list[int] = []
        for (text,) in (request.args for request in requests):
            found = list(
                map(
                    make_disjoint_window,
                    get_rolling_token_windows(
                        token_list=self._encoded(text),
                        prefix_token=self.prefix_token_id,
                        max_seq_len=self.model.length,
                        context_len=1,
                    ),
                )
            )
            windows += [(None, context, continuation) for context, continuation in found]
            counts.append(len(found))
        answers = iter(self._loglikelihood_tokens(windows))
        return [sum(next(answers)[0] for _ in range(count)) for count in counts]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = True) -> list[str]:
        """Return the greedy continuation of each prompt, up to a stop string, the eos token or the bound."""
        out = [""] * len(requests)
        alike: dict[str, list[int]] = {}
        asked: list[tuple[str, Mapping[str, object]]] = [cast(Any, request.args) for request in requests]
        for index, (_, settings) in enumerate(asked):
            alike.setdefault(repr(sorted(settings.items())), []).append(index)
        for indices in alike.values():
            stops, most = self._settings(asked[indices[0]][1])
            # A model needs at least one token of prompt.
            encoded = (self.tok_encode(asked[index][0]) or [self.encoder.start] for index in indices)
            prompts = [np.asarray(ids[-(self.model.length - most) :], np.int32) for ids in encoded]

            def finished(tokens: Sequence[int], stops: Sequence[str] = stops) -> bool:
                text = self.encoder.decode(tokens)
                return any(stop in text for stop in stops)

            made = self.model.generate(prompts, most, self.eot_token_id, finished)
            for index, tokens in zip(indices, made, strict=True):
                out[index] = postprocess_generated_text(self.encoder.decode(tokens), list(stops), None)
        return out

    def _settings(self, asked: Mapping[str, object]) -> tuple[list[str], int]:
        """Return (stop strings, most tokens)."""
        settings = dict(normalize_gen_kwargs(dict(asked), 256))
        if settings.get("do_sample") or (strange := sorted(set(settings) - GREEDY)):
            what = "sampling" if settings.get("do_sample") else ", ".join(strange)
            raise InputError(
                f"a task asks for {what} ({dict(asked)}); marin generates only the likeliest answer: "
                "choose a task that generates greedily"
            )
        wanted, until = cast(int, settings["max_gen_toks"]), cast("list[str]", settings["until"])
        most = min(wanted, self.max_new_tokens or wanted)
        if most >= self.model.length:
            raise InputError(
                f"a task generates up to {most} tokens, but the model's sequences are {self.model.length} long; "
                "set max_new_tokens to less than the sequence length"
            )
        return [stop for stop in until if stop], most
