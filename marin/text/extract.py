"""Extract text from HTML and WARC. A page without usable text is refused with a reason that can be counted."""

# pyright: basic
from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any

from marin.steps.value import value
from marin.text.flavours import Flavour, narrowed
from marin.text.markup import Kept
from marin.text.normalize import normalize


@value("extractor")
class Extractor(Enum):
    """The tool that extracts text. RESILIPARSE is fast. TRAFILATURA removes more text that is not the article.

    With both, code, tables, formulas and headings become Markdown (marin.text.markup). docs/howto/clean-text.md has
    measurements.
    """

    _value_: str
    RESILIPARSE = "resiliparse"
    TRAFILATURA = "trafilatura"


@value("content")
class Content(Enum):
    """The part of a page to extract. MAIN: without navigation, headers and footers. WHOLE: all visible text."""

    _value_: str
    MAIN = "main"
    WHOLE = "whole"


@dataclass(frozen=True)
class Page:
    """A page to extract. charset: as the server declared it, or None. url: of a crawled page."""

    name: str
    html: bytes
    charset: str | None = None
    url: str = ""


@dataclass(frozen=True)
class Refused:
    """A page that gave no text. reason: one of a few words, to be counted. detail: for people."""

    name: str
    reason: str
    detail: str


GZIP = b"\x1f\x8b\x08"
RECORD = re.compile(re.escape(GZIP) + rb"|(?<=\r\n\r\n)WARC/\d\.\d\r\n")

# Above this share of undecodable characters a page is not text in its charset.
MOST_UNDECODABLE = 0.05


def page_text(page: Page, extractor: Extractor, content: Content, flavour: Flavour = Flavour.WEB) -> str | Refused:
    """Return the page's text, normalised. A flavour other than WEB marks the text's place, so all text there is taken.

    Refused as ``no_text``: the page shows no text. ``all_lost``: the extractor takes none of the visible text.
    ``other_kind``: the page is not of its flavour.
    """
    from resiliparse.parse.html import HTMLTree

    html = decode(page)
    if isinstance(html, Refused):
        return html
    tree = HTMLTree.parse(html)
    if flavour is not Flavour.WEB:
        text_alone = narrowed(tree, flavour)
        if text_alone is None:
            return Refused(page.name, "other_kind", f"it has not the parts of a {flavour.value} page")
        tree, content, extractor = HTMLTree.parse(text_alone), Content.WHOLE, Extractor.RESILIPARSE
    kept = Kept()
    kept.mark(tree)
    extracted = _resiliparse(tree, content) if extractor is Extractor.RESILIPARSE else _trafilatura(tree, content)
    text = normalize(kept.restore(extracted))
    if text.strip():
        return text
    visible = kept.restore(_resiliparse(tree, Content.WHOLE)).strip()
    if visible:
        return Refused(
            page.name, "all_lost", f"{extractor.value} takes none of {len(visible)} characters, {visible[:80]!r}"
        )
    return Refused(page.name, "no_text", f"{len(page.html)} bytes of HTML hold no visible text")


def decode(page: Page) -> str | Refused:
    """Return the page as a string, by its declared charset if that fits, else by a guess from its bytes."""
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding

    if not page.html.strip():
        return Refused(page.name, "empty", f"{len(page.html)} bytes, all blank")
    if page.charset:
        try:
            return page.html.decode(page.charset)
        except (UnicodeDecodeError, LookupError):
            pass  # servers often lie; the bytes decide
    html = bytes_to_str(page.html, detect_encoding(page.html, html5_compatible=True) or "utf-8", errors="replace")
    bad = html.count("\ufffd") + html.count("\x00")
    if bad > MOST_UNDECODABLE * len(html):
        return Refused(page.name, "undecodable", f"{bad} of {len(html)} characters are undecodable or NUL")
    return html


def warc_pages(stream: IO[bytes], name: str) -> Iterator[Page | Refused]:
    """Yield the HTML pages of a WARC file (plain or compressed), and a refusal for every other response.

    stream: must be able to seek. A damaged stretch ends at the next whole record, and is one ``broken_warc``. So is a
    file that is no WARC. A page that differs from its digest is ``damaged``.
    """
    begin, warned = 0, False
    while True:
        last = begin
        try:
            for record in _records(stream, begin):
                last, warned = record.stream_pos, False
                yield _checked(record, f"{name}#{record.headers.get('WARC-Target-URI') or record.record_id}")
            return
        # fastwarc raises these for broken headers, compressed streams and chunked bodies.
        except (OSError, EOFError, ValueError, RuntimeError) as error:
            following = _next_record(stream, last + 1)
            if not warned or following is None:
                ends = "to its end" if following is None else f"to byte {following} or beyond"
                yield Refused(name, "broken_warc", f"from the record at byte {last} {ends}: {error}")
            warned = True
            if following is None:
                return
            begin = following


def _records(stream: IO[bytes], begin: int) -> Iterator[Any]:
    from fastwarc.warc import ArchiveIterator, resource, response

    stream.seek(begin)
    reader: Any = stream
    yield from ArchiveIterator(reader, record_types=response | resource, parse_http=False, strict_mode=False)


def _checked(record: Any, where: str) -> Page | Refused:
    declared = record.content_length
    record.freeze()
    if record.content_length != declared:  # fastwarc itself says nothing when the file ends early
        return Refused(where, "truncated", f"{record.content_length} of {declared} bytes are there")
    if "WARC-Block-Digest" in record.headers and not record.verify_block_digest():
        return Refused(where, "damaged", "its bytes are not those that its digest names")
    if record.is_http:
        record.parse_http(strict_mode=False, auto_decode="all")
    return _page(record, where)


def _next_record(stream: IO[bytes], begin: int) -> int | None:
    """Return the start of the next record, or of the next compressed member that holds a record."""
    stream.seek(begin)
    block, start = b"", begin
    while more := stream.read(1 << 20):
        block += more
        for match in RECORD.finditer(block):
            head = block[match.start() : match.start() + 4096]
            if match[0] != GZIP or _unpacked(head).startswith(b"WARC/"):
                return start + match.start()
        kept = 4096  # may hold the first bytes of a record, or too few to tell
        start, block = start + max(0, len(block) - kept), block[-kept:]
    return None


def _unpacked(member: bytes) -> bytes:
    try:
        return zlib.decompressobj(31).decompress(member, 64)
    except zlib.error:
        return b""


def _page(record: Any, where: str) -> Page | Refused:
    status = record.http_headers.status_code if record.http_headers else None
    kind = record.http_content_type or record.headers.get("Content-Type") or "nothing"
    if status is not None and status != 200:
        return Refused(where, "http_status", f"answered {status}")
    if kind.split(";")[0].strip().lower() not in ("text/html", "application/xhtml+xml"):
        return Refused(where, "not_html", f"content type {kind}")
    return Page(where, record.reader.read(), record.http_charset, record.headers.get("WARC-Target-URI") or "")


def _resiliparse(tree: Any, content: Content) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    main = content is Content.MAIN
    return extract_plain_text(
        tree, preserve_formatting=True, main_content=main, alt_texts=False, links=False, comments=not main
    )


def _trafilatura(tree: Any, content: Content) -> str:
    import trafilatura

    html = str(tree.document.html)
    if content is Content.WHOLE:
        return trafilatura.html2txt(html)
    # deduplicate=False, because its cache is shared by documents, so the output would depend on their order.
    return trafilatura.extract(html, favor_precision=True, deduplicate=False, include_comments=False) or ""
