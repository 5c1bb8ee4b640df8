from dataclasses import replace

import pytest

from infra.hardware import TPUS, gpu, tpu
from marin import Resources
from marin.errors import BadField


@pytest.mark.parametrize(
    ("name", "chips", "hosts", "peak"),
    [
        ("v4-8", 4, 1, 275e12),
        ("v4-16", 8, 2, 275e12),
        ("v4-2048", 1024, 256, 275e12),
        ("v4-8192", 4096, 1024, 275e12),
        ("v5litepod-1", 1, 1, 197e12),
        ("v5litepod-8", 8, 1, 197e12),
        ("v5litepod-256", 256, 64, 197e12),
        ("v5p-8", 4, 1, 459e12),
        ("v5p-512", 256, 64, 459e12),
        ("v5p-12288", 6144, 1536, 459e12),
        ("v6e-4", 4, 1, 918e12),
        ("v6e-8", 8, 1, 918e12),
        ("v6e-16", 16, 4, 918e12),
        ("v6e-256", 256, 64, 918e12),
    ],
)
def test_tpu_slices(name, chips, hosts, peak):
    found = tpu(name).accelerator
    assert found is not None
    assert (found.name, found.chips, found.hosts, found.peak_flops) == (name, chips, hosts, peak)


def test_v5e_is_the_provider_s_v5litepod():
    assert tpu("v5e-128") == tpu("v5litepod-128")


def test_every_slice_of_the_table_can_be_asked_for():
    for name, generation in TPUS.items():
        for chips in generation.slices:
            found = tpu(f"{name}-{chips * generation.cores_per_chip}").accelerator
            assert found is not None
            assert found.chips == chips
            assert found.hosts * 4 == chips or (found.hosts == 1 and chips <= generation.single_host)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("v4-2047", r"count TensorCores, two a chip.*v4-1920 and v4-2048"),
        ("v4-4", r"nearest: v4-8$"),
        ("v4-16384", r"nearest: v4-8192$"),
        ("v5e-12", r"count chips.*v5e-8 and v5e-16"),
        ("v6e-2", r"v6e-1 and v6e-4"),
        ("v6e-512", r"nearest: v6e-256$"),
        ("v5p-7", r"nearest: v5p-8$"),
        ("v4", r"wanted a name like 'v4-2048'"),
        ("v42048", r"did you mean 'v4-2048'"),
        ("V4-2048", r"did you mean 'v4-2048'"),
        ("v4_2048", r"did you mean 'v4-2048'"),
        ("v5-256", r"did you mean 'v5[ep]-256'"),
        ("tpu-v4-2048", r"did you mean 'v4-2048'"),
        ("", r"known: v4, v5e, v5p, v6e"),
        ("h100", r"no such TPU slice"),
        ("v4--8", r"did you mean 'v4-8'"),
        ("v4-2048 ", r"did you mean 'v4-2048'"),
    ],
)
def test_no_such_slice(name, said):
    with pytest.raises(BadField, match=said):
        tpu(name)


@pytest.mark.parametrize(("count", "hosts"), [(1, 1), (3, 1), (8, 1), (16, 2), (512, 64)])
def test_gpus(count, hosts):
    found = gpu("h100", count=count).accelerator
    assert found is not None
    assert (found.name, found.chips, found.hosts, found.peak_flops) == ("h100", count, hosts, 989e12)


@pytest.mark.parametrize(
    ("name", "count", "said"),
    [
        ("h100", 0, "1 to 8"),
        ("h100", -8, "1 to 8"),
        ("h100", 12, "multiple of 8"),
        ("H100", 8, "did you mean 'h100'"),
        ("a100", 8, "did you mean 'h100'"),
        ("tpu", 8, "known: h100, h200"),
    ],
)
def test_no_such_gpus(name, count, said):
    with pytest.raises(BadField, match=said):
        gpu(name, count=count)


def test_hardware_may_say_where_it_is() -> None:
    assert tpu("v4-8", region="gcp/us-central2").region == "gcp/us-central2"
    assert gpu("h100", count=8, region="aws/us-east-1").region == "aws/us-east-1"
    with pytest.raises(BadField, match="is not a region"):
        tpu("v4-8", region="us-central2")


def test_another_will_do() -> None:
    either = replace(tpu("v5p-512"), cpus=8) | replace(tpu("v4-2048"), cpus=8) | replace(tpu("v4-8", slices=4), cpus=8)
    assert list(map(str, either.accelerators)) == ["v5p-512", "v4-2048", "4 × v4-8"]
    assert either.cpus == 8
    with pytest.raises(BadField, match=r"v5p-512 \| v4-8: they differ in cpus, memory_gib or region"):
        tpu("v5p-512", region="gcp/us-east5") | tpu("v4-8", region="gcp/us-central2")
    with pytest.raises(BadField, match="only accelerators can stand in for each other"):
        tpu("v4-8") | Resources()
