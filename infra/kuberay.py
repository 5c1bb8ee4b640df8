"""Clusters for KubeRay on GKE, for ``kubectl apply``: a RayCluster, or a RayJob with a cluster of its own.

A slice of several hosts is one replica of ``numOfHosts`` pods; GKE's webhook gives each pod its place in the slice.
A definition names secrets and never holds one: KubeRay makes the cluster's token, and variables such as HF_TOKEN come
from a Secret.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from infra.slices import Slice

RAY = "2.60.0"  # as in pyproject.toml
KEPT_SECONDS = 3600  # a job's cluster stays this long after the job, for its logs
SAVE_SECONDS = 25  # to save, of the 30 seconds that a machine commonly gets
RESTARTS = 3  # of a job's driver, each with a new cluster; the driver reuses the committed outputs
PORTS = {"gcs-server": 6379, "dashboard": 8265, "client": 10001}


def ray_cluster(name: str, image: str, slices: Sequence[tuple[Slice, int]], *, cpu_hosts: int, secret: str) -> Manifest:
    """Return a RayCluster.

    slices: each kind with its number. cpu_hosts: the number of machines without accelerators. The cluster starts with
    all machines, because a run refuses a step that no machine of its cluster can take. secret: the name of the Secret
    whose entries become environment variables of every pod.
    """
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/name": "kuberay"}},
        "spec": _cluster(image, slices, cpu_hosts, secret),
    }


def ray_job(
    name: str,
    image: str,
    slices: Sequence[tuple[Slice, int]],
    command: Sequence[str],
    *,
    cpu_hosts: int,
    secret: str,
) -> Manifest:
    """Return a driver with its own cluster, which stays ``KEPT_SECONDS`` longer than the driver.

    command: the command to run in the image; the image must hold the experiment."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": shlex.join(command),
            "backoffLimit": RESTARTS,
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "rayClusterSpec": _cluster(image, slices, cpu_hosts, secret),
        },
    }


type Manifest = dict[str, Any]


def _cluster(image: str, slices: Sequence[tuple[Slice, int]], cpu_hosts: int, secret: str) -> Manifest:
    head = _container("ray-head", image, secret, cpus=8, memory_gib=32)
    head["ports"] = [{"name": port, "containerPort": number} for port, number in PORTS.items()]
    groups = [_slice_group(each, count, image, secret) for each, count in slices]
    if cpu_hosts:
        pod = {"containers": [_container("ray-worker", image, secret, cpus=30, memory_gib=110)]}
        groups.append(_group("cpu", cpu_hosts, 1, pod))
    return {
        "rayVersion": RAY,
        "authOptions": {"mode": "token"},
        "headGroupSpec": {
            "rayStartParams": {
                "dashboard-host": "0.0.0.0",
                "num-cpus": "2",
            },  # a Service inside the cluster connects to it
            "template": {"spec": {"containers": [head]}},
        },
        "workerGroupSpecs": groups,
    }


def _slice_group(one: Slice, count: int, image: str, secret: str) -> Manifest:
    container = _container("ray-worker", image, secret, cpus=one.cpus, memory_gib=one.memory_gib)
    for amounts in container["resources"].values():
        amounts["google.com/tpu"] = str(one.chips_per_host)
    # A node that is drained or taken away ends its pods. The hook warns a training first, so that all its hosts save.
    stop = f"pkill -TERM -f 'marin[.]training[.]main' && sleep {SAVE_SECONDS}"  # [.] keeps pkill from matching itself
    container["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", stop]}}}
    pod = {
        "containers": [container],
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": one.host.accelerator,
            "cloud.google.com/gke-tpu-topology": one.topology,
        },
        "terminationGracePeriodSeconds": SAVE_SECONDS + 5,
    }
    return _group(one.name, count, one.hosts, pod)


def _group(name: str, count: int, hosts: int, pod: Manifest) -> Manifest:
    return {
        "groupName": name,
        "replicas": count,
        "minReplicas": count,
        "maxReplicas": count,
        "numOfHosts": hosts,
        "rayStartParams": {},
        "template": {"spec": pod},
    }


def _container(name: str, image: str, secret: str, *, cpus: int, memory_gib: int) -> Manifest:
    amounts: Mapping[str, str] = {"cpu": str(cpus), "memory": f"{memory_gib}Gi"}
    return {
        "name": name,
        "image": image,
        "envFrom": [{"secretRef": {"name": secret, "optional": True}}],
        "resources": {"limits": dict(amounts), "requests": dict(amounts)},
    }
