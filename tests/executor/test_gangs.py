"""Test steps on several hosts at once. One machine's cluster has nodes that pose as hosts of slices or GPUs."""

from __future__ import annotations

import functools
import json
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.hardware import gpu, tpu
from marin import BatchSchedule, Context, Directory, ExecutorStep, Host, Mixture, Resources, Stages, Tokens, execution
from marin.errors import PlanError
from marin.executor.run_results import Event, Run
from marin.executor.scheduler import Scheduler
from marin.training.hanging import FEWEST
from marin.training.metrics import TIMINGS, read_metrics
from marin.training.optimizer import Adam
from marin.training.schedule import Schedule
from operators.on_hosts import with_all_chips
from operators.train import Train
from tests.support.clusters import free_ports
from tests.support.project import wait_for
from tests.support.toy import Blob, planned, run
from tests.support.waiting import is_gone, wait_until
from tests.training.runs import LLAMA, QWEN3, SEQ_LEN, VOCABULARY, random_checkpoint
from tests.training.test_several_chips import LENGTH, answers, must_agree

pytestmark = pytest.mark.slow

MEMORY = {"object_store_memory": 80 << 20}
# Chips are hard to come by: each host has two, made of its CPU. By default they end their process after 40 s of
# waiting for another host. On a busy machine a step takes seconds, so the hang detection needs more time than that.
XLA_FLAGS = "--xla_force_host_platform_device_count=2 --xla_cpu_collective_call_terminate_timeout_seconds=600"
H100 = {"accelerator_type:H100": 1}  # Ray's name for a detected H100


