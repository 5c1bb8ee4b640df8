"""Reading and conditional writing on Google Cloud Storage, through gcsfs."""

# pyright: basic

from __future__ import annotations

from typing import Any

from marin.objects.conditional import ABSENT, Content, Listed, PreconditionFailed


class GoogleCalls:
    """One call each; versions are generations. Raises what gcsfs raises, FileNotFoundError for a missing bucket."""

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
        condition = {} if only_if is None else {"ifGenerationMatch": "0" if only_if == ABSENT else only_if}
        try:
            made = await self.files._call(
                "POST",
                f"{self.files._location}/upload/storage/v1/b/{quote(bucket)}/o",
                uploadType="media",
                name=key,
                headers={"Content-Type": "application/octet-stream"},
                data=content,
                json_out=True,
                **condition,
            )
        except FileExistsError as error:
            raise PreconditionFailed(path) from error
        return made["generation"]

    async def list(self, path: str) -> list[Listed]:
        items, folders = await self.files._do_list_objects(path, delimiter="/")
        found = [Listed(item["name"].rsplit("/", 1)[-1], item["generation"]) for item in items]
        return found + [Listed(folder.rstrip("/").rsplit("/", 1)[-1], "") for folder in folders]
