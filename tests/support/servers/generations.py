"""Add to the GCS emulator the features that only real GCS has: generations, pages of listings, and bucket locations.

Generations are preconditions and headers. Measured on gcp-storage-emulator 2026.7.19: it ignores
``ifGenerationMatch`` and, in listings, ``maxResults``. A download carries no ``x-goog-generation``. An upload loses a
carriage return at its end, because the body goes through Python's e-mail parser.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urlencode

from tests.support.servers.calls import Call, Operation, split_multipart


@dataclass(frozen=True)
class Request:
    """path: percent-encoded."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


type Ask = Callable[[Request], Awaitable[Answer]]


def refusal(status: int, message: str) -> Answer:
    error = {"error": {"code": status, "message": message, "errors": [{"message": message}]}}
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(error).encode())


async def answer(ask: Ask, request: Request, call: Call) -> Answer:
    """Return the emulator's answer with the missing features. The caller keeps others from the object meanwhile."""
    if call.operation is Operation.PART and request.method == "DELETE":
        return Answer(499)  # the upload is cancelled
    if call.operation is Operation.LIST:
        return _page(await ask(_without(request, "maxResults", "pageToken")), request.query)
    conditions = {name: held for name, held in request.query.items() if name.startswith("ifGeneration")}
    generation = 0
    if conditions or call.operation is Operation.READ:
        generation = await _generation(ask, request, call)
    if conditions.get("ifGenerationMatch", str(generation)) != str(generation):
        return refusal(412, "At least one of the pre-conditions you specified did not hold.")
    if conditions.get("ifGenerationNotMatch", "-1") == str(generation):
        return Answer(304)
    # A session that was opened under a condition is bound by it when it ends.
    kept = () if call.operation in (Operation.BEGIN, Operation.PART) else tuple(conditions)
    given = await ask(_repaired(_without(request, *kept)))
    if call.operation is Operation.READ and given.status in (200, 206):
        given = replace(given, headers={**given.headers, "x-goog-generation": str(generation)})
    if given.status == 404 and not given.body:
        return refusal(404, f"No such object: {call.bucket}/{call.name}")
    return given


async def _generation(ask: Ask, request: Request, call: Call) -> int:
    path = f"/storage/v1/b/{quote(call.bucket)}/o/{quote(call.name, safe='')}"
    found = await ask(Request("GET", path, {}, {"Host": request.headers.get("Host", "")}, b""))
    return int(json.loads(found.body)["generation"]) if found.status == 200 else 0


def _without(request: Request, *names: str) -> Request:
    return replace(request, query={name: held for name, held in request.query.items() if name not in names})


def unconditional(request: Request) -> Request:
    """The same in both dialects, bound to nothing."""
    headers = {
        name: held for name, held in request.headers.items() if name.lower() not in ("if-match", "if-none-match")
    }
    return replace(_without(request, "ifGenerationMatch"), headers=headers)


def _repaired(request: Request) -> Request:
    """An upload as the emulator takes it whole: plain if there are bytes, in two parts if there are none."""
    kind = request.query.get("uploadType")
    if kind not in ("media", "multipart"):
        return request
    described, content = split_multipart(request.body) if kind == "multipart" else ({}, request.body)
    name = request.query.get("name") or str(described["name"])
    if content:
        headers = {**request.headers, "Content-Type": "application/octet-stream"}
        return replace(request, query={"uploadType": "media", "name": name}, headers=headers, body=content)
    empty = f"--=\r\n\r\n{json.dumps({'name': name})}\r\n--=\r\nContent-Type: text/plain\r\n\r\n\r\n--=--\r\n"
    headers = {**request.headers, "Content-Type": 'multipart/related; boundary="="'}
    return replace(request, query={"uploadType": "multipart"}, headers=headers, body=empty.encode())


def _page(given: Answer, query: dict[str, str]) -> Answer:
    if given.status != 200:
        return given
    whole = json.loads(given.body)
    held = sorted([(item["name"], item) for item in whole["items"]] + [(name, None) for name in whole["prefixes"]])
    after = query.get("pageToken", "")
    rest = [entry for entry in held if entry[0] > after]
    page = rest[: int(query.get("maxResults", 1000))]
    whole["items"] = [item for _, item in page if item is not None]
    whole["prefixes"] = [name for name, item in page if item is None]
    if len(page) < len(rest):
        whole["nextPageToken"] = page[-1][0]
    return replace(given, body=json.dumps(whole).encode())


def hide(given: Answer, hidden: str) -> Answer:
    """Return a listing without the objects whose name matches, as an eventually consistent store does."""
    if given.headers.get("Content-Type", "").startswith("application/json"):
        whole = json.loads(given.body)
        whole["items"] = [item for item in whole["items"] if not re.search(hidden, item["name"])]
        return replace(given, body=json.dumps(whole).encode())

    def kept(found: re.Match[bytes]) -> bytes:
        name = re.search(rb"<Key>(.*?)</Key>", found[0])
        return b"" if name and re.search(hidden, name[1].decode()) else found[0]

    return replace(given, body=re.sub(rb"<Contents>.*?</Contents>", kept, given.body, flags=re.DOTALL))


def located(request: Request, given: Answer, locations: dict[str, str]) -> Answer:
    """A bucket as it was made: the emulator says of each that it is in US. locations: of the buckets made so far."""
    if request.path == "/storage/v1/b" and request.method == "POST":
        made = json.loads(request.body)
        locations[made["name"]] = made.get("location", "US")
    bucket = request.path.removeprefix("/storage/v1/b/")
    if request.method != "GET" or given.status != 200 or bucket not in locations:
        return given
    return replace(given, body=json.dumps({**json.loads(given.body), "location": locations[bucket]}).encode())
