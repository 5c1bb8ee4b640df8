"""Specification, metrics and batches: the parts of a run that need no JAX."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from marin.data.mixture import BatchSchedule, Mixture, Shuffle, Stages
from marin.data.order import DataOrder
from marin.errors import CorruptRecord, TrainingFailed, TruncatedShard
from marin.store.files.directory import Directory
from marin.training.batches import Batches, segments
from marin.training.metrics import MetricsLog, read_metrics
from marin.training.process import Listeners, run_training
from marin.training.schedule import Decay, Rewarmup, Schedule
from marin.training.spec import Start, StartMode, from_json, to_json
from tests.training.runs import small_spec


def test_a_specification_survives_json(tmp_path: Path) -> None:
    spec = small_spec(
        tmp_path / "run",
        schedule=Schedule(warmup=3, rewarmups=(Rewarmup(8, 2),), decay=Decay(10, 12), floor=0.1),
        start=Start(mode=StartMode.WARM, checkpoint="somewhere"),
        keep_steps=(8,),
    )
    assert from_json(to_json(spec)) == spec


def test_metrics_past_the_checkpoint_are_cut(tmp_path: Path) -> None:
    directory = Directory(str(tmp_path))
    log = MetricsLog(directory, "metrics.jsonl", ())
    for step in range(6):
        log.add({"step": step})
    kept = log.text().splitlines()[:4]
    resumed = MetricsLog(directory, "metrics.jsonl", kept)
    resumed.add({"step": 4, "again": True})
    assert [row["step"] for row in read_metrics(directory)] == [0, 1, 2, 3, 4]
    assert read_metrics(directory)[4]["again"]


def test_a_garbled_metrics_line_is_named(tmp_path: Path) -> None:
    Directory(str(tmp_path)).write_text("metrics.jsonl", '{"step": 0}\n{"step":\n')
    with pytest.raises(CorruptRecord, match="line 2"):
        read_metrics(Directory(str(tmp_path)))


def test_a_document_ends_with_its_end_token() -> None:
    tokens = np.array([[5, 0, 6, 7, 0, 0, 8], [0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0]])
    assert segments(tokens, 0).tolist() == [[0, 0, 1, 1, 1, 2, 3], [0, 1, 1, 1, 1, 1, 1], [0] * 7]


class Numbered:
    """A store whose sequence i is filled with 100 · source + i."""

    def __init__(self, source: int) -> None:
        self.source = source

    def read(self, indices: np.ndarray, seq_len: int) -> np.ndarray:
        return np.repeat((100 * self.source + np.asarray(indices))[:, None], seq_len, axis=1)


class OneDevice:
    device_mesh = None
    compute_axis_mapping = None

    class config:
        batch_axis_name = "batch"


def test_batches_follow_the_schedule_and_the_order() -> None:
    schedule = BatchSchedule({0: 16, 3: 15, 5: 16})
    order = DataOrder(
        Stages({0: Mixture({"web": 0.75, "code": 0.25})}), {"web": 90, "code": 50}, schedule, Shuffle.FEISTEL, 1, 32
    )
    stores = [Numbered(number) for number in range(2)]
    batches = Batches(order, stores, schedule, seq_len=4, eos=None, trainer=OneDevice)
    numbers = [batches.numbers(step) for step in range(7)]
    assert [len(each) for each in numbers] == [16, 16, 16, 15, 15, 16, 16]
    assert np.concatenate(numbers).tolist() == list(range(110))
    sources, sequences = order.at(numbers[3])
    assert batches.tokens(numbers[3]).tolist() == [[100 * s + i] * 4 for s, i in zip(sources, sequences, strict=True)]
    assert sum(batches.source_counts(3).values()) == 15
    # 16 + 16 places are one block, in which the mixture is exact.
    counted = [batches.source_counts(0), batches.source_counts(1)]
    assert sum(each["web"] for each in counted) == 24


@pytest.mark.filterwarnings("ignore")  # Levanter's imports warn
def test_batches_are_made_ahead_and_what_goes_wrong_there_is_raised() -> None:
    import jax

    class Trainer(OneDevice):
        device_mesh = jax.make_mesh((1,), ("data",))
        compute_axis_mapping = {"batch": "data"}  # noqa: RUF012

    class Ending(Numbered):
        """A store that gives three batches and then fails."""

        asked = 0

        def read(self, indices: np.ndarray, seq_len: int) -> np.ndarray:
            self.asked += 1
            if self.asked > 3:
                raise TruncatedShard("it ends early")
            return super().read(indices, seq_len)

        def counts(self, indices: np.ndarray, seq_len: int) -> np.ndarray:
            return np.ones((len(indices), seq_len), np.float32)

    schedule, store = BatchSchedule({0: 16}), Ending(0)
    order = DataOrder(Stages({0: Mixture({"web": 1.0})}), {"web": 160}, schedule, Shuffle.SPLITMIX, 1, 32)
    batches = Batches(order, [store], schedule, seq_len=4, eos=None, trainer=Trainer)
    examples = batches.ahead(1, 9)
    first = next(examples)
    deadline = time.monotonic() + 60
    while store.asked < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert store.asked == 4, "nobody has asked for the second one yet"
    assert np.array_equal(first.tokens.array[:, 0], order.at(batches.numbers(1))[1])
    assert len(list(itertools.islice(examples, 2))) == 2
    with pytest.raises(TruncatedShard, match="ends early"):
        next(examples)


def test_a_process_that_cannot_begin_is_an_error_with_the_reason(tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "run", stages={0: {"stride 1": 1.0}}, state=str(tmp_path / "file" / "state"))
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(TrainingFailed, match="NotADirectoryError"):
        run_training(spec, tmp_path / "log.txt", Listeners())


def test_a_trainer_whose_parent_is_another_process_does_nothing(tmp_path: Path) -> None:
    spec = small_spec(tmp_path / "run")
    (tmp_path / "spec.json").write_text(to_json(spec))
    ended = subprocess.run([sys.executable, "-m", "marin.training.main", "1", "1"], capture_output=True)
    assert ended.returncode == 70
    assert not Path(spec.state).exists()


def test_importing_the_configuration_is_light() -> None:
    code = "import sys, operators.train; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(
        subprocess.run([sys.executable, "-c", "import json;" + code], capture_output=True, check=True).stdout
    )
    assert {"jax", "levanter", "ray", "pydantic", "pyarrow"}.isdisjoint(loaded)
