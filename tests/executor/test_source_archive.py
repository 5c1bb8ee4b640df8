"""Test the files that a submitted job takes along."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

from marin.errors import BadField
from marin.executor.clusters.source_archive import LIMIT, pack


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    return folder


def held(folder: Path, target: Path) -> set[str]:
    packed = pack(folder, target)
    names = set(zipfile.ZipFile(target).namelist())
    assert packed.keys() == names
    return names


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_a_checkout_goes_along_as_it_is_now_without_what_is_ignored_and_without_stores(tmp_path: Path) -> None:
    files = ("exp1.py", "lib/words.py", "gone.py", "secret.env", ".venv/lib.py", "store/.marin/ends/x.json")
    folder = made(tmp_path / "project", *files, "store/say/a-1/text.txt")
    (folder / ".gitignore").write_text("*.env\n.venv\n")
    git(folder, "init", "-q")
    git(folder, "add", "exp1.py", "gone.py")
    (folder / "gone.py").unlink()
    assert held(folder, tmp_path / "a.zip") == {".gitignore", "exp1.py", "lib/words.py"}


def test_a_folder_without_git_goes_along_without_environments_caches_and_stores(tmp_path: Path) -> None:
    files = ("exp1.py", "lib/words.py", ".venv/lib.py", "lib/__pycache__/words.pyc", "store/.marin/gc.json")
    folder = made(tmp_path / "project", *files, "store/say/a-1/text.txt")
    assert held(folder, tmp_path / "a.zip") == {"exp1.py", "lib/words.py"}


def test_the_same_files_make_the_same_archive_which_ray_then_need_not_be_sent_again(tmp_path: Path) -> None:
    one, two = (made(tmp_path / name, "exp1.py", "lib/words.py") for name in ("one", "two"))
    (two / "exp1.py").touch()
    pack(one, tmp_path / "1.zip")
    pack(two, tmp_path / "2.zip")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


def test_what_is_too_large_is_refused_with_the_largest_files_before_a_byte_is_read(tmp_path: Path) -> None:
    folder = made(tmp_path / "project", "exp1.py", "data/small.bin")
    with (folder / "data/large.bin").open("wb") as file:
        file.truncate(LIMIT)  # sparse
    with pytest.raises(BadField, match=r"100\.0 MiB along; the largest: data/large\.bin .*\.gitignore"):
        pack(folder, tmp_path / "a.zip")
    assert not (tmp_path / "a.zip").exists()


def test_a_link_to_a_folder_is_refused_rather_than_left_out(tmp_path: Path) -> None:
    folder = made(tmp_path / "project", "exp1.py")
    (folder / "shared").symlink_to(made(tmp_path / "elsewhere", "a.py"))
    with pytest.raises(BadField, match="shared is a link to a folder"):
        pack(folder, tmp_path / "a.zip")
    git(folder, "init", "-q")
    with pytest.raises(BadField, match="shared is a link to a folder"):
        pack(folder, tmp_path / "a.zip")
