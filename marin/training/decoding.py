"""Continue token sequences, greedily or by sampling, with a cache of keys and values. Imports JAX and Levanter.

Levanter's own engine does the same with pages. On a CPU, its attention processes the rows and the tokens of a prompt
one after the other. Here a batch of prompts lies side by side, padded on the left, and the prompts' common beginning is
computed once.

Shapes: B rows, Q tokens of a call, K places of the cache.
"""

# pyright: basic
from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import haliax
import jax
import jax.numpy as jnp
import numpy as np
from haliax import Axis, NamedArray

from marin.training.chips import Chips

CHUNK = 32  # places: lengths are rounded up to a multiple; marin generates 32 tokens between two looks at the text
# Most tokens of prompts and answers in a batch. Each token keeps its keys and values: 131 kB for an 8B in bf16.
CACHE_TOKENS = 16_384


class Drawing(NamedTuple):
    """The sampling of each row. temperatures: (B,) float32, 0 for the likeliest token. keys: (B, 2) uint32.

    A row's tokens depend on the row's key, not on the other rows of the batch.
    """

    temperatures: Any
    keys: Any


def drawing_key(*of: object) -> np.ndarray:
    """Return a random key, (2,) uint32, that depends only on the arguments."""
    return np.frombuffer(hashlib.sha256(repr(of).encode()).digest()[:8], np.uint32)


class Cache(NamedTuple):
    """The keys and values of all layers: (layer, batch, place, kv_head, head_size) each."""

    keys: NamedArray
    values: NamedArray


def empty_cache(model: Any, rows: int, places: int, chips: Chips) -> Cache:
    attention = model.config.attention_config()
    axes = (
        model.transformer.layers.Block,
        Axis("batch", rows),
        Axis("place", places),
        attention.KVHeads,
        attention.HeadSize,
    )
    dtype = model.embeddings.token_embeddings.weight.dtype  # a projection with an adapter has no weight of its own
    return Cache(chips.zeros(axes, dtype), chips.zeros(axes, dtype))


def extend(model: Any, cache: Cache, tokens: Any, first: Any, common: Any, padding: Any) -> tuple[Any, Cache]:
    """Return ((B, Q, embed) activations, cache with these tokens in the places first … first + Q - 1).

    tokens: (B, Q). common: the number of places, from 0, that hold the rows' common beginning. padding: (B,) number of
    empty places after the common ones.
    """
    rows, count = tokens.shape
    places = first + jnp.arange(count)
    positions = jnp.where(places < common, places, jnp.maximum(places - padding[:, None], 0))
    positions = haliax.named(jnp.broadcast_to(positions, (rows, count)), ("batch", "position"))
    key = jnp.arange(cache.keys.axis_size("place"))
    filled = (key < common) | (key >= common + padding[:, None])  # (B, K)
    seen = haliax.named(
        filled[:, None, :] & (key[None, None, :] <= places[None, :, None]), ("batch", "position", "place")
    )

    layers = model.transformer.layers
    norm_first = hasattr(layers.stacked, "input_layernorm")  # OLMo 2 norms the outputs of attention and MLP instead

    # The scan carries the whole cache and writes in place: returning each layer's part would copy the cache.
    def layer(carry: tuple[NamedArray, Cache], block: Any, number: NamedArray) -> tuple[NamedArray, Cache]:
        x, cache = carry
        attention = block.self_attn
        normed = block.input_layernorm(x) if norm_first else x
        q, k, v = (project(normed) for project in (attention.q_proj, attention.k_proj, attention.v_proj))
        if attention.config.qk_norm is not None:
            q, k = attention.q_norm(q), attention.k_norm(k)
        q, k = attention.rot_embs(q, positions), attention.rot_embs(k, positions)
        at = {layers.Block: number.array, "place": first}
        cache = Cache(*(held.updated_slice(at, _placed(new, held)) for held, new in zip(cache, (k, v), strict=True)))
        keys, values = (held[layers.Block, number.array] for held in cache)
        scores = haliax.dot(q, keys, axis="head_size") / math.sqrt(attention.config.HeadSize.size)
        shares = haliax.nn.softmax(haliax.where(seen, scores.astype(jnp.float32), -1e9), axis="place")
        mixed = haliax.dot(shares.astype(values.dtype), values, axis="place").flatten_axes(
            ("kv_head", "q_heads_per_group"), "heads"
        )
        if norm_first:
            x = x + attention.o_proj(mixed)
            return x + block.mlp(block.post_attention_layernorm(x)), cache
        x = x + block.post_attention_layernorm(attention.o_proj(mixed))
        return x + block.post_feedforward_layernorm(block.mlp(x)), cache

    x = model.embeddings.embed(haliax.named(tokens, ("batch", "position")))
    x, cache = haliax.fold(layer, layers.Block)((x, cache), layers.stacked, haliax.arange(layers.Block))
    return model.transformer.norm(x), haliax.auto_sharded(cache)


