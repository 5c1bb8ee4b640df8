"""Nothing asks the Hugging Face hub while a model is built or scored, whatever the libraries would like to look up."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

VARIABLE = "HF_HUB_OFFLINE"


@contextmanager
def hub_offline() -> Generator[None]:
    """For this process and what it starts meanwhile; afterwards as before, so that later steps can download."""
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
