"""The optimizer recipe: AdamW with the guards that the retrospective used."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.value import value


@value("clip_update_norm")
class ClipUpdateNorm:
    """Scale an update down to mean + sigma · deviation of the norms of the last ``window`` updates.

    Nothing is clipped before half a window has been seen.
    """

    sigma: float = 2.0
    window: int = 128


@value("skip_bad_steps")
class SkipBadSteps:
    """Leave a step out if its loss or gradient norm exceeds mean + sigma · deviation of the last ``window``.

    Nothing is skipped before half a window has been seen. Source: OLMo 2's skip-step optimizer. Six sigma on loss and
    gradient norm is what the 32B's configuration switched on (``skip_bad_steps=True`` of Levanter); its retrospective
    says two sigma of the update norm, which is what the clip looks at.
    """

    sigma: float = 6.0
    window: int = 128


@value("adam")
class Adam:
    """AdamW. The defaults are the 32B's from step 80,000 on.

    peak_lr: the schedule's 1.0. weight_decay: decoupled; norms and embeddings are exempt.
    max_grad_norm: global norm, None for no clipping. adamc: weight decay shrinks with the learning
    rate (Defazio 2025, arXiv 2506.02285), for decay phases. z_loss: weight of log²Z in the loss.
    ema: decay of the moving average of the weights for each step, None for none.
    """

    peak_lr: float = 7e-4
    weight_decay: float = 0.05
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    max_grad_norm: float | None = 0.2
    clip_update_norm: ClipUpdateNorm | None = ClipUpdateNorm()
    skip_bad_steps: SkipBadSteps | None = SkipBadSteps()
    adamc: bool = False
    z_loss: float = 1e-4
    ema: float | None = 0.995

    def __post_init__(self) -> None:
        for name, good, wanted in (
            ("peak_lr", self.peak_lr > 0, "more than 0"),
            ("weight_decay", self.weight_decay >= 0, "0 or more"),
            ("beta1", 0 <= self.beta1 < 1, "0 or more, below 1"),
            ("beta2", 0 <= self.beta2 < 1, "0 or more, below 1"),
            ("eps", self.eps > 0, "more than 0"),
            ("max_grad_norm", self.max_grad_norm is None or self.max_grad_norm > 0, "more than 0, or None"),
            ("z_loss", self.z_loss >= 0, "0 or more"),
            ("ema", self.ema is None or 0 < self.ema < 1, "between 0 and 1, or None"),
        ):
            if not good:
                raise BadField(f"Adam.{name} is {getattr(self, name)!r}; wanted {wanted}")
        for guard in (self.clip_update_norm, self.skip_bad_steps):
            if guard is not None and (guard.sigma <= 0 or guard.window < 2):
                raise BadField(f"Adam: {guard} needs a positive sigma and a window of at least 2 steps")
