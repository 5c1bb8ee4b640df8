"""Extract: turn HTML pages and WARC files into text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, RawFiles, Size
from marin.errors import BadField, GarbledDocument
from marin.text.extract import Content, Extractor
from marin.text.flavours import Flavour

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved
    from marin.text.extract import Page, Refused

type Work = tuple[Directory, tuple[str, ...], int, int, Extractor, Content, Flavour, str]


class Extract(ExecutorStep[Documents], op="extract", version=2):
    """One document per HTML page, in the order of file names. Metadata names the page, and the URL of a crawled page.

    extractor, content, flavour: chosen for each source. A flavour other than WEB knows where its pages have their
    text, and ignores extractor and content. ``dropped`` counts the pages that gave no text, by reason; the sidecar
    lists their names. shards: the most to write; there are never more shards than files.
    Raises GarbledDocument if there is no file, OverRemoval if more than max_removed of the pages gave no text.
    """

    raw: ExecutorStep[RawFiles]
    extractor: Extractor = Extractor.RESILIPARSE
    content: Content = Content.MAIN
    flavour: Flavour = Flavour.WEB
    source: str = "web"
    shards: int = 1
    max_removed: float = 0.9

    def check(self) -> None:
        if self.shards < 1:
            raise BadField(f"Extract.shards is {self.shards}; wanted at least 1")
        if not 0 <= self.max_removed <= 1:
            raise BadField(f"Extract.max_removed is {self.max_removed}; wanted a fraction from 0 to 1")

    def expected_size(self, inputs: Mapping[ExecutorStep[Any], Size]) -> Size | None:
        return inputs.get(self.raw)  # at most

    def run(self, ctx: Context) -> Documents:
        from marin.data.dropped import Sieved, remaining

        inputs = ctx[self.raw].directory
        names = inputs.names()
        if not names:
            raise GarbledDocument(f"{self.name}: {self.raw.name} holds no file, so there is nothing to extract")
        shards = min(self.shards, len(names))
        cuts = [len(names) * index // shards for index in range(shards + 1)]
        work: list[Work] = [
            (
                *(inputs, tuple(names[a:b]), index, shards),
                *(self.extractor, self.content, self.flavour, self.source),
            )
            for index, (a, b) in enumerate(pairwise(cuts))
        ]
        written = ctx.write_shards(extract_files, work, Sieved)
        return remaining(self.name, self.raw.name, written, self.max_removed, ctx.out, ctx.log)


def extract_files(work: Work, out: Directory) -> Sieved:
    """Extract the text of some files into one shard."""
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, write_sieved
    from marin.text.extract import Page, Refused, page_text

    inputs, names, index, shards, extractor, content, flavour, source = work

    def verdicts() -> Iterator[Document | Dropped]:
        for name in names:
            for page in pages(inputs, name):
                text = page if isinstance(page, Refused) else page_text(page, extractor, content, flavour)
                if isinstance(text, Refused):
                    yield Dropped(text.name, text.reason, {"detail": text.detail})
                elif isinstance(page, Page):
                    yield Document(text, source, {"page": page.name} | ({"url": page.url} if page.url else {}))

    return write_sieved(out, index, shards, verdicts())


def pages(inputs: Directory, name: str) -> Iterator[Page | Refused]:
    """Yield the pages of one file. The suffix of its name tells the format."""
    from marin.text.extract import Page, Refused, warc_pages

    lower = name.lower()
    if lower.endswith((".warc", ".warc.gz")):
        with inputs.open(name) as stream:
            yield from warc_pages(stream, name)
    elif lower.endswith((".html", ".htm", ".xhtml")):
        yield Page(name, inputs.read_bytes(name))
    else:
        yield Refused(name, "unknown_format", "wanted .html, .htm, .xhtml, .warc or .warc.gz")