def _placed(new: NamedArray, held: NamedArray) -> NamedArray:
    """Return one layer's keys or values of new tokens, as a piece of the cache."""
    layer, *others = held.axes
    piece = new.rename({"position": "place"}).rearrange([axis.name for axis in others])
    return piece.broadcast_axis(layer.resize(1)).astype(held.dtype)


@partial(jax.jit, donate_argnums=1)
def _fill(
    model: Any, cache: Cache, tokens: Any, first: Any, common: Any, padding: Any, drawing: Drawing | None
) -> tuple[Any, Cache]:
    """Add the prompts to the cache. Returns ((B,) the token after the last, cache)."""
    x, cache = extend(model, cache, tokens, first, common, padding)
    return _next(model, x["position", -1], first + tokens.shape[1] - padding, drawing), cache


@partial(jax.jit, donate_argnums=1)
def _go_on(
    model: Any, cache: Cache, last: Any, first: Any, common: Any, padding: Any, drawing: Drawing | None
) -> tuple[Any, Any, Cache]:
    """Generate CHUNK tokens. Returns ((B,) the next token, (B, CHUNK) ``last`` and the tokens after it, cache)."""

    def step(carry: tuple[Any, Cache], number: Any) -> tuple[tuple[Any, Cache], Any]:
        token, cache = carry
        x, cache = extend(model, cache, token[:, None], first + number, common, padding)
        return (_next(model, x["position", 0], first + number + 1 - padding, drawing), cache), token

    (token, cache), made = jax.lax.scan(step, (last, cache), jnp.arange(CHUNK))
    return token, made.T, cache


def _next(model: Any, x: NamedArray, places: Any, drawing: Drawing | None) -> Any:
    """Return (B,) tokens: the likeliest, or sampled ones. places: (B,) each token's place in its row's own sequence."""
    logits = haliax.dot(x, model.get_lm_head(), axis="embed").rearrange(("batch", "vocab")).array
    likeliest = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    if drawing is None:
        return likeliest

    def draw(key: Any, place: Any, logits: Any, temperature: Any) -> Any:
        key = jax.random.fold_in(jax.random.wrap_key_data(key, impl="threefry2x32"), place)
        return jax.random.categorical(key, logits.astype(jnp.float32) / jnp.maximum(temperature, 1e-6))

    drawn = jax.vmap(draw)(drawing.keys, places, logits, drawing.temperatures).astype(jnp.int32)
    return jnp.where(drawing.temperatures > 0, drawn, likeliest)


@partial(jax.jit, static_argnums=(1, 2))
def _spread(shared: Cache, rows: int, places: int) -> Cache:
    """Return a longer cache of several rows, each with the shared row at its beginning."""

    def wider(held: NamedArray) -> NamedArray:
        axes = [axis.resize({"batch": rows, "place": places}.get(axis.name, axis.size)) for axis in held.axes]
        one = held["batch", 0].broadcast_axis(Axis("batch", rows))
        return haliax.zeros(axes).updated_slice({"place": 0}, one.rearrange([axis.name for axis in axes]))

    return haliax.auto_sharded(Cache(*map(wider, shared)))


