"""Test two users with one store in a folder of their group."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.support.project import ROOT

RUN = """
import os, sys
os.umask(0o022)
from tests.support.toy import Write, run
assert not run(sys.argv[1], end=Write(text="a", label="a")).having("failed")
"""


def folder_of_a_group(tmp_path: Path) -> Path:
    folder = tmp_path / "team"
    folder.mkdir()
    folder.chmod(0o2775)
    return folder


def not_for_the_group(store: Path) -> list[str]:
    """Return the paths that their owner may write and the group may not."""
    found = [store, *store.rglob("*")]
    return [str(path) for path in found if path.stat().st_mode & 0o200 and not path.stat().st_mode & 0o020]


def made(prefix: Path) -> None:
    command = [sys.executable, "-c", RUN, str(prefix)]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("exists", [False, True])
def test_what_is_made_in_a_folder_of_a_group_is_for_the_group(tmp_path: Path, exists: bool) -> None:
    store = folder_of_a_group(tmp_path) / "store"
    if exists:
        store.mkdir()
        store.chmod(0o2775)
    made(store)
    assert not not_for_the_group(store)


def test_elsewhere_the_umask_decides(tmp_path: Path) -> None:
    made(tmp_path / "store")
    assert not_for_the_group(tmp_path / "store")


TWO_USERS = """
import os, sys, traceback
from pathlib import Path
from marin.store.store import Store
from tests.support.toy import Join, Write, run
from tests.support.visible import visible

folder = Path(sys.argv[1])
team, group, first = folder / "team", 4242, Write(text="a", label="first")
run(str(folder / "warm"), end=Join(parts=(Write(text="x"),)))  # what others may not read is imported from now on
os.chown(team, -1, group)
team.chmod(0o2775)
prefix = str(team / "store")

def as_user(user, work):
    child = os.fork()
    if not child:
        try:
            os.setgroups([group])
            os.setgid(group)
            os.setuid(user)
            os.umask(0o022)
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

def second():
    done = run(prefix, end=Join(parts=(first,), label="second"))
    assert [result.status.value for result in done.results.values()] == ["cached", "ran"], done.results
    assert not run(prefix, end=first, rebuild=("first",)).having("failed")

as_user(4243, lambda: run(prefix, end=first))
as_user(4244, second)
assert {Path(prefix, record.attempt).stat().st_uid for record in visible(Store(prefix)).values()} == {4244}
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
def test_one_user_goes_on_from_what_another_made_and_makes_it_again() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # pytest's own folders are for one user
        os.chmod(folder, 0o1777)
        folder_of_a_group(Path(folder))
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MARIN_CACHE": folder}
        command = [sys.executable, "-c", TWO_USERS, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
