"""Test the definitions of clusters, made from the hardware table, against Ray's own schema.

KubeRay's schema is in no package. REQUIRED and KNOWN hold the fields that it requires and knows, as far as these
definitions use them. They come from its resource definitions of August 2026. All definitions passed these once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import resources
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner, Result

import marin.training.main
from infra.__main__ import main
from infra.hardware import TPUS, tpu
from infra.kuberay import RAY
from infra.slices import slice_called
from marin.cli.exits import Exit
from tests.support.project import ROOT

EVERY = [
    f"{generation.prefix}-{chips * generation.cores_per_chip}"
    for generation in TPUS.values()
    for chips in generation.slices
]
REQUIRED = {
    "cluster": {"headGroupSpec"},
    "headGroupSpec": {"template"},
    "workerGroupSpecs": {"groupName", "maxReplicas", "minReplicas", "template"},
}
KNOWN = {
    "cluster": {"rayVersion", "authOptions", "headGroupSpec", "workerGroupSpecs"},
    "headGroupSpec": {"rayStartParams", "template"},
    "workerGroupSpecs": {
        *("groupName", "replicas", "minReplicas", "maxReplicas", "numOfHosts", "rayStartParams", "template"),
    },
    "job": {"entrypoint", "backoffLimit", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "rayClusterSpec"},
}
KUBE = ("kuberay", "--image", "registry.example/marin:1")


def asked(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def printed(*arguments: str) -> dict[str, Any]:
    done = asked(*arguments)
    assert done.exit_code == 0, done.output
    return yaml.safe_load(done.stdout)


@pytest.mark.parametrize("name", EVERY)
def test_every_slice_has_a_shape_of_its_chips_and_machines_for_its_hosts(name: str) -> None:
    one, accelerator = slice_called(name), tpu(name).accelerator
    assert accelerator is not None
    sides = [int(side) for side in one.topology.split("x")]
    chips = 1
    for side in sides:
        chips *= side
    assert chips == one.chips == accelerator.chips
    assert one.chips_per_host * one.hosts == chips
    assert one.machine.endswith(f"-{one.chips_per_host}t")


@pytest.mark.parametrize(
    ("name", "topology"),
    [("v4-8", "2x2x1"), ("v4-2048", "8x8x16"), ("v5p-512", "4x8x8"), ("v5litepod-8", "2x4"), ("v6e-256", "16x16")],
)
def test_shapes_are_the_providers(name: str, topology: str) -> None:
    assert slice_called(name).topology == topology


def test_ray_takes_what_is_written_for_its_launcher() -> None:
    schema = json.loads(resources.files("ray").joinpath("autoscaler/ray-schema.json").read_text())
    slices = ("--slice", "v4-8", "--slice", "v5p-512*4")
    made = printed(
        "gcp", *slices, "--project", "lab", "--zone", "us-east5-a", "--spot", "--image", "registry.example/m:1"
    )
    jsonschema.validate(made, schema)
    assert made["max_workers"] == 5
    types = made["available_node_types"]
    assert types["v5p-512"]["min_workers"] == 4
    assert types["v5p-512"]["node_config"] == {
        "acceleratorType": "v5p-512",
        "runtimeVersion": "v2-alpha-tpuv5",
        "schedulingConfig": {"preemptible": True},
    }
    assert made["head_node_type"] in types
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**made, "available_node_type": {}}, schema)


def test_kuberay_takes_a_cluster_of_slices() -> None:
    made = printed(*KUBE, "--slice", "v4-2048", "--slice", "v6e-8*2", "--cpu-hosts", "3", "--secret", "tokens")
    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("ray.io/v1", "RayCluster", "marin")
    must_be_known(made["spec"])
    said = asked(*KUBE, "--slice", "v4-2048").stdout
    assert said.startswith("# 1 node pool(s) of GKE: 256 × ct4p-hightpu-4t, topology 8x8x16\n")
    v4, v6e, cpu = made["spec"]["workerGroupSpecs"]
    assert (v4["groupName"], v4["replicas"], v4["numOfHosts"]) == ("v4-2048", 1, 256)
    pod = v4["template"]["spec"]
    assert pod["nodeSelector"] == {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
        "cloud.google.com/gke-tpu-topology": "8x8x16",
    }
    amounts = pod["containers"][0]["resources"]
    assert amounts["limits"] == amounts["requests"]
    assert amounts["limits"]["google.com/tpu"] == "4"
    # A pod that ends first signals its training, and neither itself nor Ray.
    *_, stop = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
    pattern = re.search(r"pkill -TERM -f '(\S+)' && sleep (\d+)", stop)
    assert pattern is not None
    assert int(pattern[2]) < pod["terminationGracePeriodSeconds"]
    assert re.search(pattern[1], " ".join(["python", "-m", marin.training.main.__name__, "spec.json"]))
    assert not re.search(pattern[1], stop)
    assert (v6e["replicas"], v6e["numOfHosts"]) == (2, 1)
    assert v6e["template"]["spec"]["containers"][0]["resources"]["limits"]["google.com/tpu"] == "8"
    assert (cpu["replicas"], cpu["numOfHosts"]) == (3, 1)
    assert "google.com/tpu" not in cpu["template"]["spec"]["containers"][0]["resources"]["limits"]


def test_kuberay_takes_a_job() -> None:
    run = ("python", "-m", "marin", "run", "exp1.py", "--because", "two words")
    made = printed("job", *KUBE[1:], "--slice", "v5p-8", "--", *run)
    assert made["kind"] == "RayJob"
    assert set(made["spec"]) == KNOWN["job"]
    assert made["spec"]["entrypoint"] == "python -m marin run exp1.py --because 'two words'"
    must_be_known(made["spec"]["rayClusterSpec"])


def must_be_known(cluster: dict[str, Any]) -> None:
    parts = [("cluster", cluster), ("headGroupSpec", cluster["headGroupSpec"])]
    parts += [("workerGroupSpecs", group) for group in cluster["workerGroupSpecs"]]
    for name, part in parts:
        assert REQUIRED[name] <= set(part) <= KNOWN[name], name
    for group in [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]:
        (container,) = group["template"]["spec"]["containers"]
        assert {"name", "image", "resources"} <= set(container)
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
        assert all(isinstance(value, str) for held in container["resources"].values() for value in held.values())


def leaves(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, held in value.items():
            yield from leaves(name)
            yield from leaves(held)
    elif isinstance(value, list):
        for held in value:
            yield from leaves(held)
    else:
        yield str(value)


def test_secrets_are_named_and_never_held(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "0123456789abcdef" * 4
    for name in ("RAY_AUTH_TOKEN", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.setenv(name, secret)
    made = [
        printed(*KUBE, "--slice", "v4-8"),
        printed("job", *KUBE[1:], "--slice", "v4-8", "--", "true"),
        printed("gcp", *KUBE[1:], "--slice", "v4-8", "--project", "lab", "--zone", "us-central2-b"),
    ]
    for each in made:
        assert secret not in set(leaves(each))
    assert made[0]["spec"]["authOptions"] == {"mode": "token"}
    starts = [*made[2]["head_start_ray_commands"][1:], *made[2]["worker_start_ray_commands"][1:]]
    assert all("RAY_AUTH_MODE=token" in command for command in starts)
    assert "RAY_AUTH_MODE=token" in asked("container").stdout


def test_versions_are_those_of_the_package() -> None:
    (pinned,) = re.findall(r'"ray\[default\]==([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    assert pinned == RAY


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--slice", "v4-9"), "nearest: v4-8 and v4-16"),
        (("--slice", "v5p-512*none"), "wanted a number after the *"),
        (("--slice", "v4-8", "--slice", "v4-8"), r"write v4-8*2"),
        (("--slice", "v4-8", "--name", "My Cluster"), "cannot name a cluster"),
    ],
)
def test_what_no_cluster_can_be_is_refused(arguments: tuple[str, ...], says: str) -> None:
    done = asked(*KUBE, *arguments)
    assert done.exit_code == Exit.EXPERIMENT
    assert says in done.output


def test_a_region_is_no_zone() -> None:
    done = asked("gcp", *KUBE[1:], "--slice", "v4-8", "--project", "lab", "--zone", "us-central2")
    assert done.exit_code == Exit.EXPERIMENT
    assert "wanted one such as us-central2-b" in done.output
