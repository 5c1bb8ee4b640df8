"""The check of one GPU runs on a CPU, with a small model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "benchmarks" / "gpu" / "check.py"


@pytest.mark.slow
def test_a_run_that_is_cut_has_the_losses_of_a_whole_one() -> None:
    done = subprocess.run(
        [sys.executable, CHECK, "--tiny", "--only", "resume"],
        env={**os.environ, "JAX_PLATFORMS": "cpu"}, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["steps"] == [40, 40, 40]
    assert found["largest difference, cut and resumed"] == found["largest difference, the same run twice"] == 0
