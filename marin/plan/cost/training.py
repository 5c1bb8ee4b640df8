"""What training costs in chip-hours."""

from __future__ import annotations

from marin.errors import BadField
from marin.steps.resources import Accelerator

# Model FLOP/s utilisation when nobody measured it. An estimate, a little to the dear side: PaLM 540B on
# v4 reached .462 (Chowdhery et al. 2022), Llama 3 405B on H100 .38 to .43 (Grattafiori et al. 2024).
MFU = 0.40


def training_cost(flops: float, accelerator: Accelerator, mfu: float = MFU) -> float:
    """Chip-hours to do ``flops`` floating-point operations (6 × parameters × tokens and attention).

    mfu: share of the peak that does model FLOPs, above 0, at most 1. Wall time is the result divided
    by ``accelerator.chips``. Raises BadField.
    """
    if not flops >= 0:
        raise BadField(f"training_cost: flops is {flops}, wanted 0 or more")
    if not 0 < mfu <= 1:
        raise BadField(f"training_cost: mfu is {mfu}, wanted a share of the peak, above 0 and at most 1")
    return flops / (mfu * accelerator.peak_flops) / 3600