class SlicedCluster:
    """One slice v4-16 of two hosts, and two slices v4-8 of one host each. The single hosts also have eight H100."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 2, "include_dashboard": False, "dashboard_port": free_ports(1)[0], **MEMORY}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        # The nodes start side by side: each takes seconds.
        self.wide = [self._add("wide", "v4-16", worker) for worker in range(2)]
        gpus = {"num_gpus": 8}
        self.small = [self._add(name, "v4-8", 0, H100, **gpus) for name in ("small-a", "small-b")]
        self.cluster.wait_for_nodes(120)
        self.address: str = self.cluster.address  # pyright: ignore[reportAttributeAccessIssue]

    def _add(self, name: str, kind: str, worker: int, more: dict[str, int] | None = None, **given: Any) -> Any:
        head = {f"TPU-{kind}-head": 1} if not worker else {}
        labels = {"ray.io/tpu-slice-name": name, "ray.io/tpu-worker-id": str(worker), "ray.io/tpu-pod-type": kind}
        return self.cluster.add_node(
            wait=False,
            num_cpus=2,
            resources={"TPU": 4, name: 1, **head, **(more or {})},
            labels=labels,
            **MEMORY,
            **given,
        )


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlicedCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("XLA_FLAGS", XLA_FLAGS)
        made = SlicedCluster()
        patch.delenv("XLA_FLAGS")
        yield made
        made.cluster.shutdown()


def run_on(address: str, prefix: str, **results: ExecutorStep[Any]) -> tuple[Run, list[tuple[str, str]]]:
    """Return the run, and the errors of the steps that were retried."""
    from marin.executor.backends.ray import RayBackend

    told: list[tuple[str, str]] = []

    def listen(event: Event, result: Any) -> None:
        if event in (Event.PREEMPTED, Event.RETRIED):
            told.append((event.value, result.error))

    return Scheduler(planned(prefix, **results), RayBackend(address), listen).execute(), told


class Meet(ExecutorStep[Blob], op="toy-meet"):
    """A step whose hosts each report their presence. dies: how often the last host is killed before its report."""

    called: str
    journal: str = execution(default="")
    dies: int = execution(default=0)

    def run(self, ctx: Context) -> Blob:
        folder, dies = Path(self.journal), self.dies

        def lead(host: Host) -> int:
            stopped: list[bool] = []
            host.on_stop(lambda: stopped.append(True))
            (folder / "lead").write_text("here")
            while (not stopped and not (folder / "go").exists()) or len(list(folder.glob("there-*"))) < host.count - 1:
                if stopped:
                    raise ValueError("the connection was closed by another host")
                time.sleep(0.02)
            return host.count

        def follow(host: Host) -> None:
            import ray

            wait_for(folder / "lead")
            deaths = folder / "deaths"
            before = len(deaths.read_text()) if deaths.exists() else 0
            if before < dies:
                with deaths.open("a") as handle:
                    handle.write("x")
                os.kill(os.getpid(), signal.SIGKILL)
            node = ray.get_runtime_context().get_node_id()
            gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
            (folder / f"process-{host.number}").write_text(str(os.getpid()))
            (folder / f"there-{host.number}").write_text(f"{node} {host.meeting} {sorted(host.environment)} {gpus}")
            wait_for(folder / "go")

        count = ctx.on_hosts(lead, follow)
        ctx.out.write_text("text.txt", str(ctx.accelerator))
        return Blob(bytes=count)


def meeting(folder: Path, called: str, resources: Resources, *, waits: bool = False, **fields: Any) -> Meet:
    journal = folder / called
    journal.mkdir()
    if not waits:
        (journal / "go").touch()
    return Meet(called=called, label=called, journal=str(journal), resources=resources, **fields)


def met(done: Run, step: ExecutorStep[Any]) -> tuple[int, str]:
    """Return the number of hosts and their accelerator."""
    record = done.results[step].record
    assert record is not None, done.results[step].error
    return record.facts["bytes"], (Path(done.plan.store.prefix) / record.attempt / "text.txt").read_text()


def test_all_hosts_of_one_and_of_several_slices_work_together(cluster: SlicedCluster, tmp_path: Path) -> None:
    one = meeting(tmp_path, "one", tpu("v4-16"), dies=1)
    two = meeting(tmp_path, "two", tpu("v4-8", slices=2))
    other = meeting(tmp_path, "other", tpu("v4-2048") | tpu("v4-8"))  # the cluster has only the second
    gpus = meeting(tmp_path, "gpus", gpu("h100", count=16))
    done, told = run_on(cluster.address, str(tmp_path / "store"), one=one, two=two, other=other, gpus=gpus)
    assert met(done, gpus) == (2, "h100")
    assert met(done, one) == (2, "v4-16")
    assert met(done, two) == (2, "2 × v4-8")
    assert met(done, other) == (1, "v4-8")
    [(event, error)] = told
    assert event == "retried"
    assert "host 1 of 2: its worker died" in error
    node, address, _ = (tmp_path / "two/there-1").read_text().split(" ", 2)
    assert node in [each.node_id for each in cluster.small]
    assert address.partition(":")[0] == cluster.address.partition(":")[0]
    assert "MEGASCALE_SLICE_ID" in (tmp_path / "two/there-1").read_text()
    assert (tmp_path / "one/there-1").read_text().startswith(cluster.wide[1].node_id)
    follower = (tmp_path / "gpus/there-1").read_text().split()
    assert follower[0] in [each.node_id for each in cluster.small], "a process of each machine, with all its GPUs"
    assert follower[1].partition(":")[2], "where they meet"
    assert follower[2:] == ["[]", "0,1,2,3,4,5,6,7"]


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        (tpu("v4-32"), "asks for v4-32 (4 hosts), each host with 1 CPU, 4 TPU; the cluster's 5 node(s) have 1 × v4-16"),
        (tpu("v4-16", slices=2) | tpu("v5p-8"), "asks for 2 × v4-16 (4 hosts) or v5p-8 (1 host), each host"),
        (gpu("h100", count=24), "asks for h100 (3 hosts), each host with 1 CPU, 8 GPU; the cluster's 5 node(s) have"),
        (gpu("h200", count=8), "(of 1 and 1 hosts), 16 GPU (H100). Ask for an accelerator that it has"),
        (replace(tpu("v4-16"), cpus=64), "asks for v4-16 (2 hosts), each host with 64 CPU, 4 TPU; the cluster's"),
    ],
)  # fmt: skip
def test_what_the_cluster_does_not_have_is_refused_before_anything_runs(
    cluster: SlicedCluster, tmp_path: Path, resources: Resources, said: str
) -> None:
    with pytest.raises(PlanError) as refused:
        run_on(cluster.address, str(tmp_path / "store"), end=meeting(tmp_path, "none", resources))
    assert said in str(refused.value)


class Numbers(ExecutorStep[Tokens], op="toy-numbers-for-gangs"):
    def run(self, ctx: Context) -> Tokens:
        from marin.data.token_store import write_token_store

        texts = [(start + np.arange(20)) % (VOCABULARY - 1) + 1 for start in range(200)]
        made = write_token_store(ctx.out, texts, vocabulary=VOCABULARY, tokenizer="counting", eos=0)
        return Tokens(tokens=made.tokens, documents=made.documents, vocabulary=VOCABULARY, tokenizer="counting")


END = 36
TRAIN = Train(
    label="run", model=LLAMA, vocabulary=VOCABULARY, optimizer=Adam(peak_lr=1e-2), schedule=Schedule(warmup=1),
    data=Stages({0: Mixture({Numbers(label="numbers"): 1.0})}), batch=BatchSchedule({0: 8}), seq_len=SEQ_LEN, seed=0,
    block=16, end_step=END, checkpoint_every=6, checkpoint_minutes=None, max_epochs=1e6, hang_minutes=0.1, tensor=2,
)  # fmt: skip


def rows(done: Run) -> list[dict[str, Any]]:
    [result] = [result for step, result in done.results.items() if isinstance(step, Train)]
    assert result.record is not None, result.error
    output = Directory(f"{done.plan.store.prefix}/{result.record.attempt}")
    return [{name: held for name, held in row.items() if name not in TIMINGS} for row in read_metrics(output)]


class Disturbed(threading.Thread):
    """A thread that sends signals to the second process of a run, each to a new process that has made a few steps."""

    def __init__(self, prefix: Path, troubles: list[signal.Signals]) -> None:
        super().__init__(daemon=True)
        self.prefix, self.troubles = prefix, troubles

    def run(self) -> None:
        process = 0
        for number in self.troubles:
            process = self.at_work(process)
            os.kill(process, number)

    def at_work(self, not_this: int) -> int:
        """Return the id of the process once it has made enough steps for the hang detection to notice a later halt."""
        seen = None
        while True:
            time.sleep(0.02)
            said = "".join(path.read_text() for path in self.prefix.rglob("training-1.lock"))
            if said not in ("", str(not_this)):
                seen = seen or time.time()
                if self.steps_since(seen) > FEWEST + 1:
                    return int(said)

    def steps_since(self, moment: float) -> int:
        texts = [path.read_text() for path in self.prefix.glob(".marin/state/*/metrics.jsonl")]
        lines = [line for text in texts for line in text[: text.rfind("\n") + 1].splitlines()]
        return sum(json.loads(line)["time"] > moment for line in lines)


@pytest.fixture(scope="module")
def undisturbed(cluster: SlicedCluster, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the metrics that a training on two slices has written, step by step."""
    prefix = str(tmp_path_factory.mktemp("slices"))
    done, told = run_on(cluster.address, prefix, run=replace(TRAIN, resources=tpu("v4-8", slices=2)))
    assert told == []
    return rows(done)


