"""A step that works shard by shard keeps its finished shards when it fails or its process dies."""

import json
import os
from pathlib import Path

import pytest

from tests.support.project import Project

EXPERIMENT = '''
"""Does it go on where it was?"""
import os
import signal
from pathlib import Path

from marin import Context, Directory, ExecutorStep
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
from marin.steps.scale import Scale
from tests.support.toy import Blob

HERE = Path(__file__).parent


class Shout(ExecutorStep[Blob], op="shards-shout"):
    def run(self, ctx: Context) -> Blob:
        sizes = ctx.write_shards(shout, [(HERE, at) for at in range(6)], tuple[int, str])
        ctx.out.write_text("sizes.txt", repr(sizes))
        return Blob(bytes=sum(size for size, _ in sizes))


def shout(item: tuple[Path, int], out: Directory) -> tuple[int, str]:
    here, at = item
    with (here / "made.txt").open("a") as made:
        made.write(f"{at} ")
    text = (here / "words.txt").read_text() if at == 1 else "word "
    out.write_text(f"folder/{at}.txt", text.upper() * at)
    if at == 3 and (here.parent / "kill").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    if at == 3 and not (here.parent / "switch").exists():
        raise ValueError("cut short")
    return len(text) * at, text


def build(scale: Scale) -> Experiment:
    return Experiment(issue=1, question=__doc__, results={"end": Shout(label="x")})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path / "project", EXPERIMENT)
    (made.folder / "words.txt").write_text("one ")
    return made


def take_made(project: Project) -> list[int]:
    """Return the shards that were made since the last call, in order."""
    path = project.folder / "made.txt"
    found = [int(at) for at in path.read_text().split()] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def outputs(project: Project) -> list[dict[str, str]]:
    """Return the files of each committed attempt."""
    found = [path.parent for path in sorted((project.store / "shards-shout").glob("*/sizes.txt"))]
    return [
        {str(path.relative_to(each)): path.read_text() for path in each.rglob("*.txt") if ".marin" not in path.parts}
        for each in found
    ]


def logs_of(project: Project) -> str:
    return "".join(path.read_text() for path in project.store.rglob("log.txt"))


def failed(project: Project) -> None:
    """Run until the step fails: shards 0 to 2 are done, shard 3 is broken off, and 4 and 5 are missing."""
    project.run(expect=1)
    assert take_made(project) == [0, 1, 2, 3]
    (project.folder.parent / "switch").write_text("")


def test_only_missing_shards_are_made_and_the_output_is_that_of_an_undisturbed_run(project: Project) -> None:
    failed(project)
    said = project.run()
    assert take_made(project) == [3, 4, 5]
    project.run("--rebuild", "x")
    assert take_made(project) == [0, 1, 2, 3, 4, 5]
    resumed, whole = outputs(project)
    assert resumed == whole
    assert resumed["folder/1.txt"] == "ONE "
    assert resumed["sizes.txt"].startswith("[(0, 'word '), (4, 'one '), (10, 'word ')")
    assert "1 ran" in said
    assert "3 of 6 shards were made by an attempt before this one" in logs_of(project)


def test_what_the_made_shards_read_is_known_of_the_output(project: Project) -> None:
    failed(project)
    project.run()
    (project.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in project.run(expect=3)


def test_with_what_was_read_changed_the_made_shards_are_not_gone_on_with(project: Project) -> None:
    failed(project)
    (project.folder / "words.txt").write_text("two ")
    assert "words.txt changed, which run() read" in project.run(expect=3)
    project.run("--on-drift", "rebuild")
    assert take_made(project) == [0, 1, 2, 3, 4, 5]
    assert outputs(project)[0]["folder/1.txt"] == "TWO "


def test_changed_code_makes_all_of_them_anew(project: Project) -> None:
    failed(project)
    project.file.write_text(EXPERIMENT.replace("text.upper() * at", "text.title() * at"))
    assert "work in progress was begun by other code" in project.run(expect=3)
    project.run("--on-drift", "rebuild")
    assert take_made(project) == [0, 1, 2, 3, 4, 5]
    assert outputs(project)[0]["folder/1.txt"] == "One "


@pytest.mark.parametrize("file", ["folder/2.txt", "done/2"])
def test_a_file_or_mark_that_a_crash_cut_short_is_made_again(file: str, project: Project) -> None:
    failed(project)
    [shard] = (project.store / ".marin/state").rglob(file)
    os.truncate(shard, 3)
    project.run()
    assert take_made(project) == [2, 3, 4, 5]
    assert outputs(project)[0]["folder/2.txt"] == "WORD WORD "


def test_killed_it_makes_again_only_what_was_not_marked(project: Project) -> None:
    (project.folder.parent / "kill").write_text("")
    project.run(expect=1)
    assert take_made(project) == [0, 1, 2, 3]
    (project.folder.parent / "kill").unlink()
    (project.folder.parent / "switch").write_text("")
    project.run()
    assert take_made(project)[-3:] == [3, 4, 5]
    assert json.dumps(outputs(project)[0]).count("WORD") == 0 + 2 + 3 + 4 + 5


def test_nothing_of_the_work_in_progress_stays(project: Project) -> None:
    (project.folder.parent / "switch").write_text("")
    project.run()
    assert list((project.store / ".marin/state").rglob("*.txt")) == []
    assert project.run().count("cached") >= 1
