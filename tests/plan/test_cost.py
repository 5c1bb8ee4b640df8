import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.hardware import tpu
from marin.errors import BadField
from marin.steps.resources import MFU, training_cost
from marin.store.numbers import write_chip_hours, write_flops, write_tokens

V4_2048 = tpu("v4-2048").accelerator
assert V4_2048 is not None


def test_a_known_run():
    """Test 32e9 parameters and 1.074e12 tokens. By hand: 6 N D / (0.4 · 275e12 · 3600)."""
    flops = 6 * 32e9 * 1.074e12
    assert training_cost(flops, V4_2048) == pytest.approx(520_727, rel=1e-5)
    assert training_cost(flops, V4_2048, mfu=0.20) == pytest.approx(2 * training_cost(flops, V4_2048, mfu=MFU))


@given(st.floats(0, 1e30), st.floats(0.01, 1))
def test_chip_hours_do_not_depend_on_the_slice_s_size(flops, mfu):
    small = tpu("v4-8").accelerator
    assert small is not None
    assert training_cost(flops, small, mfu) == training_cost(flops, V4_2048, mfu)


@pytest.mark.parametrize("mfu", [0, -0.4, 1.01, 40, float("nan")])
def test_senseless_mfu(mfu):
    with pytest.raises(BadField, match="mfu is"):
        training_cost(1e20, V4_2048, mfu)


@pytest.mark.parametrize("flops", [-1, float("nan")])
def test_senseless_flops(flops):
    with pytest.raises(BadField, match="flops is"):
        training_cost(flops, V4_2048)


@pytest.mark.parametrize(
    ("tokens", "written"),
    [
        (0, "0 tokens"),
        (1, "1 token"),
        (532, "532 tokens"),
        (1000, "1K tokens"),
        (12_582_912, "12.58M tokens"),
        (999_960, "1M tokens"),
        (2.5e9, "2.5B tokens"),
        (1.0737e12, "1.074T tokens"),
        (12.75e12, "12.75T tokens"),
        (2e16, "20,000T tokens"),
    ],
)
def test_tokens_for_people(tokens, written):
    assert write_tokens(tokens) == written


@given(st.floats(1, 1e15))
def test_written_tokens_read_back(tokens):
    number = write_tokens(tokens).split()[0].replace(",", "")
    scale = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}.get(number[-1], 1)
    assert float(number.rstrip("KMBT")) * scale == pytest.approx(tokens, rel=6e-4)


def test_flops_and_chip_hours_for_people():
    assert write_flops(6 * 32e9 * 1.0737e12) == "2.062e23 FLOPs"
    assert write_flops(0) == "0.000e0 FLOPs"
    assert [write_chip_hours(h) for h in (0, 3.21, 99.94, 99.96, 520_727.3)] == [
        "0.0 chip-hours",
        "3.2 chip-hours",
        "99.9 chip-hours",
        "100 chip-hours",
        "520,727 chip-hours",
    ]
