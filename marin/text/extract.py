"""HTML and WARC to text. What cannot be text is refused with a reason that can be counted."""

# pyright: basic
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import IO, Any

from marin.steps.value import value
from marin.text.normalize import normalize


@value("extractor")
class Extractor(Enum):
    """RESILIPARSE: text with its layout, 148 MB/s a core, F1 .927. TRAFILATURA: Markdown, 9 MB/s, F1 .964.

    Measured on the article-extraction-benchmark.
    """

    _value_: str
    RESILIPARSE = "resiliparse"
    TRAFILATURA = "trafilatura"


@value("content")
class Content(Enum):
    """MAIN: without navigation, headers and footers. WHOLE: everything that is visible."""

    _value_: str
    MAIN = "main"
    WHOLE = "whole"


@dataclass(frozen=True)
class Page:
    """Something to extract. charset: as its server declared it, if it did."""

    name: str
    html: bytes
    charset: str | None = None


@dataclass(frozen=True)
class Refused:
    """Something that gave no text. reason: one of a few words, to be counted; detail: for a person."""

    name: str
    reason: str
    detail: str


# Above this share of undecodable characters a page is not text in its charset.
MOST_UNDECODABLE = 0.05


def page_text(page: Page, extractor: Extractor, content: Content) -> str | Refused:
    """The page's text, normalised."""
    html = decode(page)
    if isinstance(html, Refused):
        return html
    extracted = _resiliparse(html, content) if extractor is Extractor.RESILIPARSE else _trafilatura(html, content)
    text = normalize(extracted)
    if not text.strip():
        return Refused(page.name, "no_text", f"{len(page.html)} bytes of HTML hold no visible text")
    return text


def decode(page: Page) -> str | Refused:
    """The page as a string, by its declared charset if that fits, else by what its bytes look like."""
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
    """The HTML pages of a WARC file (plain or compressed), and a refusal for every other response.

    A file that breaks off or is no WARC yields what could be read and then one ``broken_warc``.
    """
    from fastwarc.warc import ArchiveIterator, resource, response

    read = 0
    try:
        reader: Any = stream
        for record in ArchiveIterator(reader, record_types=response | resource, parse_http=False, strict_mode=False):
            where = f"{name}#{record.headers.get('WARC-Target-URI') or record.record_id}"
            declared = record.content_length
            record.freeze()
            if record.content_length != declared:  # fastwarc itself says nothing when the file ends early
                yield Refused(where, "truncated", f"{record.content_length} of {declared} bytes are there")
                continue
            if record.is_http:
                record.parse_http(strict_mode=False, auto_decode="all")
            yield _page(record, where)
            read += 1
    # What fastwarc raises for broken headers, compressed streams and chunked bodies.
    except (OSError, EOFError, ValueError, RuntimeError) as error:
        yield Refused(name, "broken_warc", f"after {read} responses: {error}")


def _page(record: Any, where: str) -> Page | Refused:
    status = record.http_headers.status_code if record.http_headers else None
    kind = record.http_content_type or record.headers.get("Content-Type") or "nothing"
    if status is not None and status != 200:
        return Refused(where, "http_status", f"answered {status}")
    if kind.split(";")[0].strip().lower() not in ("text/html", "application/xhtml+xml"):
        return Refused(where, "not_html", f"content type {kind}")
    return Page(where, record.reader.read(), record.http_charset)


def _resiliparse(html: str, content: Content) -> str:
    from resiliparse.extract.html2text import extract_plain_text

    return extract_plain_text(html, preserve_formatting=True, main_content=content is Content.MAIN, alt_texts=False)


def _trafilatura(html: str, content: Content) -> str:
    import trafilatura

    if content is Content.WHOLE:
        return trafilatura.html2txt(html)
    # deduplicate=False: its cache crosses documents, so output would depend on order.
    return trafilatura.extract(html, output_format="markdown", deduplicate=False, include_comments=False) or ""