def written_on(
    model: Any,
    prompts: Sequence[np.ndarray],
    most: int,
    end: int,
    finished: Callable[[Sequence[int]], bool],
    chips: Chips,
    *,
    separator: int | None,
    drawing: Drawing | None = None,
) -> list[list[int]]:
    """Return continuations of any number of prompts. A batch holds prompts of similar length, as many as fit.

    separator: the id that no later token attends to; None if every text attends to everything before it.
    """
    out: list[list[int]] = [[] for _ in prompts]
    # The tokens after a separator do not attend to the separator.
    prompts = [prompt[1:] if len(prompt) > 1 and prompt[0] == separator else prompt for prompt in prompts]
    # By length, then by content, so that prompts with the same few-shot examples lie together.
    order = sorted(range(len(prompts)), key=lambda index: (-(len(prompts[index]) // 64), prompts[index].tolist()))
    while order:
        rows = max(1, min(64, CACHE_TOKENS // (len(prompts[order[0]]) + most)))
        part, order = order[:rows], order[rows:]
        drawn = None if drawing is None else Drawing(*(np.asarray(held)[part] for held in drawing))
        made = continued(model, [prompts[index] for index in part], most, end, finished, chips, drawn)
        for index, tokens in zip(part, made, strict=True):
            out[index] = tokens
    return out


def continued(
    model: Any,
    prompts: Sequence[np.ndarray],
    most: int,
    end: int,
    finished: Callable[[Sequence[int]], bool],
    chips: Chips,
    drawing: Drawing | None = None,
) -> list[list[int]]:
    """Return continuations of one batch, the likeliest without ``drawing``; see marin.evaluation.language_model."""
    longest = max(map(len, prompts))
    # The common beginning, without the last token of the shortest prompt; rounded, so that there are few shapes.
    alike = min(map(len, prompts)) - 1
    for prompt in prompts[1:]:
        differ = np.flatnonzero(prompt[:alike] != prompts[0][:alike])
        alike = int(differ[0]) if len(differ) else alike
    common = alike // CHUNK * CHUNK
    places = common + -(-(longest - common) // CHUNK) * CHUNK
    rows = chips.rounded(len(prompts))
    laid = [*prompts, *[prompts[-1]] * (rows - len(prompts))]
    padding = chips.spread(np.array([places - len(prompt) for prompt in laid], np.int32))
    if drawing is not None:
        again = np.minimum(np.arange(rows), len(prompts) - 1)
        drawing = Drawing(*(chips.spread(np.asarray(held)[again]) for held in drawing))
    tokens = np.zeros((rows, places - common), np.int32)
    for row, prompt in enumerate(laid):
        tokens[row, places - common - len(prompt[common:]) :] = prompt[common:]
    capacity = places + -(-most // CHUNK) * CHUNK
    made: list[list[int]] = [[] for _ in prompts]
    going = set(range(len(prompts)))
    with chips.at_work():
        if common:
            once = np.repeat(np.asarray(prompts[0][:common])[None], chips.count, axis=0)  # a row for each chip
            nothing = chips.spread(np.zeros(chips.count, np.int32))
            shared = empty_cache(model, chips.count, common, chips)
            _, shared = _fill(model, shared, chips.spread(once), 0, common, nothing, None)
            cache = _spread(shared, rows, capacity)
        else:
            cache = empty_cache(model, rows, capacity, chips)
        last, cache = _fill(model, cache, chips.spread(tokens), common, common, padding, drawing)
        for first in range(places, capacity, CHUNK):
            last, chunk, cache = _go_on(model, cache, last, first, common, padding, drawing)
            for row, new in enumerate(chips.whole(chunk).tolist()):
                if row not in going:
                    continue
                made[row] += new
                if end in new or len(made[row]) >= most or finished(made[row]):
                    going.discard(row)
                    made[row] = made[row][: made[row].index(end)] if end in made[row] else made[row][:most]
            if not going:
                break
    return made
