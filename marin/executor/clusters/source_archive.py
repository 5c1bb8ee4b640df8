"""Pack the files of a folder for a job, as one archive whose bytes depend only on those files."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from marin.errors import BadField
from marin.store.layout import OWN
from marin.store.numbers import write_bytes

LIMIT = 100 << 20  # bytes before packing; a Ray dashboard takes so much in one request
LARGEST = 3  # files that a refusal names
SKIPPED = {".git", ".venv", "venv", "__pycache__", "node_modules"}  # folders, where no .gitignore applies
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that an archive can hold


def pack(folder: Path, target: Path) -> dict[str, int]:
    """Write the files of a project into an archive. Return their sizes in bytes, by name.

    In a git checkout, these are all files that .gitignore lets through, uncommitted ones included. Elsewhere they are
    all files but environments and caches. A store is never included. Raises BadField for more than LIMIT bytes, and for
    files that an archive cannot hold.
    """
    names = _without_stores(_names(folder))
    sizes = {name: (folder / name).stat().st_size for name in names}
    total = sum(sizes.values())
    if total > LIMIT:
        largest = sorted(sizes, key=lambda name: -sizes[name])[:LARGEST]
        named = ", ".join(f"{name} ({write_bytes(sizes[name])})" for name in largest)
        raise BadField(
            f"{folder} holds {write_bytes(total)} in {len(names):,} files, and a job takes at most "
            f"{write_bytes(LIMIT)} along; the largest: {named}. Put data into the store or a bucket and its path into "
            ".gitignore, or start in a folder that holds only the project"
        )
    with zipfile.ZipFile(target, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = (folder / name).stat().st_mode << 16
            archive.writestr(entry, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED)
    return sizes


def _names(folder: Path) -> list[str]:
    """Return the relative names of files, sorted. Raises BadField."""
    command = ["git", "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):  # there is no git, or no checkout
        return _walked(folder)
    names: set[str] = set()
    for name in filter(None, os.fsdecode(listed.stdout).split("\0")):
        path = folder / name
        if path.is_file():  # otherwise it was deleted since the last commit, or is a checkout of its own
            names.add(name)
        elif path.is_symlink() and path.is_dir():
            raise _linked(path)
        elif path.is_dir():
            names.update(f"{name.rstrip('/')}/{below}" for below in _names(path))
    return sorted(names)


def _walked(folder: Path) -> list[str]:
    names: list[str] = []
    for place, folders, files in os.walk(folder):
        if OWN in folders and place != str(folder):  # a store, which may be large
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in SKIPPED]
        for name in folders:
            if (linked := Path(place, name)).is_symlink():
                raise _linked(linked)
        names += [os.path.relpath(path, folder) for name in files if os.path.isfile(path := os.path.join(place, name))]
    return sorted(names)


def _linked(path: Path) -> BadField:
    return BadField(
        f"{path} is a link to a folder, and a job takes no links to folders along. Replace the link with a copy of the "
        "folder; if the job does not need it, write the link's path into .gitignore"
    )


def _without_stores(names: list[str]) -> list[str]:
    """Return the names without those in stores. A store, and each output, is a folder that holds OWN."""
    inside = f"/{OWN}/"
    stores = {f"{name.partition(inside)[0]}/" for name in names if inside in name}
    return [name for name in names if not name.startswith((f"{OWN}/", *stores))]
