"""Optimizer recipes: AdamW, AdamC, NAdamW or Muon, with the guards that the retrospective used."""

from __future__ import annotations

import math
from enum import Enum

from marin.errors import BadField
from marin.steps.value import since, value


@value("clip_update_norm")
class ClipUpdateNorm:
    """A guard that scales an update down to mean + sigma · deviation of the norms of the last ``window`` updates.

    The guard clips nothing before it has seen half a window.
    """

    sigma: float = 2.0
    window: int = 128


@value("skip_bad_steps")
class SkipBadSteps:
    """A guard that skips a step if its loss or gradient norm exceeds mean + sigma · deviation of the last ``window``.

    The guard skips nothing before it has seen half a window. Source: OLMo 2's skip-step optimizer. The 32B's
    configuration used six sigma on loss and gradient norm (``skip_bad_steps=True`` of Levanter). Its retrospective says
    two sigma of the update norm, which is the clip's setting.
    """

    sigma: float = 6.0
    window: int = 128


@value("adam")
class Adam:
    """AdamW. The defaults are the 32B's from step 80,000 on.

    peak_lr: the learning rate where the schedule is 1.0. weight_decay: decoupled; norms and embeddings are exempt.
    max_grad_norm: global norm, None for no clipping. adamc: weight decay shrinks with the learning
    rate (Defazio 2025, arXiv 2506.02285), for decay phases. z_loss: weight of log²Z in the loss.
    ema: decay per step of the moving average of the weights, None for no average. nesterov: NAdamW.
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
    nesterov: bool = since(2, default=False)

    def __post_init__(self) -> None:
        _check(self)


def NAdamW(
    *,
    peak_lr: float = 7e-4,
    weight_decay: float = 0.05,
    beta1: float = 0.95,
    beta2: float = 0.95,
    max_grad_norm: float | None = 1.0,
    clip_update_norm: ClipUpdateNorm | None = None,
    skip_bad_steps: SkipBadSteps | None = None,
    z_loss: float = 1e-4,
    ema: float | None = 0.995,
) -> Adam:
    """Return AdamW with Nesterov momentum (Dozat 2016). The defaults are from the 32B's trial, issue 1388."""
    return Adam(
        peak_lr=peak_lr, weight_decay=weight_decay, beta1=beta1, beta2=beta2, max_grad_norm=max_grad_norm,
        clip_update_norm=clip_update_norm, skip_bad_steps=skip_bad_steps, z_loss=z_loss, ema=ema, nesterov=True,
    )  # fmt: skip


@value("newton_schulz")
class NewtonSchulz(Enum):
    """The polynomial that makes an update orthogonal. The names are Levanter's."""

    _value_: str
    SIMPLE = "simple"  # 3.4445, -4.7750, 2.0315 in every iteration: Jordan 2024
    QUINTIC = "quintic"  # another one in each iteration


@value("muon")
class Muon:
    """Muon for matrices, AdamW for embeddings, the output layer and norms (Jordan 2024).

    The defaults are from the 32B's trial, issue 1380. peak_lr: learning rate of the matrices where the
    schedule is 1.0. adam_lr: learning rate of the other parameters, likewise. iterations: Newton-Schulz iterations.
    max_grad_norm: clips only AdamW's parameters, because the length of a matrix's update does not depend on its
    gradient. The other guards look at all updates. The other fields are as in Adam.
    """

    peak_lr: float = 2e-3
    adam_lr: float = 7e-4
    momentum: float = 0.98
    nesterov: bool = True
    iterations: int = 5
    polynomial: NewtonSchulz = NewtonSchulz.SIMPLE
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    max_grad_norm: float | None = 1.0
    clip_update_norm: ClipUpdateNorm | None = None
    skip_bad_steps: SkipBadSteps | None = None
    z_loss: float = 1e-4
    ema: float | None = 0.995

    def __post_init__(self) -> None:
        _check(self)


type Optimizer = Adam | Muon


def _check(recipe: Optimizer) -> None:
    """Raise BadField for a value out of range."""
    name = type(recipe).__name__
    above_zero, share = ("peak_lr", "adam_lr", "eps", "iterations"), ("beta1", "beta2", "momentum")
    for field, good, wanted in (
        *((field, 0 < getattr(recipe, field, 1) < math.inf, "a number above 0") for field in above_zero),
        *((field, 0 <= getattr(recipe, field, 0) < 1, "0 or more, below 1") for field in share),
        ("weight_decay", 0 <= recipe.weight_decay < math.inf, "0 or more"),
        ("max_grad_norm", recipe.max_grad_norm is None or recipe.max_grad_norm > 0, "more than 0, or None"),
        ("z_loss", 0 <= recipe.z_loss < math.inf, "0 or more"),
        ("ema", recipe.ema is None or 0 < recipe.ema < 1, "between 0 and 1, or None"),
    ):
        if not good:
            raise BadField(f"{name}.{field} is {getattr(recipe, field)!r}; wanted {wanted}")
    for guard in (recipe.clip_update_norm, recipe.skip_bad_steps):
        if guard is not None and (guard.sigma <= 0 or guard.window < 2):
            raise BadField(f"{name}: {guard} needs a positive sigma and a window of at least 2 steps")
