"""Tell the operation and the object of a request to an object store, in any dialect."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import unquote


class Kind(StrEnum):
    GS = "gs"
    S3 = "s3"


class Operation(StrEnum):
    """BEGIN opens an upload in parts and PART adds to it; WRITE makes an object (the last part may)."""

    READ = "read"
    INFO = "info"
    WRITE = "write"
    BEGIN = "begin"
    PART = "part"
    DELETE = "delete"
    LIST = "list"
    OTHER = "other"


@dataclass(frozen=True)
class Call:
    """name: of the object, or the prefix of a listing."""

    operation: Operation
    bucket: str = ""
    name: str = ""


GS_OBJECT = re.compile(r"/(?:(?:upload|download)/)?storage/v1/b/([^/]+)/o(?:/(.*))?")
GS_COPY = re.compile(r"(.*)/(?:rewriteTo|copyTo)/b/([^/]+)/o/(.*)")


def read_call(kind: Kind, method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes) -> Call:
    """path: still percent-encoded."""
    if kind is Kind.GS:
        return _google_call(method, path, query, body)
    bucket, _, name = unquote(path.lstrip("/")).partition("/")
    if not name:
        listing = method == "GET" and "list-type" in query
        return Call(Operation.LIST if listing else Operation.OTHER, bucket, query.get("prefix", ""))
    if method == "POST":
        return Call(Operation.BEGIN if "uploads" in query else Operation.WRITE, bucket, name)
    operations = {"GET": Operation.READ, "HEAD": Operation.INFO, "DELETE": Operation.DELETE, "PUT": Operation.WRITE}
    part = method == "PUT" and "partNumber" in query
    return Call(Operation.PART if part else operations.get(method, Operation.OTHER), bucket, name)


def _google_call(method: str, path: str, query: dict[str, str], body: bytes) -> Call:
    found = GS_OBJECT.fullmatch(path)
    if found is None:
        return Call(Operation.OTHER)
    bucket, name = unquote(found[1]), found[2]
    if path.startswith("/upload/"):
        if "upload_id" in query:
            return Call(Operation.PART, bucket, query.get("name", ""))
        described = split_multipart(body)[0] if query.get("uploadType") == "multipart" else {}
        begins = query.get("uploadType") == "resumable"
        wanted = query.get("name") or str(described.get("name", ""))
        return Call(Operation.BEGIN if begins else Operation.WRITE, bucket, wanted)
    if name is None:
        return Call(Operation.LIST if method == "GET" else Operation.OTHER, bucket, query.get("prefix", ""))
    copied = GS_COPY.fullmatch(name)
    if copied:
        return Call(Operation.WRITE, unquote(copied[2]), unquote(copied[3]))
    if method == "GET":
        media = query.get("alt") == "media" or path.startswith("/download/")
        return Call(Operation.READ if media else Operation.INFO, bucket, unquote(name))
    return Call(Operation.DELETE if method == "DELETE" else Operation.OTHER, bucket, unquote(name))


def split_multipart(body: bytes) -> tuple[dict[str, object], bytes]:
    """Metadata and content of a ``multipart/related`` upload, byte for byte."""
    boundary = body[: body.index(b"\n")].rstrip()
    opening, rest = _after_headers(body)
    described, _, rest = rest.partition(b"\n" + boundary)
    content = _after_headers(rest)[1]
    end = content.rindex(b"\n" + boundary)
    if content[end - 1 : end] == b"\r" and opening.endswith(b"\r\n\r\n"):
        end -= 1
    return json.loads(described), content[:end]


def _after_headers(part: bytes) -> tuple[bytes, bytes]:
    blank = re.search(rb"\r?\n\r?\n", part)
    assert blank is not None, part[:200]
    return part[: blank.end()], part[blank.end() :]
