"""If a node of a Ray cluster dies while it builds data, the bytes still equal an undisturbed run's."""

import json
import random
import subprocess
from pathlib import Path

import psutil
import pytest

from marin.store.inventory import Inventory
from marin.store.store import Store
from tests.support.clusters import end
from tests.support.project import Project
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow

FILES, DOCUMENTS, WORDS = 32, 60, 400
EXPERIMENT = '''
"""From files to tokens."""
from pathlib import Path

from marin import Experiment, Scale, executor_main
from operators.download import FsspecFiles, ReadDocuments
from operators.exact_dedup import ExactDedup
from operators.tokenize import Tokenize
from operators.train_tokenizer import TrainTokenizer

TEXT = Path(__file__).parent / "text"


def build(scale: Scale) -> Experiment:
    read = ReadDocuments(files=FsspecFiles(urls=(str(TEXT / "*.jsonl"),)), label="own")
    unique = ExactDedup(documents=read, label="own")
    tokenizer = TrainTokenizer(documents=(unique,), vocabulary=1000, label="own")
    tokens = Tokenize(documents=unique, tokenizer=tokenizer, label="own")
    return Experiment(issue=1, repository="", question=__doc__, results={"tokens": tokens})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project", EXPERIMENT)
    (made.folder / "text").mkdir()
    chance = random.Random(0)
    words = ["".join(chance.choices("abcdefghij", k=chance.randrange(2, 9))) for _ in range(3000)]
    repeated = " ".join(chance.choices(words, k=WORDS))
    for number in range(FILES):
        texts = [repeated, *(" ".join(chance.choices(words, k=WORDS)) for _ in range(DOCUMENTS))]
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (made.folder / f"text/{number:02}.jsonl").write_text(lines)
    return made


def committed(prefix: Path) -> dict[str, str]:
    """Return the digest of each output's manifest."""
    return {record.name: record.root for record in Inventory(Store(str(prefix))).records.values()}


def test_a_node_is_killed_in_the_middle_of_a_stage(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    memory = {"object_store_memory": 100 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, **memory})
    driver = None
    try:
        node = cluster.add_node(num_cpus=2, **memory)
        driver = subprocess.Popen(
            [*project.command(backend="ray"), "--address", cluster.address],
            env=project.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

        def has_parts() -> bool:
            assert driver.poll() is None, driver.communicate()[0]
            return any((project.store / ".marin/state").glob("*/parts/*"))

        wait_until(has_parts)
        cluster.remove_node(node, allow_graceful=False)
        said, _ = driver.communicate(timeout=PATIENCE)
    finally:
        if driver is not None and driver.poll() is None:
            end([psutil.Process(driver.pid)])
        cluster.shutdown()
    assert driver.returncode == 0, said
    undisturbed = tmp_path / "undisturbed"
    project.run("--prefix", str(undisturbed))
    assert len(committed(undisturbed)) == 5
    assert committed(project.store) == committed(undisturbed)
