"""Small real data that may stand beside the checkout; tests that want it skip without it."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


def shared(name: str) -> Path:
    """A path below ``../shared/data``; skips the test when it is not there."""
    found = ROOT / name
    if not found.exists():
        pytest.skip(f"needs shared/data/{name} beside the checkout")
    return found
