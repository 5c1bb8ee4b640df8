"""Shapes of the models that marin trains, and of the published models that it reads."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from marin.errors import BadField
from marin.steps.value import since, value


@value("architecture")
class Architecture(Enum):
    """The architectures that marin trains. The values are Hugging Face's model_type."""

    _value_: str
    LLAMA = "llama"
    QWEN3 = "qwen3"  # Llama with an RMS norm on the queries and keys of each head (QK-Norm)
    QWEN2 = "qwen2"  # Llama with biases on queries, keys and values; Qwen 2.5 is one
    OLMO2 = "olmo2"  # norms after attention and MLP instead of before, and one norm over the queries of all heads


@value("precision")
class Precision(Enum):
    """The number type of the matrix products. Parameters are always float32."""

    _value_: str
    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"


@value("llama3_rope")
class Llama3Rope:
    """Llama 3's stretching of rotary positions: long wavelengths by ``factor``, short ones not at all.

    Wavelengths below ``original`` / ``high`` tokens stay, wavelengths above ``original`` / ``low`` are stretched, and
    the stretch grows smoothly in between. The defaults are Llama 3.1's and the 32B's; see Dubey et al. 2024,
    arXiv 2407.21783.
    """

    factor: float = 8.0
    low: float = 1.0
    high: float = 4.0
    original: int = 8192

    def __post_init__(self) -> None:
        if self.factor < 1 or not 0 < self.low < self.high or self.original < 1:
            raise BadField(f"{self}: wanted a factor of at least 1, 0 < low < high, and original of at least 1 token")


class Recompute(Enum):
    """The activations that the backward pass recomputes instead of keeping: less memory, more time, the same result."""

    NOTHING = "nothing"
    LAYERS = "layers"
    OFFLOAD = "offload"  # as LAYERS, with the layers' inputs kept in host memory


@value("model_shape")
class ModelShape:
    """A decoder-only transformer: RMS norm, rotary positions, gated SiLU.

    hidden, intermediate: widths. heads, kv_heads: query heads, and key/value heads that they share.
    seq_len: longest sequence (tokens). head_width: per-head width, hidden / heads if None. rope: how rotary
    positions are stretched, None for plain ones of base rope_theta.
    Raises BadField for sizes that do not fit together.
    """

    architecture: Architecture
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    seq_len: int
    head_width: int | None = None
    rope_theta: float = 500_000.0
    norm_eps: float = 1e-5
    tied_embeddings: bool = False
    rope: Llama3Rope | None = since(2, default=None)

    def __post_init__(self) -> None:
        for name in ("hidden", "intermediate", "layers", "heads", "kv_heads", "seq_len"):
            if getattr(self, name) < 1:
                raise BadField(f"model: {name} is {getattr(self, name)}; it must be at least 1")
        if self.heads % self.kv_heads:
            raise BadField(f"model: {self.heads} heads cannot share {self.kv_heads} kv_heads; make it a divisor")
        if self.head_width is None and self.hidden % self.heads:
            raise BadField(f"model: hidden {self.hidden} is not a multiple of {self.heads} heads; set head_width")
        if self.head_width is not None and self.architecture in (Architecture.QWEN2, Architecture.OLMO2):
            raise BadField(
                f"model: head_width is {self.head_width}; heads of {self.architecture.value} are hidden / heads wide"
            )
        if self.head_size % 2:
            raise BadField(f"model: heads are {self.head_size} wide; rotary positions need an even width")

    def takes_weights_of(self, other: ModelShape) -> bool:
        """Return whether the shapes are equal except for sequence length and rotary positions.

        The other model's weights then fit this shape.
        """
        return self == replace(other, seq_len=self.seq_len, rope_theta=self.rope_theta, rope=self.rope)

    @property
    def head_size(self) -> int:
        return self.hidden // self.heads if self.head_width is None else self.head_width

    def matrix_parameters(self) -> int:
        """Return the number of parameters of one layer's matrices: query, output, key, value, gate, up, down."""
        attention = 2 * self.hidden * self.head_size * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate

    def parameters(self, vocabulary: int) -> int:
        """Return the number of parameters, with embeddings, norms and biases."""
        vectors = 2 * self.hidden + {
            Architecture.QWEN3: 2 * self.head_size,
            Architecture.OLMO2: self.head_size * (self.heads + self.kv_heads),
            Architecture.QWEN2: self.head_size * (self.heads + 2 * self.kv_heads),
        }.get(self.architecture, 0)
        embeddings = vocabulary * self.hidden * (1 if self.tied_embeddings else 2)
        return self.layers * (self.matrix_parameters() + vectors) + self.hidden + embeddings

    def flops_per_token(self, vocabulary: int, seq_len: int) -> float:
        """Return the training FLOPs a token: 6 per matrix parameter, plus attention.

        Attention: scores and weighted sum are 2 products of seq_len × head width for each query head, at 2 FLOPs a
        multiply-add. Half is masked. Forward and backward together count three times.
        Source: Chowdhery et al. 2022 (PaLM), appendix B; the causal half as in Dao 2023.
        """
        products = 6 * (self.layers * self.matrix_parameters() + vocabulary * self.hidden)
        attention = 6 * self.layers * self.heads * self.head_size * seq_len
        return float(products + attention)


def Llama(
    *,
    hidden: int,
    intermediate: int,
    layers: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    rope_theta: float = 500_000.0,
    rope: Llama3Rope | None = None,
) -> ModelShape:
    """Return a Llama shape: the backbone of the 32B's first 80,000 steps."""
    return ModelShape(
        architecture=Architecture.LLAMA, hidden=hidden, intermediate=intermediate, layers=layers, heads=heads,
        kv_heads=kv_heads, seq_len=seq_len, rope_theta=rope_theta, rope=rope,
    )  # fmt: skip


def Qwen3(
    *,
    hidden: int,
    intermediate: int,
    layers: int,
    heads: int,
    kv_heads: int,
    seq_len: int,
    rope_theta: float = 500_000.0,
    rope: Llama3Rope | None = None,
) -> ModelShape:
    """Return a Llama shape with QK-Norm: the backbone of the 32B from step 80,000 on."""
    return ModelShape(
        architecture=Architecture.QWEN3, hidden=hidden, intermediate=intermediate, layers=layers, heads=heads,
        kv_heads=kv_heads, seq_len=seq_len, rope_theta=rope_theta, rope=rope,
    )  # fmt: skip
