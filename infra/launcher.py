"""A cluster of GCP TPU VMs for Ray's cluster launcher (``marin cluster up FILE``).

Each node of a TPU type is one slice. Ray does not scale slices of several hosts on demand, as its documentation says,
so the cluster starts with all slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infra.slices import Slice

# The token of the user who starts the cluster. Ray copies it to every machine; the definition only names the path.
TOKEN = "~/.ray/auth_token"
HEAD_IMAGE = "projects/deeplearning-platform-release/global/images/family/common-cpu"
START = "ulimit -n 65536; RAY_AUTH_MODE=token ray start --disable-usage-stats"
HEAD = f"{START} --head --port=6379 --dashboard-host=127.0.0.1 --autoscaling-config=~/ray_bootstrap_config.yaml"


def gcp_cluster(
    name: str,
    image: str,
    slices: Sequence[tuple[Slice, int]],
    *,
    project: str,
    zone: str,
    spot: bool,
) -> dict[str, Any]:
    """Return a cluster definition.

    slices: each kind with its number. image: a container image that every machine can pull. spot: use cheaper machines
    that may be taken away.
    """
    types: dict[str, Any] = {
        "head": {
            "resources": {"CPU": 8},
            "node_config": {
                "machineType": "n2-standard-8",
                "disks": [
                    {
                        "boot": True,
                        "autoDelete": True,
                        "type": "PERSISTENT",
                        "initializeParams": {"diskSizeGb": 100, "sourceImage": HEAD_IMAGE},
                    }
                ],
            },
        }
    }
    for one, count in slices:
        config: dict[str, Any] = {"acceleratorType": one.name, "runtimeVersion": one.host.runtime}
        if spot:
            config["schedulingConfig"] = {"preemptible": True}
        types[one.name] = {
            "resources": {"CPU": one.cpus, "TPU": one.chips_per_host},
            "min_workers": count,
            "max_workers": count,
            "node_config": config,
        }
    return {
        "cluster_name": name,
        "max_workers": sum(count for _, count in slices),
        "provider": {
            "type": "gcp",
            "project_id": project,
            "region": zone.rpartition("-")[0],
            "availability_zone": zone,
        },
        "auth": {"ssh_user": "ubuntu"},
        "docker": {
            "image": image,
            "container_name": "marin",
            "run_options": [
                "--privileged",
                "--ulimit nofile=65536:65536",
                "--shm-size=16gb",
            ],  # for the TPU's device files
        },
        "file_mounts": {TOKEN: TOKEN},
        "head_node_type": "head",
        "available_node_types": types,
        "head_start_ray_commands": ["ray stop", HEAD],
        "worker_start_ray_commands": ["ray stop", f"{START} --address=$RAY_HEAD_IP:6379"],
    }
