"""Rungs of a ladder, and the rule that turns FLOPs into a shape, tokens, batch and learning rate."""

from __future__ import annotations

import math

from marin import BatchSchedule, value
from marin.errors import BadField
from marin.training.model import Architecture, ModelShape
from marin.training.schedule import Decay, Schedule, Shape

LEAST_BETA2 = 0.95


@value("ladder_rung", kw_only=True)
class Rung:
    """One size of a ladder.

    flops: of the run, which differ a little from the FLOPs that the rule was asked for. parameters: those that a token
    meets in a matrix product, that is layers and output head. tokens: of all steps. spread: tokens a parameter, as a
    multiple of the rule's. beta2: Adam's, for this batch.
    """

    flops: float
    shape: ModelShape
    vocabulary: int
    seq_len: int
    parameters: int
    tokens: int
    batch: int
    steps: int
    peak_lr: float
    beta2: float
    spread: float = 1.0

    def schedule(
        self, *, warmup: float = 0.1, decay: float = 0.2, floor: float = 0.0, shape: Shape = Shape.LINEAR
    ) -> Schedule:
        """Return a warmup, a constant rate and a decay at the end. warmup, decay: shares of the steps."""
        start = self.steps - max(1, round(decay * self.steps))
        return Schedule(
            warmup=min(round(warmup * self.steps), start), decay=Decay(start, self.steps, shape), floor=floor
        )

    @property
    def batches(self) -> BatchSchedule:
        return BatchSchedule({0: self.batch})


@value("tokens_per_parameter", kw_only=True)
class TokensPerParameter:
    """A rule with the same tokens a parameter on every rung. The defaults are those of Marin's isoFLOP sweeps.

    The rule takes the width whose run comes nearest to the FLOPs, then the tokens by ``ratio``. The FLOPs of a rung
    therefore differ a little from those asked for; fits take the real ones. ``ratio`` is exact, because a ladder
    predicts a run with the same ratio.

    ratio: tokens a parameter (parameters: layers and output head). 20 is Hoffmann's; Delphi's best shapes have 3 to 8
    by all parameters. width_multiple: of hidden widths; 128 and 64 suit accelerators, rehearsals take less. layers: by
    Delphi's formula width / (64 + 4 · log2(width) − 9), or width / width_per_layer. mlp: width of the MLP by hidden
    width. kv_heads: key/value heads where they divide the heads, else one for each head. steps: the batch is the power
    of two of sequences with which a run takes about so many steps. The peak rate is rate_factor · √batch / width; the
    batch halves until that is at most most_rate. Adam's β₂ is 0.98^(batch / 128), at least .95.
    Source: experiments/scaling_law_sweeps/c_adamc.py of marin-community/marin (commit 054a715f) and Held 2026,
    openathena.ai/blog/delphi.
    Raises BadField for a width_multiple that is no multiple of head_width, and for amounts of 0 or less.
    """

    vocabulary: int
    seq_len: int = 4096
    ratio: float = 20.0
    architecture: Architecture = Architecture.QWEN3
    width_multiple: int = 128
    head_width: int = 128
    kv_heads: int | None = None
    mlp: float = 4.0
    width_per_layer: float | None = None
    steps: int = 2**16
    least_batch: int = 8
    rate_factor: float = 0.33
    most_rate: float = 0.01

    def __post_init__(self) -> None:
        amounts = ("vocabulary", "seq_len", "ratio", "width_multiple", "head_width", "mlp", "width_per_layer", "steps",
                   "least_batch", "rate_factor", "most_rate")  # fmt: skip
        for name in amounts:
            amount = getattr(self, name)
            if amount is not None and not amount > 0:
                raise BadField(f"TokensPerParameter.{name} is {amount}; wanted more than 0")
        if self.width_multiple % self.head_width:
            raise BadField(
                f"TokensPerParameter: width_multiple is {self.width_multiple}, which is no multiple of head_width "
                f"{self.head_width}; a width is a whole number of heads"
            )

    def __str__(self) -> str:
        return (
            f"{self.ratio:g} tokens a parameter; widths in multiples of {self.width_multiple}; about {self.steps:,} "
            f"steps; peak rate {self.rate_factor:g} · √batch / width, at most {self.most_rate:g}"
        )

    def rung(self, flops: float, spread: float = 1.0) -> Rung:
        """Return the rung nearest to these FLOPs. spread: multiple of ``ratio``. Raises BadField below the smallest."""
        before, width = None, self.width_multiple
        while (found := self._of(width, spread)).flops < flops:
            before, width = found, width + self.width_multiple
        if before is None and found.flops > 2 * flops:
            raise BadField(
                f"TokensPerParameter: a rung of {flops:.2g} FLOPs is too small: the narrowest model, {width} wide, "
                f"takes {found.flops:.2g}; raise the rung, or lower width_multiple or ratio"
            )
        near = min((each for each in (before, found) if each), key=lambda each: abs(math.log(each.flops / flops)))
        return near

    def _of(self, width: int, spread: float) -> Rung:
        shape = self._shape(width)
        parameters = shape.layers * shape.matrix_parameters() + self.vocabulary * width
        wanted = self.ratio * spread * parameters
        batch = self.least_batch
        while wanted / (batch * self.seq_len) > self.steps:
            batch *= 2
        while self._rate(batch, width) > self.most_rate and batch > self.least_batch:
            batch //= 2
        steps = max(1, round(wanted / (batch * self.seq_len)))
        tokens = steps * batch * self.seq_len
        return Rung(
            flops=tokens * shape.flops_per_token(self.vocabulary, self.seq_len),
            shape=shape,
            vocabulary=self.vocabulary,
            seq_len=self.seq_len,
            parameters=parameters,
            tokens=tokens,
            batch=batch,
            steps=steps,
            peak_lr=float(f"{min(self._rate(batch, width), self.most_rate):.4g}"),
            beta2=max(LEAST_BETA2, round(0.98 ** (batch / 128), 5)),
            spread=spread,
        )

    def _rate(self, batch: int, width: int) -> float:
        return self.rate_factor * math.sqrt(batch) / width

    def _shape(self, width: int) -> ModelShape:
        heads = width // self.head_width
        per_layer = self.width_per_layer or 64 + 4 * math.log2(width) - 9
        unit = min(self.width_multiple, 128)
        return ModelShape(
            architecture=self.architecture,
            hidden=width,
            intermediate=max(1, round(self.mlp * width / unit)) * unit,
            layers=max(1, round(width / per_layer)),
            heads=heads,
            kv_heads=self.kv_heads if self.kv_heads and heads % self.kv_heads == 0 else heads,
            seq_len=self.seq_len,
        )
