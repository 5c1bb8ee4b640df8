"""The costs of a training: bytes of its state, floating-point operations. marin knows them before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from marin.training.activations import BYTES
from marin.training.lora import LoRA
from marin.training.model import ModelShape, Precision
from marin.training.optimizer import Muon, Optimizer


@dataclass(frozen=True, kw_only=True)
class Costs:
    """The memory and arithmetic of a training.

    lora: the adapters that are trained instead of the model's own weights. tensor: see marin.training.chips.
    """

    model: ModelShape
    vocabulary: int
    optimizer: Optimizer
    precision: Precision
    tensor: int
    lora: LoRA | None

    @property
    def trained(self) -> int:
        """Return the number of parameters that the optimizer updates."""
        return self._parameters if self.lora is None else self.lora.parameters(self.model)

    @property
    def frozen(self) -> int:
        """Return the number of parameters that the optimizer leaves as they are."""
        return 0 if self.lora is None else self._parameters

    @property
    def checkpoint_bytes(self) -> int:
        """Return the bytes of the output: float32 weights, Adam's two moments, and the moving average if there is one.

        With LoRA the output is the merged model, which has weights only.
        """
        if self.lora is not None:
            return 4 * self._parameters
        copies = 3 if self.optimizer.ema is None else 4
        # Muon keeps one moment per matrix parameter, not two.
        saved = self._matrices if isinstance(self.optimizer, Muon) else 0
        return 4 * (copies * self._parameters - saved)

    @property
    def gradient_bytes(self) -> int:
        return 4 * self.trained

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of one copy on all its chips: weights, optimizer state, gradients; no activations."""
        if self.lora is not None:
            # Memory holds the model's own weights in the type of the computation, and in float32 while they are read
            # and merged. Each chip of a tensor group has its own copy of embeddings and norms, and of the one factor
            # of each adapter that runs along the hidden dimension.
            more = self.tensor - 1
            frozen = self._parameters + more * (self._parameters - self._matrices)
            factors = self.model.layers * self.lora.rank * self.model.hidden * len(self.lora.modules)
            adapters = 4 * 4 * (self.trained + more * factors)
            return max(4 * frozen, BYTES[self.precision] * frozen + adapters)
        # Each chip of a tensor group has its own copy of embeddings and norms, with their gradients and moments.
        copied = (5 if self.optimizer.ema is not None else 4) * 4 * (self._parameters - self._matrices)
        return self.checkpoint_bytes + self.gradient_bytes + (self.tensor - 1) * copied

    def flops_per_token(self, seq_len: int) -> float:
        """Return the training FLOPs a token, see ModelShape.flops_per_token.

        A weight that is not trained has no gradient: 4 FLOPs instead of 6.
        """
        whole = self.model.flops_per_token(self.vocabulary, seq_len)
        if self.lora is None:
            return whole
        return whole - 2.0 * (self._matrices + self.vocabulary * self.model.hidden) + 6.0 * self.trained

    @property
    def _parameters(self) -> int:
        return self.model.parameters(self.vocabulary)

    @property
    def _matrices(self) -> int:
        return self.model.layers * self.model.matrix_parameters()
