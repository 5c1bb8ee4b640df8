"""Check the files of an output: it may hold only regular files, and relative links to its own regular files.

Other entries are refused. A link that leaves the output may lead to other bytes tomorrow. An absolute link breaks when
the store moves. A folder behind a link would be missing from the manifest. Opening a named pipe waits for ever.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator

from marin.errors import NotAFile
from marin.store.files.local import OWN, entries_below

SPECIAL = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def must_hold_files(url: str, called: str = "") -> None:
    """Raise NotAFile if a directory holds an entry that an output cannot hold.

    url: of the directory. called: the directory's name for people.
    """
    for name, why in not_files(url):
        raise NotAFile(f"{called or url}/{name} is {why}")


def not_files(url: str, *, copied: bool = False) -> Iterator[tuple[str, str]]:
    """Yield (name, what it is and what to do) for each entry that an output cannot hold. Opens nothing.

    copied: the files are about to be copied out of the directory, so links to any file are fine.
    """
    if "://" in url:
        return
    try:
        for name, entry in entries_below(url):
            if not entry.is_file(follow_symlinks=False) and (why := _why_not(name, entry, copied)):
                yield name, why
    except FileNotFoundError as error:
        if error.filename != url:
            raise


def _why_not(name: str, entry: os.DirEntry[str], copied: bool) -> str:
    """Return why an output cannot hold an entry; "" if it can."""
    if not entry.is_symlink():
        return f"{_special(entry.stat(follow_symlinks=False).st_mode)}, not a file; remove it"
    target = os.readlink(entry.path)
    try:
        mode = os.stat(entry.path).st_mode
    except OSError as error:
        where = "leads in a circle" if error.errno == errno.ELOOP else "leads nowhere"
        return f"a link to {target}, which {where}; remove it"
    if stat.S_ISDIR(mode):
        return f"a link to a folder, {target}, whose files would be missing; copy them, or link each of them"
    if not stat.S_ISREG(mode):
        return f"a link to {target}, {_special(mode)}, not a file; remove it"
    within = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if copied:
        return ""
    if posixpath.isabs(target):
        return f"an absolute link, to {target}, which breaks when the store moves; copy the file, or link relatively"
    if within.split("/")[0] == "..":
        return f"a link to {target}, which leaves the output; copy the file"
    return f"a link to {target}, below the store's own {OWN}; copy the file" if within.startswith(OWN) else ""


def _special(mode: int) -> str:
    return next((kind for fits, kind in SPECIAL if fits(mode)), "something unknown")
