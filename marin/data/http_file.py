"""HttpFile: one file on the web, pinned by its checksum."""

from __future__ import annotations

from marin.steps.value import value


@value("http_file")
class HttpFile:
    """A file on the web. sha256: 64 hex digits, "" if none is published. name: in the output, "" for the URL's end."""

    url: str
    sha256: str
    name: str = ""

    @property
    def path(self) -> str:
        return self.name or self.url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]
