"""Low-rank adapters (LoRA): their settings, their matrices, and their number of parameters."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value
from marin.training.model import ModelShape

MODULES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@value("lora", kw_only=True)
class LoRA:
    """Low-rank adapters to train on a model's matrices, while the weights that the run begins with stay fixed.

    A matrix W of ``modules``, in every layer, becomes W + (alpha / rank) · B · A. A has ``rank`` rows and begins at
    random. B has ``rank`` columns and begins at 0, so the run begins with the loss of its start. modules: Hugging
    Face's names of matrices. Embeddings, norms and the head have no adapters. Raises BadField for a rank below 1, an
    alpha that is not positive, and for no or repeated modules. Source: Hu et al. 2021, arXiv 2106.09685.
    """

    rank: int = 16
    alpha: float = 32.0
    modules: tuple[str, ...] = MODULES

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise BadField(f"LoRA: rank is {self.rank}; wanted at least 1")
        if not 0 < self.alpha < float("inf"):
            raise BadField(f"LoRA: alpha is {self.alpha}; wanted more than 0")
        if not self.modules or len(set(self.modules)) < len(self.modules):
            raise BadField(f"LoRA: modules is {self.modules}; wanted at least one name, and each name once")

    def __str__(self) -> str:
        return f"rank {self.rank}, alpha {self.alpha:g}, on {', '.join(self.modules)}"

    def parameters(self, shape: ModelShape) -> int:
        """Return the number of parameters of all adapters of a model."""
        sizes = matrices(shape)
        return shape.layers * self.rank * sum(sum(sizes[name]) for name in self.modules)


def matrices(shape: ModelShape) -> dict[str, tuple[int, int]]:
    """Return the inputs and outputs of each matrix of a layer that can have an adapter, by its name."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    return {
        "q_proj": (shape.hidden, queries),
        "k_proj": (shape.hidden, keys),
        "v_proj": (shape.hidden, keys),
        "o_proj": (queries, shape.hidden),
        "gate_proj": (shape.hidden, shape.intermediate),
        "up_proj": (shape.hidden, shape.intermediate),
        "down_proj": (shape.intermediate, shape.hidden),
    }
