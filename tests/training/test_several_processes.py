"""Two processes of one run: one is told to stop, both stop at the same step, the checkpoint has the parts of both."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.spec import Process, Watched, to_json
from tests.support.clusters import free_ports
from tests.training.runs import PROMPTS, prompts_in, samples, small_spec

pytestmark = pytest.mark.slow

PROCESS = """
import json, sys, types
import jax
jax.config.update("jax_platforms", "cpu")
address, number, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jax.distributed.initialize(coordinator_address=address, num_processes=2, process_id=number)
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from marin.store.files.directory import Directory
from marin.training import checkpoint
from marin.training.agreement import Agreement, Request
from marin.training.saving import Saving
from tests.training.runs import LLAMA

told = []
saving = Saving(Directory(folder), (), lambda event, **facts: told.append([event, facts.get("step")]))
spread = NamedSharding(Mesh(jax.devices(), ("data",)), PartitionSpec("data"))
values = np.arange(8.0)
array = jax.make_array_from_callback((8,), spread, lambda at: values[at])
grow = jax.jit(lambda x: x + 1, donate_argnums=0)
agreement = Agreement(None if number else 1e-9 if len(sys.argv) > 4 else None)
print("ready", flush=True)
for step in range(1, 100_000):
    array = grow(array)
    wish = agreement.wish()
    if wish:
        state = types.SimpleNamespace(saveable_state={"model": array})
        facts = checkpoint.Facts(step=step, tokens=0, loss=None, model=LLAMA, vocabulary=64, averaged=False)
        saving.begin(state, facts, {})
        array = grow(array)  # what is saved may not change with it
    if wish is Request.STOP or step == 3 and len(sys.argv) > 4:
        break
saving.finish()
print(json.dumps([step, int(wish), told]), flush=True)
"""


def free_address() -> str:
    return f"localhost:{free_ports(1)[0]}"


def two_processes(folder: Path, *more: str) -> list[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROCESS, free_address()]
    return [
        subprocess.Popen([*command, str(number), str(folder), *more], stdout=subprocess.PIPE, text=True)
        for number in range(2)
    ]


def said(process: subprocess.Popen[str]) -> Any:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


def content(directory: Directory) -> np.ndarray:
    import tensorstore

    checkpoint.verify(directory)
    base = {"driver": "ocdbt", "base": f"file://{directory.path}/", "path": "model"}
    return np.asarray(tensorstore.open({"driver": "zarr3", "kvstore": base}).result().read().result())


def test_both_stop_and_save_when_one_is_told(tmp_path: Path) -> None:
    processes = two_processes(tmp_path / "run")
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    processes[1].send_signal(signal.SIGTERM)
    (step, wish, told), (other_step, other_wish, told_by_other) = map(said, processes)
    assert (step, wish) == (other_step, other_wish)
    assert (told, told_by_other) == ([["checkpoint", step]], [])
    held = content(checkpoint.step_directory(Directory(str(tmp_path / "run")), step))
    assert held.tolist() == (np.arange(8.0) + step).tolist()


def test_both_save_when_the_clock_of_the_first_says_so(tmp_path: Path) -> None:
    (step, _, told), (other_step, _, _) = map(said, two_processes(tmp_path / "run", "often"))
    assert (step, other_step) == (3, 3)
    assert told == [["checkpoint", 1], ["checkpoint", 2], ["checkpoint", 3]]
    assert checkpoint.complete_steps(Directory(str(tmp_path / "run"))) == [2, 3]


LEAVING = """
import os, sys
import jax
jax.config.update("jax_platforms", "cpu")
from marin.training.processes import join, leave
from marin.training.spec import Process
number = int(sys.argv[1])
process = Process(number=number, count=2, meeting=sys.argv[2])
join(process)
print("ready", flush=True)
if number:
    sys.stdin.readline()
leave(process)
print("gone", flush=True)
os._exit(0)
"""


def test_the_first_to_be_done_waits_for_the_other_which_would_die_with_it() -> None:
    first, second = [
        subprocess.Popen(
            [sys.executable, "-c", LEAVING, str(number), address],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for address in [free_address()]
        for number in range(2)
    ]  # fmt: skip
    for process in (first, second):
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    with pytest.raises(subprocess.TimeoutExpired):
        first.wait(2)
    out, _ = second.communicate("go on\n", timeout=60)
    assert (out, second.returncode) == ("gone\n", 0)
    assert (first.communicate(timeout=60)[0], first.returncode) == ("gone\n", 0)


@pytest.mark.parametrize("loss", ["finite", "infinite"])
def test_a_training_ends_for_all_processes_together(tmp_path: Path, loss: str) -> None:
    address = free_address()
    watch = Watched(every=2, prompts=prompts_in(tmp_path))
    spec = small_spec(tmp_path, end_step=4, batch={0: 8}, state=str(tmp_path / "state"), watch=watch)
    if loss == "infinite":
        spec = replace(spec, optimizer=replace(spec.optimizer, peak_lr=1e30))
    specs = [replace(spec, process=Process(number=number, count=2, meeting=address)) for number in range(2)]
    processes = [
        subprocess.Popen([sys.executable, "-c", TRAINING, to_json(one)], stdout=subprocess.PIPE, text=True)
        for one in specs
    ]
    ended = [process.communicate(timeout=500)[0].splitlines()[-1] for process in processes]
    assert ended == [f"{'done' if loss == 'finite' else 'NonFiniteLoss'} False"] * 2, "and both have left each other"
    if loss == "finite":
        lines = [(line["step"], line["prompt"]) for line in samples(Directory(spec.state))]
        assert lines == [(step, text) for step in (2, 4) for text in PROMPTS]


TRAINING = """
import sys
import jax
jax.config.update("jax_platforms", "cpu")
from marin.errors import NonFiniteLoss
from marin.training.levanter_run import train
from marin.training.spec import from_json
try:
    train(from_json(sys.argv[1]), lambda event, **facts: None)
    ended = "done"
except NonFiniteLoss:
    ended = "NonFiniteLoss"
print(ended, jax.distributed.is_initialized(), flush=True)
"""
