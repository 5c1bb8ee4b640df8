"""Reading and conditional writing on S3, through s3fs."""

# pyright: basic

from __future__ import annotations

from typing import Any

from marin.objects.answers import code_of
from marin.objects.conditional import ABSENT, Content, Listed, PreconditionFailed

FAILED = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", "NoSuchKey"}


class AmazonCalls:
    """One call each; versions are ETags. Raises what s3fs raises, FileNotFoundError for a missing bucket."""

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
        condition = {} if only_if is None else {"IfNoneMatch": "*"} if only_if == ABSENT else {"IfMatch": only_if}
        try:
            made = await self.files._call_s3("put_object", Bucket=bucket, Key=key, Body=content, **condition)
        except OSError as error:
            if condition and code_of(error) in FAILED:
                raise PreconditionFailed(path) from error
            raise
        return made["ETag"]

    async def list(self, path: str) -> list[Listed]:
        from s3fs.core import _error_wrapper

        bucket, key, _ = self.files.split_path(path)

        async def read() -> list[Any]:
            return [entry async for entry in self.files._iterdir(bucket, delimiter="/", prefix=f"{key}/")]

        entries = await _error_wrapper(read, retries=self.files.retries)
        return [
            Listed(entry["name"].removesuffix("/").rsplit("/", 1)[-1], entry.get("ETag", ""))
            for entry in entries
            if entry["name"] != f"{path}/"
        ]
