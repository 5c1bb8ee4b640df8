"""Test that pages become text. Broken input is refused with a reason and crashes nothing."""

import gzip
import io
import random
from collections import Counter
from html.parser import HTMLParser
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marin.text.extract import Content, Extractor, Page, Refused, page_text, warc_pages
from marin.text.normalize import light_words, normalize
from tests.shared_data import shared

PAGE = (
    "<html><body><nav>Menu entry</nav><main><h1>Nature</h1><p>A first paragraph of the article, long enough to be "
    "taken for content by anyone.</p><pre>def f():\n    return 1</pre><ul><li>one point</li><li>another</li></ul>"
    "<p>A second paragraph, which ends the article with a few words more.</p></main>"
    "<script>var hidden = 1;</script></body></html>"
)


@pytest.mark.parametrize("extractor", Extractor)
def test_content_stays_and_chrome_goes(extractor: Extractor) -> None:
    text = page_text(Page("p", PAGE.encode()), extractor, Content.MAIN)
    assert isinstance(text, str)
    for wanted in ("Nature", "first paragraph", "    return 1", "second paragraph"):
        assert wanted in text
    for unwanted in ("Menu", "hidden", "<"):
        assert unwanted not in text
    assert text == normalize(text)
    whole = page_text(Page("p", PAGE.encode()), extractor, Content.WHOLE)
    assert isinstance(whole, str)
    assert "Menu entry" in whole
    assert "one point" in whole  # resiliparse takes a short list for navigation


@pytest.mark.parametrize(
    ("html", "charset"),
    [
        ("naïve café €".encode(), "utf-8"),
        ("naïve café €".encode(), None),
        ("naïve café €".encode(), "no-such-charset"),
        ("naïve café €".encode("cp1252"), "windows-1252"),
        ("naïve café €".encode("cp1252") + b" " * 50, "utf-8"),
    ],
)
def test_charsets(html: bytes, charset: str | None) -> None:
    html = b"<html><body><p>" + html + b"</p></body></html>"
    assert page_text(Page("p", html, charset), Extractor.RESILIPARSE, Content.WHOLE) == "naïve café €"


@pytest.mark.parametrize("extractor", Extractor)
@pytest.mark.parametrize(
    ("html", "reason"),
    [
        (b"", "empty"),
        (b" \n ", "empty"),
        (b"\x89PNG\r\n\x1a\n" + bytes(5000), "undecodable"),
        (b"<html><body><script>f()</script></body></html>", "no_text"),
        (b"<", None),
        (b"<p" * 10000, None),
        (b"<div>" * 3000 + b"deep", None),
        (b"<html><p>unclosed <b>tags <i>everywhere", None),
    ],
)
def test_broken_pages_give_a_reason_or_text(extractor: Extractor, html: bytes, reason: str | None) -> None:
    for content in Content:
        found = page_text(Page("p", html), extractor, content)
        if reason is not None:
            assert isinstance(found, Refused)
            assert (found.name, found.reason) == ("p", reason)
        else:
            assert isinstance(found, Refused) or found.strip()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([b"<p>", b"</p>", b"<table><td>", b"&#0;", b"\xff", b"<!--", b"x", b"]]>"])))
def test_any_soup_is_survived(parts: list[bytes]) -> None:
    found = page_text(Page("p", b"".join(parts)), Extractor.RESILIPARSE, Content.MAIN)
    assert isinstance(found, (str, Refused))


def read(content: bytes) -> tuple[list[str], Counter[str]]:
    pages, reasons = list[str](), Counter[str]()
    for page in warc_pages(io.BytesIO(content), "w"):
        if isinstance(page, Refused):
            reasons[page.reason] += 1
        else:
            pages.append(page.name)
    return pages, reasons


# Some of warcio's test files are broken on purpose.
@pytest.mark.parametrize(
    ("name", "pages", "reasons"),
    [
        ("example.warc", 1, {}),
        ("example.warc.gz", 1, {}),
        ("example-bad-non-chunked.warc.gz", 1, {}),
        ("example-bad.warc.gz.bad", 1, {"http_status": 1}),
        ("example-iana.org-chunked.warc", 1, {}),
        ("example-resource.warc.gz", 1, {}),
        ("example-space-in-target-uri.warc.gz", 0, {"not_html": 1}),
        ("example-trunc.warc", 0, {"damaged": 1, "broken_warc": 1}),
        ("example-wrong-chunks.warc.gz", 0, {"damaged": 1}),
        ("post-test.warc.gz", 0, {"not_html": 3}),
        ("example.arc.gz", 0, {"broken_warc": 1}),
        ("bad.arc", 0, {"broken_warc": 1}),
    ],
)
def test_warcio_files(name: str, pages: int, reasons: dict[str, int]) -> None:
    content = shared(f"warcio-testdata/test/data/{name}").read_bytes()
    found, refused = read(content)
    assert (len(found), dict(refused)) == (pages, reasons)


@pytest.mark.parametrize("unpacked", [False, True], ids=["gzip", "plain"])
def test_a_damaged_crawl_loses_one_page_and_says_so(unpacked: bool) -> None:
    content = shared("commoncrawl-warc/sample-0000.warc.gz").read_bytes()
    content = gzip.decompress(content) if unpacked else content
    whole, reasons = read(content)
    assert len(whole) == 22
    assert reasons == {"not_html": 2}
    chance = random.Random(3)
    for _ in range(12):
        cut = content[: chance.randrange(1, len(content))]
        found, reasons = read(cut)
        assert found == whole[: len(found)]
        assert reasons["broken_warc"] + reasons["truncated"] <= 1
        flipped = bytearray(content)
        flipped[len(cut)] ^= 0x55
        found, reasons = read(bytes(flipped))
        assert set(found) <= set(whole)
        assert len(found) >= len(whole) - 1
        if len(found) < len(whole):
            assert reasons["broken_warc"] + reasons["damaged"] + reasons["truncated"] == 1


class VisibleText(HTMLParser):
    """A slow reference: the text between tags, outside script, style and head."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.hidden = 0
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style", "head")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style", "head")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.words += light_words(data)


def test_real_pages_keep_their_words() -> None:
    paths = sorted(shared("mdn-html").rglob("*.html"), key=lambda path: (-path.stat().st_size, path))[:60]
    kept: list[float] = []
    for path in paths:
        visible = set(VisibleText(path.read_text()).words)
        text = page_text(Page(path.name, path.read_bytes()), Extractor.RESILIPARSE, Content.WHOLE)
        if len(visible) > 20 and isinstance(text, str):
            kept.append(len(visible & set(light_words(text))) / len(visible))
    assert len(kept) > 30
    assert median(kept) > 0.99
    assert sum(share > 0.9 for share in kept) > 0.8 * len(kept)  # the rest: forms and hidden parts
