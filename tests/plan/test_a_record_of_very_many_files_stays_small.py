"""A record holds one digest for very many files below one folder. A change of a single file is still drift."""

from pathlib import Path

import pytest

from tests.support.project import Project

EXPERIMENT = '''
"""How large is its record?"""
from pathlib import Path

from marin import Context, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

HERE = Path(__file__).parent


class Many(ExecutorStep[Blob], op="many"):
    def run(self, ctx: Context) -> Blob:
        few = (HERE / "data" / "few.txt").read_text()
        read = [(HERE / "data" / "many" / f"{number % 7}" / f"{number}.txt").read_text() for number in range(1500)]
        ctx.out.write_text("text.txt", few + "".join(read))
        return Blob(bytes=1)


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"end": Many(label="x")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("many") / "project", EXPERIMENT)
    for number in range(1500):
        file = project.folder / "data/many" / f"{number % 7}" / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
    (project.folder / "data/few.txt").write_text("1")
    project.run()
    assert "1 cached" in project.run("--dry-run")
    return project


def test_the_record_is_small(ran: Project) -> None:
    [record] = (ran.store / ".marin/ends").glob("*.json")
    assert record.stat().st_size < 10_000


@pytest.mark.parametrize(
    ("file", "says"),
    [("data/many/3/3.txt", "data/many/ changed"), ("data/few.txt", "data/few.txt changed, which run() read")],
)
def test_a_change_of_one_of_them_is_drift(ran: Project, file: str, says: str) -> None:
    path: Path = ran.folder / file
    path.write_text("2")
    said = ran.run("--dry-run", expect=3)
    path.write_text("1")
    assert says in said
    assert "1 cached" in ran.run("--dry-run")
