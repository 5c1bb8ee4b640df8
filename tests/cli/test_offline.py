"""If marin may not ask the hub, it refuses a download from the hub before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from marin.cli.offline import must_not_need_hub
from marin.errors import InputError
from operators.download import HuggingFace
from tests.support.toy import Write, planned

SUITE = HuggingFace(repo="cais/mmlu", revision="c30699e8356da336a370243923dbaf21066bb9fe", label="mmlu")


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_a_suite_that_is_not_here_is_refused_offline(variable: str, tmp_path: Path) -> None:
    plan = planned(str(tmp_path), suite=SUITE, text=Write(text="a"))
    with pytest.raises(
        InputError, match=rf"download-hf/mmlu \(cais/mmlu\): not in the store .* and {variable}=1 forbids"
    ):
        must_not_need_hub(plan, {variable: "1"})


def test_nothing_is_refused_where_the_hub_may_be_asked_or_need_not_be(tmp_path: Path) -> None:
    must_not_need_hub(planned(str(tmp_path), suite=SUITE), {"HF_HUB_OFFLINE": "0"})
    must_not_need_hub(planned(str(tmp_path), text=Write(text="a")), {"HF_HUB_OFFLINE": "1"})
