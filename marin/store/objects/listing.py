"""List and delete objects by URL. A listing takes one request for each thousand names, and one if there is none."""

# pyright: basic

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from marin.store.objects.clients import REMOTE, asking, path_of, scheme_of
from marin.store.objects.stored import Stored, stored_of

MOST_DELETED = {"gs": 100, "s3": 1000}  # in one request
PATTERN = set("*?[")  # gcsfs takes a name with one of these for a pattern when it deletes many at once


def below(url: str, *, deep: bool) -> dict[str, Stored | None]:
    """Return what is below a URL by its relative name. A folder has None.

    deep: return the objects at any depth, without folders. Otherwise return the objects and folders directly below.
    """
    start = f"{path_of(url)}/"
    with asking(url, "list") as (files, _):
        entries = _entries(files, scheme_of(url), start, deep)
        found = {name.removeprefix(start): stored for name, stored in entries if name.startswith(start)}
    found.pop("", None)  # the mark that some tools leave for a folder
    return found


def exists(url: str) -> bool:
    """Is there an object at this URL, or any object below it?"""
    with asking(url, "list") as (files, path):
        if scheme_of(url) not in REMOTE:
            return files.exists(path)
        return any(f"{name}/".startswith(f"{path}/") for name, _ in _entries(files, scheme_of(url), path, deep=False))


def remove(url: str, names: Sequence[str]) -> None:
    """Delete the objects with these names below a URL, and ignore absent ones."""
    scheme = scheme_of(url)
    with asking(url, "delete") as (files, path):
        if scheme == "s3":
            return _remove_from_s3(files, path, names)
        paths = [f"{path}/{name}" for name in names]
        many = [each for each in paths if not PATTERN.intersection(each)] if scheme == "gs" else []
        if many:
            with contextlib.suppress(FileNotFoundError):  # none of them is there
                files.rm(many, batchsize=MOST_DELETED["gs"])
        for each in set(paths).difference(many):
            with contextlib.suppress(FileNotFoundError):
                files.rm_file(each)


def _remove_from_s3(files: Any, path: str, names: Sequence[str]) -> None:
    # s3fs's own rm takes names for patterns, and does not tell that the server refused to delete some of them.
    bucket, start, _ = files.split_path(f"{path}/")
    for first in range(0, len(names), MOST_DELETED["s3"]):
        keys = [{"Key": f"{start}{name}"} for name in names[first : first + MOST_DELETED["s3"]]]
        answer = files.call_s3("delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
        for refused in answer.get("Errors", []):
            raise PermissionError(f"{refused.get('Code')}: {refused.get('Message')} ({refused.get('Key')})")


def _entries(files: Any, scheme: str, start: str, deep: bool) -> Iterator[tuple[str, Stored | None]]:
    """List the objects whose path begins so, and unless ``deep``, the folders up to the next ``/``."""
    if scheme == "gs":
        return _listed_by_gcs(files, start, deep)
    return _listed_by_s3(files, start, deep) if scheme == "s3" else _listed(files, start.rstrip("/"), deep)


def _listed_by_gcs(files: Any, start: str, deep: bool) -> Iterator[tuple[str, Stored | None]]:
    # Listed as a folder, a folder without objects takes gcsfs a second request. Listed by a prefix, it does not.
    bucket, prefix, _ = files.split_path(start)
    for entry in files.ls(bucket, detail=True, prefix=prefix, delimiter="" if deep else "/"):
        yield entry["name"], None if entry["type"] == "directory" else stored_of(entry)


def _listed_by_s3(files: Any, start: str, deep: bool) -> Iterator[tuple[str, Stored | None]]:
    # For a folder without objects, s3fs's own ls also lists the folder above. And it tries a busy server only 3 times.
    bucket, prefix, _ = files.split_path(start)
    more: dict[str, str] = {}
    while True:
        page = files.call_s3(
            "list_objects_v2", files.req_kw, Bucket=bucket, Prefix=prefix, Delimiter="" if deep else "/", **more
        )
        for folder in page.get("CommonPrefixes", []):
            yield f"{bucket}/{folder['Prefix'].removesuffix('/')}", None
        for entry in page.get("Contents", []):
            yield f"{bucket}/{entry['Key']}", stored_of(entry)
        if not page.get("NextContinuationToken"):
            return
        more = {"ContinuationToken": page["NextContinuationToken"]}


def _listed(files: Any, path: str, deep: bool) -> Iterator[tuple[str, Stored | None]]:
    found: dict[str, Any] = {}
    with contextlib.suppress(FileNotFoundError):
        listed = files.find(path, detail=True) if deep else files.ls(path, detail=True)
        found = listed if deep else {entry["name"]: entry for entry in listed}
    for name, entry in found.items():
        if name != path:  # a file, not a folder, and then without an entry
            yield name, None if entry["type"] == "directory" else stored_of(entry)
