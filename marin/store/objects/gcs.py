"""Read and write conditionally on Google Cloud Storage, through gcsfs."""

# pyright: basic

from __future__ import annotations

import hashlib
import io
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

from marin.store.objects.conditional import ABSENT, NEVER, Content, Listed, PreconditionFailed, Stored


class GoogleCalls:
    """The calls of a store on GCS, one request each; versions are generations.

    Raises gcsfs's own errors, and FileNotFoundError for a missing bucket.
    """

    conditions: tuple[str, str] = ("ifGenerationMatch=0", "ifGenerationMatch")

    def __init__(self, files: Any) -> None:
        self.files = files

    async def get(self, path: str) -> Content | None:
        try:
            headers, content = await self.files._call("GET", self.files.url(path))
        except FileNotFoundError:
            return None
        return Content(content, headers.get("x-goog-generation", ""))

    async def put(self, path: str, content: bytes, only_if: str | None) -> str:
        from gcsfs.core import quote

        bucket, key, _ = self.files.split_path(path)
        generation = {ABSENT: "0", NEVER: "1"}.get(only_if or "", only_if)  # real ones are times in microseconds
        condition = {} if only_if is None else {"ifGenerationMatch": generation}
        try:
            made = await self.files._call(
                "POST",
                f"{self.files._location}/upload/storage/v1/b/{quote(bucket)}/o",
                uploadType="media",
                name=key,
                headers={"Content-Type": "application/octet-stream"},
                data=io.BytesIO(content),
                json_out=True,
                **condition,
            )
        except FileExistsError as error:
            raise PreconditionFailed(path) from error
        # The answer holds the checksum of the bytes that arrived; it must match the bytes that were sent.
        if (
            "md5Hash" in made
            and made["md5Hash"] != b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()
        ):
            raise OSError(f"the server received other bytes than were sent (md5 {made['md5Hash']})")
        return made["generation"]

    async def list(self, path: str) -> list[Listed]:
        items, folders = await self.files._do_list_objects(path, delimiter="/")
        found = [Listed(item["name"].rsplit("/", 1)[-1], item["generation"]) for item in items]
        return found + [Listed(folder.rstrip("/").rsplit("/", 1)[-1], "") for folder in folders]

    async def walk(self, path: str) -> dict[str, Stored]:
        items, _ = await self.files._do_list_objects(path, delimiter="")
        return {item["name"].removeprefix(f"{path}/"): _stored(item) for item in items if item["name"] != f"{path}/"}

    async def any_below(self, path: str) -> bool:
        items, _ = await self.files._do_list_objects(path, delimiter="", max_results=1)
        return bool(items)

    async def info(self, path: str) -> Stored:
        return _stored(await self.files._get_object(path))

    async def location(self, bucket: str) -> str:
        """Return the region of a bucket, as the provider writes it. A bucket in two regions has both, joined by +."""
        answer = await self.files._call("GET", "b/{}", bucket, json_out=True)
        both = answer.get("customPlacementConfig", {}).get("dataLocations", [])
        return "+".join(both) or answer["location"]

    async def remove(self, path: str, names: list[str]) -> None:
        for outcome in await self.files._delete_files([f"{path}/{name}" for name in names], 100):
            if isinstance(outcome, Exception) and not isinstance(outcome, FileNotFoundError):
                raise outcome


def _stored(item: Any) -> Stored:
    checksum = f"md5:{b64decode(item['md5Hash']).hex()}" if item.get("md5Hash") else f"crc32c:{item.get('crc32c', '')}"
    when = item.get("updated", item.get("timeCreated"))
    modified = datetime.fromisoformat(when).timestamp() if isinstance(when, str) else when.timestamp() if when else 0.0
    return Stored(size=int(item["size"]), checksum=checksum, modified=modified)
