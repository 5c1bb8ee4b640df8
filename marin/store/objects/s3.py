"""Read and write conditionally on S3, through s3fs."""

# pyright: basic

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from s3fs import S3FileSystem

from marin.errors import BadPrefix
from marin.store.objects.answers import code_of
from marin.store.objects.conditional import ABSENT, NEVER, Content, Listed, PreconditionFailed, Stored

MOST_DELETED = 1000  # in one call
NO_ETAG = f'"{"0" * 32}"'  # no known content has this MD5
FAILED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey"}


class OneClient(S3FileSystem):
    """s3fs with a single botocore client, also if many calls start before the first has its answer.

    s3fs 2026.2 makes a client for each of these calls, at 4 MB and a third of a second each (its issue 1019).
    """

    _made: asyncio.Lock | None = None

    async def set_session(self, refresh: bool = False, kwargs: Any = None) -> Any:
        if self._made is None:
            self._made = asyncio.Lock()
        async with self._made:
            if self._s3 is not None and not refresh and self._s3._endpoint.http_session._sessions == {}:
                return self._s3  # nothing was sent yet; s3fs mistakes this for a closed client
            return await super().set_session(refresh)


class AmazonCalls:
    """The calls of a store on S3, one request each; versions are ETags.

    Raises s3fs's own errors, and FileNotFoundError for a missing bucket.
    """

    conditions: tuple[str, str] = ("If-None-Match", "If-Match")

    def __init__(self, files: Any) -> None:
        self.files = files

    async def get(self, path: str) -> Content | None:
        from s3fs.core import _error_wrapper

        bucket, key, _ = self.files.split_path(path)

        async def read() -> Content:
            answer = await self.files._call_s3("get_object", Bucket=bucket, Key=key)
            async with answer["Body"] as body:
                return Content(await body.read(), answer["ETag"])

        try:
            return await _error_wrapper(read, retries=self.files.retries)
        except FileNotFoundError as error:
            if code_of(error) == "NoSuchBucket":
                raise
            return None

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        bucket, key, _ = self.files.split_path(path)
        condition = {}
        if only_if == ABSENT:
            condition = {"IfNoneMatch": "*"}
        elif only_if is not None:
            condition = {"IfMatch": NO_ETAG if only_if == NEVER else only_if}
        try:
            made = await self.files._call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
        except OSError as error:
            if condition and code_of(error) in FAILED:
                raise PreconditionFailed(path) from error
            raise
        return made["ETag"]

    async def list(self, path: str) -> list[Listed]:
        return [
            Listed(entry["name"].removesuffix("/").rsplit("/", 1)[-1], entry.get("ETag", ""))
            for entry in await self._entries(path, "/")
        ]

    async def walk(self, path: str) -> dict[str, Stored]:
        entries = await self._entries(path, "")
        return {
            entry["name"].removeprefix(f"{path}/"): _stored(entry["size"], entry["ETag"], entry["LastModified"])
            for entry in entries
        }

    async def any_below(self, path: str) -> bool:
        return bool(await self._entries(path, "", 1))

    async def info(self, path: str) -> Stored:
        bucket, key, _ = self.files.split_path(path)
        answer = await self.files._call_s3("head_object", Bucket=bucket, Key=key)
        return _stored(answer["ContentLength"], answer["ETag"], answer["LastModified"])

    async def location(self, bucket: str) -> str:
        """Return the region of a bucket, as the provider writes it. Raises BadPrefix unless the server is Amazon's."""
        # The permission to list the bucket suffices for this call; the call for its location needs another one.
        answer = await self.files._call_s3("head_bucket", Bucket=bucket)
        server = self.files._s3.meta.endpoint_url
        if not is_amazon(server):
            raise BadPrefix(f"s3://{bucket} is on {server}, which is not Amazon's: its regions are unknown")
        if answer.get("BucketRegion"):
            return answer["BucketRegion"]
        answer = await self.files._call_s3("get_bucket_location", Bucket=bucket)
        place = answer["LocationConstraint"] or "us-east-1"
        return "eu-west-1" if place == "EU" else place

    async def remove(self, path: str, names: list[str]) -> None:
        bucket, key, _ = self.files.split_path(path)
        for first in range(0, len(names), MOST_DELETED):
            keys = [{"Key": f"{key}/{name}"} for name in names[first : first + MOST_DELETED]]
            answer = await self.files._call_s3("delete_objects", Bucket=bucket, Delete={"Objects": keys, "Quiet": True})
            for refused in answer.get("Errors", []):
                raise PermissionError(f"{refused.get('Code')}: {refused.get('Message')} ({refused.get('Key')})")

    async def _entries(self, path: str, delimiter: str, most: int | None = None) -> list[Any]:
        from s3fs.core import _error_wrapper

        bucket, key, _ = self.files.split_path(path)

        async def read() -> list[Any]:
            found = self.files._iterdir(bucket, max_items=most, delimiter=delimiter, prefix=f"{key}/")
            return [entry async for entry in found]

        return [
            entry for entry in await _error_wrapper(read, retries=self.files.retries) if entry["name"] != f"{path}/"
        ]


def is_amazon(server: str) -> bool:
    """Is this URL of an Amazon server, or of an emulator on this machine?

    Other servers also speak S3, but name regions as they like.
    """
    host = urlsplit(server).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn")) or host in ("localhost", "127.0.0.1", "::1")


def _stored(size: int, etag: str, modified: datetime) -> Stored:
    return Stored(size=size, checksum=f"etag:{etag.strip(chr(34))}", modified=modified.timestamp())
