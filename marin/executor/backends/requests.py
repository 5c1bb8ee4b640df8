"""Translate a step's resources into Ray's terms, and find out whether a cluster has them."""

# pyright: basic

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from marin.errors import PlanError
from marin.steps.resources import ANY_GPU, Accelerator, Resources
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted

# Labels and resources that Ray itself gives to the hosts of a TPU slice.
SLICE, POD_TYPE, WORKER = "ray.io/tpu-slice-name", "ray.io/tpu-pod-type", "ray.io/tpu-worker-id"
TPU, GPU = "TPU", "GPU"
KIND = "accelerator_type:"  # of a GPU; a node with such GPUs has a resource of this name
OF_THAT_KIND = 0.001  # amount of a resource that only describes a node, so that any number of tasks fit

type Node = dict[str, Any]  # as ray.nodes() returns it


def head(accelerator: Accelerator) -> str:
    """Return the resource that the first host of each slice has."""
    return f"TPU-{accelerator.name}-head"


def on_each_host(resources: Resources, accelerator: Accelerator | None) -> dict[str, float]:
    """Return the amounts of resources that a step needs on each host, by name."""
    wanted: dict[str, float] = {"CPU": resources.cpus}
    if resources.memory_gib:
        wanted["memory"] = int(resources.memory_gib * 2**30)
    if accelerator is not None and accelerator.is_tpu:
        wanted[TPU] = accelerator.host_chips
    elif accelerator is not None:
        wanted[GPU] = accelerator.host_chips
        if accelerator.name != ANY_GPU:
            wanted[f"{KIND}{accelerator.name.upper()}"] = OF_THAT_KIND
    return wanted


def task_options(amounts: dict[str, float]) -> dict[str, Any]:
    """Return the amounts as the options of a task."""
    words = {"CPU": "num_cpus", GPU: "num_gpus", "memory": "memory"}
    options: dict[str, Any] = {word: amounts[name] for name, word in words.items() if name in amounts}
    return {**options, "resources": {name: amount for name, amount in amounts.items() if name not in words}}


def in_words(resources: Mapping[str, float]) -> str:
    """Return "4 CPU, 4 TPU, 16 GiB memory"."""
    named = ((amount, name) for name, amount in resources.items() if amount != OF_THAT_KIND and name != "memory")
    parts = [f"{amount:g} {name}" for amount, name in named]
    memory = [f"{resources['memory'] / 2**30:,.1f} GiB memory"] if "memory" in resources else []
    return ", ".join([*parts, *memory])


def wants(resources: Resources) -> str:
    """Return, for people, the resources that a step waits for."""
    if not resources.accelerators:
        return in_words(on_each_host(resources, None))
    return " or ".join(f"{each} ({counted(each.hosts, 'host')})" for each in resources.accelerators)


def has(nodes: Iterable[Node], resources: Resources, accelerator: Accelerator) -> bool:
    """Return whether these nodes, if all were free, have the accelerator."""
    wanted = on_each_host(resources, accelerator)
    able = [node for node in nodes if node["Alive"] and _gives(node["Resources"], wanted)]
    if not accelerator.is_tpu:
        return len(able) >= accelerator.hosts
    if accelerator.slice_hosts == 1:
        return sum(head(accelerator) in node["Resources"] for node in able) >= accelerator.slices
    return len(whole_slices(nodes, resources, accelerator)) >= accelerator.slices


def whole_slices(nodes: Iterable[Node], resources: Resources, accelerator: Accelerator) -> list[str]:
    """Return the names of slices of several hosts that are complete."""
    wanted = on_each_host(resources, accelerator)
    able = [node for node in nodes if node["Alive"] and _gives(node["Resources"], wanted)]
    hosts = Counter(_label(node, SLICE) for node in able if _label(node, POD_TYPE) == accelerator.name)
    heads = {_label(node, SLICE) for node in able if head(accelerator) in node["Resources"]}
    return sorted(name for name in heads if hosts[name] == accelerator.slice_hosts)


def must_be_had(steps: Iterable[ExecutorStep[Any]], nodes: Sequence[Node]) -> None:
    """Raise PlanError naming the first step that the cluster could never run."""
    alive = [node for node in nodes if node["Alive"]]
    available = [node["Resources"] for node in alive]
    for step in steps:
        resources = step.resources
        if accelerators := resources.accelerators:
            if not any(has(alive, resources, each) for each in accelerators):
                each_gives = in_words(on_each_host(resources, accelerators[0]))
                raise PlanError(
                    f"{step.name} asks for {wants(resources)}, each host with {each_gives}; the cluster's "
                    f"{len(alive)} node(s) have {_accelerators_of(alive)}. Ask for an accelerator that "
                    "it has (tpu(…) | tpu(…) allows either of two), or give the --address of another cluster"
                )
        elif not any(_gives(have, on_each_host(resources, None)) for have in available):
            wanted = on_each_host(resources, None)
            largest = {name: max((have.get(name, 0) for have in available), default=0) for name in wanted}
            raise PlanError(
                f"{step.name} asks one node for {in_words(wanted)}; the largest of {len(available)} node(s) has "
                f"{in_words(largest)}. Ask for less, or give --address of a cluster that has it"
            )


def _gives(have: dict[str, float], wanted: dict[str, float]) -> bool:
    return all(have.get(name, 0) >= amount for name, amount in wanted.items())


def _label(node: Node, name: str) -> str:
    return (node.get("Labels") or {}).get(name, "")


def _accelerators_of(nodes: Iterable[Node]) -> str:
    """Return "2 × v4-16 (of 2 and 1 hosts), 8 GPU (H100)"."""
    slices: dict[str, Counter[str]] = {}
    gpus: Counter[str] = Counter()
    for node in nodes:
        if count := node["Resources"].get(GPU):
            kinds = sorted(name.removeprefix(KIND) for name in node["Resources"] if name.startswith(KIND))
            gpus[", ".join(kinds)] += int(count)
        if (kind := _label(node, POD_TYPE)) and node["Resources"].get(TPU):
            slices.setdefault(kind, Counter())[_label(node, SLICE)] += 1
    said = [
        f"{len(hosts)} × {kind} (of {' and '.join(map(str, hosts.values()))} hosts)"
        for kind, hosts in sorted(slices.items())
    ]
    said += [f"{count} GPU ({kind or 'of no kind that Ray knows'})" for kind, count in sorted(gpus.items())]
    return ", ".join(said) or "no accelerator that Ray knows of"
