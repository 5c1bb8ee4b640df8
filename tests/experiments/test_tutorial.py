"""The experiment that the tutorial tells people to write is one."""

import re
from pathlib import Path
from typing import Any

import pytest

from marin import Experiment, Scale

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("scale", Scale)
def test_the_tutorials_experiment_builds_at_both_scales(scale: Scale) -> None:
    (source,) = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/tutorial.md").read_text(), re.S | re.M)
    module: dict[str, Any] = {"__name__": "experiments.exp1_split"}
    exec(compile(source, "experiments/exp1_split.py", "exec"), module)
    experiment = module["build"](scale)
    assert isinstance(experiment, Experiment)
    assert experiment.results.keys() == {"as_code", "as_prose"}
