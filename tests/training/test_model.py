from __future__ import annotations

import math

import pytest

from marin.errors import BadField
from marin.training.model import Llama, Qwen3

SIZES = {"hidden": 5120, "intermediate": 27648, "layers": 64, "heads": 40, "kv_heads": 8, "seq_len": 4096}
LLAMA3_VOCABULARY = 128_256


def test_the_32b_has_32_billion_parameters() -> None:
    # 64 layers of 5120·128·96 + 3·5120·27648 in matrices and 2·5120 in norms, a last norm, two embeddings.
    layer = 5120 * 128 * 96 + 3 * 5120 * 27648 + 2 * 5120
    assert Llama(**SIZES).parameters(LLAMA3_VOCABULARY) == 64 * layer + 5120 + 2 * LLAMA3_VOCABULARY * 5120
    assert round(Llama(**SIZES).parameters(LLAMA3_VOCABULARY) / 1e9, 1) == 32.5


def test_qk_norm_adds_two_head_widths_a_layer() -> None:
    added = Qwen3(**SIZES).parameters(LLAMA3_VOCABULARY) - Llama(**SIZES).parameters(LLAMA3_VOCABULARY)
    assert added == 64 * 2 * 128


def test_flops_are_six_a_parameter_and_grow_with_the_sequence() -> None:
    model = Llama(**SIZES)
    without_attention = model.flops_per_token(LLAMA3_VOCABULARY, 0)
    # All but the input embedding and the norms, whose cost is nothing beside the products.
    assert math.isclose(
        without_attention, 6 * (model.parameters(LLAMA3_VOCABULARY) - 5120 * LLAMA3_VOCABULARY), rel_tol=1e-3
    )
    assert model.flops_per_token(LLAMA3_VOCABULARY, 4096) - without_attention == 6 * 64 * 5120 * 4096


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"kv_heads": 3}, "40 heads cannot share 3 kv_heads"),
        ({"hidden": 5121}, "not a multiple"),
        ({"layers": 0}, "layers is 0"),
        ({"hidden": 40}, "even width"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changed: dict[str, int], named: str) -> None:
    with pytest.raises(BadField, match=named):
        Llama(**(SIZES | changed))
