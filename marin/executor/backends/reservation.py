"""Reserve all hosts of an accelerator together for one attempt, by placement groups of Ray.

One group first reserves the first hosts of all slices. The first host of a slice stands for the slice, so
two drivers never hold some slices each and wait for the others. A second group then reserves the other
hosts of those slices, in the order of their wiring.
"""

# pyright: basic

from __future__ import annotations

import logging
import time
import uuid
from contextlib import suppress
from typing import Any

from marin.executor.backends.gang import Gang, is_there
from marin.executor.backends.requests import SLICE, WORKER, has, head, on_each_host, task_options, whole_slices
from marin.executor.job import Job

logger = logging.getLogger(__name__)
BUSY_SECONDS = 120.0  # for others to release an accelerator, before the next acceptable one is tried
ABSENT_SECONDS = 5.0  # between two looks for machines that were taken away


class Reservation:
    """A reservation that tries the accelerators that a job's step accepts, in turn. The cluster has at least one."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._next = 0
        self._next_look = 0.0
        self._groups: list[Any] = []
        self._try_next()

    def gang(self) -> Gang | None:
        """Return the hosts once all are reserved. Cheap: ask often."""
        with suppress(KeyError):  # a reserved node is already gone; try again when patience is over
            if self._groups and is_there(self._groups[-1]):
                if sum(len(group.bundle_specs) for group in self._groups) == self._accelerator.hosts:
                    return self._gang()
                self._reserve_rest()
        if time.monotonic() > self._patience or self._is_gone():
            self._try_next()
        return None

    def release(self) -> None:
        """Release everything. Processes that still run there are killed."""
        import ray
        from ray.util.placement_group import remove_placement_group

        for group in self._groups:
            if ray.is_initialized():
                with suppress(Exception):  # the cluster is gone, with everything on it
                    remove_placement_group(group)
        self._groups = []

    def _try_next(self) -> None:
        """Try the next accelerator that the cluster has now: machines come and go."""
        import ray

        self.release()
        resources, nodes = self.job.step.resources, ray.nodes()
        choices = resources.accelerators
        in_turn = [choices[(self._next + more) % len(choices)] for more in range(len(choices))]
        there = next((each for each in in_turn if has(nodes, resources, each)), None)
        self._patience = time.monotonic() + (ABSENT_SECONDS if there is None else BUSY_SECONDS)
        if there is None:
            return
        self._accelerator, self._next = there, choices.index(there) + 1
        self._each = on_each_host(resources, there)
        if not there.is_tpu:
            self._reserve([self._each] * there.hosts)
        elif there.slice_hosts == 1:
            self._reserve([{**self._each, head(there): 1}] * there.slices)
        else:
            whole = ",".join(whole_slices(nodes, resources, there))
            self._reserve([{**self._each, head(there): 1}] * there.slices, [{SLICE: f"in({whole})"}] * there.slices)
        logger.debug("%s waits for %s", self.job.step.name, there)

    def _is_gone(self) -> bool:
        """Return whether a machine has died. The cluster takes seconds to see that, so this looks now and then."""
        import ray

        if not self._groups or time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + ABSENT_SECONDS
        return not has(ray.nodes(), self.job.step.resources, self._accelerator)

    def _reserve(self, bundles: list[dict[str, float]], labels: list[dict[str, str]] | None = None) -> None:
        from ray.util.placement_group import placement_group

        more: dict[str, Any] = {} if labels is None else {"bundle_label_selector": labels}
        bundles = [{name: amount for name, amount in bundle.items() if amount} for bundle in bundles]
        name = f"{self.job.step.name} {uuid.uuid4().hex[:8]}"  # names must be unique
        self._groups.append(placement_group(bundles, strategy="STRICT_SPREAD", name=name, **more))

    def _reserve_rest(self) -> None:
        names = [node["Labels"][SLICE] for node in self._nodes(self._groups[0])]
        labels = [{SLICE: name, WORKER: str(at)} for name in names for at in range(1, self._accelerator.slice_hosts)]
        self._reserve([self._each] * len(labels), labels)

    def _gang(self) -> Gang:
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        accelerator, first = self._accelerator, self._groups[0]
        rest = iter(range(accelerator.hosts - len(first.bundle_specs)))
        places: list[PlacementGroupSchedulingStrategy] = []
        for bundle in range(len(first.bundle_specs)):
            places.append(PlacementGroupSchedulingStrategy(first, bundle))
            if len(self._groups) > 1:
                others = range(accelerator.slice_hosts - 1)
                places += [PlacementGroupSchedulingStrategy(self._groups[1], next(rest)) for _ in others]
        return Gang(
            name=self.job.step.name,
            accelerator=accelerator,
            address=self._nodes(first)[0]["NodeManagerAddress"],
            places=tuple(places),
            options=task_options(self._each),
        )

    def _nodes(self, group: Any) -> list[dict[str, Any]]:
        """Return the nodes of the group's bundles, in order."""
        import ray
        from ray.util.placement_group import placement_group_table

        where = placement_group_table(group)["bundles_to_node_id"]
        nodes = {node["NodeID"]: node for node in ray.nodes()}
        return [nodes[where[bundle]] for bundle in sorted(where)]
