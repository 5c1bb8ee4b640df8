"""Keep libraries from asking the Hugging Face hub while marin builds or scores a model."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

VARIABLE = "HF_HUB_OFFLINE"


@contextmanager
def hub_offline() -> Generator[None]:
    """Keep this process and its new children off the hub, then restore the setting: later steps can download again."""
    from huggingface_hub import constants  # reads the variable once, when it is first imported

    before, constant = os.environ.get(VARIABLE), constants.HF_HUB_OFFLINE
    os.environ[VARIABLE], constants.HF_HUB_OFFLINE = "1", True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = constant
        os.environ.pop(VARIABLE)
        if before is not None:
            os.environ[VARIABLE] = before