@pytest.mark.timeout(1800)  # on a machine under load
def test_a_training_on_slices_is_that_of_one_process(undisturbed: list[dict[str, Any]], tmp_path: Path) -> None:
    alone = rows(run(str(tmp_path / "alone"), run=TRAIN))
    assert [row["step"] for row in alone] == list(range(END))
    np.testing.assert_allclose([row["loss"] for row in undisturbed], [row["loss"] for row in alone], rtol=2e-5)


@pytest.mark.timeout(1800)
def test_a_training_on_a_slice_is_the_same_whatever_happens_to_its_hosts(
    cluster: SlicedCluster, undisturbed: list[dict[str, Any]], tmp_path: Path
) -> None:
    disturbed = Disturbed(tmp_path / "slice", [signal.SIGTERM, signal.SIGKILL, signal.SIGSTOP])
    disturbed.start()
    slice_, told = run_on(cluster.address, str(tmp_path / "slice"), run=replace(TRAIN, resources=tpu("v4-16")))

    assert rows(slice_) == undisturbed
    assert [event for event, _ in told] == ["preempted", "retried", "retried"]
    assert f"of {END}, saved: the next run goes on there" in told[0][1]
    assert "host 1 of 2: the training process was killed by signal 9" in told[1][1]
    assert "training-1.log" in told[1][1]
    assert "it stood still: no step for" in told[2][1]


class Asked(ExecutorStep[Blob], op="toy-asked-on-hosts"):
    """A step that asks a checkpoint in the way of evaluations."""

    checkpoint: str

    def run(self, ctx: Context) -> Blob:
        said: list[int] = []
        found = with_all_chips(ctx, functools.partial(ask, self.checkpoint), lambda _, devices: said.append(devices))
        ctx.out.write_bytes("answers", pickle.dumps((said, found)))
        return Blob(bytes=0)


def ask(checkpoint: str, tell: Any) -> Any:
    import jax

    tell("asked", devices=jax.device_count())
    return answers(Directory(checkpoint))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(1800)
def test_a_checkpoint_on_all_chips_of_a_slice_says_what_it_says_on_one(cluster: SlicedCluster, tmp_path: Path) -> None:
    where = Directory(str(tmp_path / "checkpoint"))
    random_checkpoint(where, replace(QWEN3, seq_len=LENGTH), VOCABULARY, seed=1)
    step = Asked(checkpoint=str(where.path), resources=tpu("v4-16"))
    done, told = run_on(cluster.address, str(tmp_path / "store"), end=step)
    record = done.results[step].record
    assert record is not None, done.results[step].error
    assert told == []
    devices, found = pickle.loads((tmp_path / "store" / record.attempt / "answers").read_bytes())
    assert devices == [4]
    must_agree(found, answers(where))


def test_a_machine_that_is_taken_away_counts_as_no_failure_and_another_slice_will_do(
    cluster: SlicedCluster, tmp_path: Path
) -> None:
    step = meeting(tmp_path, "taken", tpu("v4-16") | tpu("v4-8", slices=2), waits=True)

    def take_away() -> None:
        wait_for(tmp_path / "taken/there-1")
        process = int((tmp_path / "taken/process-1").read_text())
        cluster.cluster.remove_node(cluster.wide[1], allow_graceful=False)
        wait_until(lambda: is_gone(process))  # the node's process may have run until then
        (tmp_path / "taken/go").touch()

    thread = threading.Thread(target=take_away)
    thread.start()
    done, told = run_on(cluster.address, str(tmp_path / "store"), end=step)
    thread.join()
    assert [event for event, _ in told] == ["preempted"], done.results[step].error
    assert met(done, step) == (2, "2 × v4-8")
