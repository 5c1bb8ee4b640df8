"""Test ``--backend inline``: steps run in one process beside the driver, which has imported only their modules."""

import os
import pty
import re
import select
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.support.project import Project, gated, wait_for
from tests.support.waiting import is_gone, wait_until

LIB = """
TABLE = {"a": {"b": 1}}
ORDER = sorted([1, 2])
PLUGINS = {}


def times(text, of=[1]):
    return f"{text}{of} {TABLE} {ORDER} {sorted(PLUGINS)}"
"""
STEP = """
import os, time
from marin import Context, ExecutorStep
from tests.support.toy import Blob
import lib.words


class Say(ExecutorStep[Blob], op="say"):
    text: str

    def run(self, ctx: Context) -> Blob:
        if self.text == "dies":
            if os.fork() == 0:  # what outlives it holds all that it had open
                time.sleep(20)
                os._exit(0)
            os.kill(os.getpid(), 9)
        if self.text == "x":
            print("much" * 100_000)  # before the next jobs are taken
        if self.text == "asks":
            breakpoint()
        os.system("echo from a program, without an end | tr -d '\\\\n'")
        print("said by", self.text)
        ctx.out.write_text("text.txt", lib.words.times(self.text))
        return Blob(bytes=1)
"""
EXPERIMENT = '''
"""Does it run?"""
from marin.steps.experiment import Experiment
from marin.cli.experiment_main import executor_main
import lib.words, lib.plugin
from lib.step import Say

lib.words.TABLE["a"]["b"] = 12


def build(scale):
    lib.words.ORDER.append(3)
    lib.words.times.__defaults__[0].append(2)
    return Experiment(issue=1, question=__doc__, results={text: Say(text=text, label=text) for text in TEXTS})


if __name__ == "__main__":
    executor_main(build)
'''


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return made(tmp_path, "x")


def made(folder: Path, *texts: str) -> Project:
    project = Project(folder / "project", EXPERIMENT.replace("TEXTS", repr(texts)))
    project.words.write_text(LIB)
    (project.folder / "lib/step.py").write_text(STEP)
    (project.folder / "lib/plugin.py").write_text("import lib.words\nlib.words.PLUGINS['mine'] = 1\n")
    return project


def test_what_an_experiment_changes_in_modules_reaches_no_step(project: Project) -> None:
    project.run()
    (text,) = project.store.rglob("text.txt")
    assert text.read_text() == "x[1] {'a': {'b': 1}} [1, 2] []"


def test_what_it_and_its_programs_print_is_passed_on(project: Project) -> None:
    assert "from a program, without an endsaid by x\n" in project.run()


def test_a_step_that_kills_its_process_fails_alone(tmp_path: Path) -> None:
    project = made(tmp_path, "x", "dies", "y")
    said = project.run(expect=1)
    assert "say/dies: the process that ran this step ended with SIGKILL (out of memory?)" in said
    assert "2 ran" in said
    project.file.write_text(EXPERIMENT.replace("TEXTS", "['x', 'y']"))
    assert "2 cached" in project.run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_driver_and_gives_back_what_it_held(tmp_path: Path, number: signal.Signals) -> None:
    project, gate = gated(tmp_path)
    driver = subprocess.Popen(project.command(), env=project.environment(), stdout=subprocess.PIPE, text=True)
    wait_for(Path(f"{gate}.started"))
    (child,) = psutil.Process(driver.pid).children()
    driver.send_signal(number)
    said, _ = driver.communicate(timeout=60)
    assert driver.returncode == (-9 if number is signal.SIGKILL else 128 + number)
    wait_until(lambda: is_gone(child.pid))
    if number is not signal.SIGKILL:
        assert re.search(r"stopped say/say: stopped by (Ctrl-C|SIGTERM)", said)
    gate.touch()
    project.run()


def test_a_breakpoint_can_be_answered(tmp_path: Path) -> None:
    project = made(tmp_path, "asks")
    ours, theirs = pty.openpty()
    driver = subprocess.Popen(
        project.command(), env=project.environment(), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    os.close(theirs)
    assert driver.stdout is not None
    said = b""
    for wanted, answer in ((b"(Pdb) ", b"p self.text * 2\n"), (b"'asksasks'\n(Pdb) ", b"c\n")):
        while not said.endswith(wanted):
            assert select.select([driver.stdout], [], [], 60)[0], said
            said += os.read(driver.stdout.fileno(), 1 << 16)
        os.write(ours, answer)
    assert b"1 ran" in driver.stdout.read()
    assert driver.wait() == 0
    driver.stdout.close()
    os.close(ours)
