"""Extract: HTML pages and WARC files → text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from marin import Context, Directory, Documents, ExecutorStep, RawFiles, Size
from marin.errors import BadField, GarbledDocument
from marin.text.extract import Content, Extractor

if TYPE_CHECKING:
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, Sieved
    from marin.text.extract import Page, Refused

type Work = tuple[Directory, tuple[str, ...], Directory, int, int, Extractor, Content, str]


class Extract(ExecutorStep[Documents], op="extract", version=1):
    """One document per HTML page, in the order of file names; metadata says which page.

    What gave no text is counted by reason in ``dropped`` and listed, by name, in the sidecar.
    shards: at most; there are never more than files. Raises GarbledDocument if there is no file and
    OverRemoval if more than max_removed of the pages gave nothing.
    """

    raw: ExecutorStep[RawFiles]
    extractor: Extractor = Extractor.RESILIPARSE
    content: Content = Content.MAIN
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
        from marin.data.dropped import check_removed, total

        inputs = ctx[self.raw].directory
        names = inputs.names()
        if not names:
            raise GarbledDocument(f"{self.name}: {self.raw.name} holds no file, so there is nothing to extract")
        shards = min(self.shards, len(names))
        cuts = [len(names) * index // shards for index in range(shards + 1)]
        work: list[Work] = [
            (inputs, tuple(names[a:b]), ctx.out, index, shards, self.extractor, self.content, self.source)
            for index, (a, b) in enumerate(pairwise(cuts))
        ]
        sieved = total(ctx.map(extract_files, work))
        check_removed(self.name, self.raw.name, sieved, self.max_removed, ctx.out)
        return Documents(documents=sieved.documents, bytes=sieved.bytes, shards=shards, dropped=sieved.dropped)


def extract_files(work: Work) -> Sieved:
    """Extract some files into one shard."""
    from marin.data.documents import Document
    from marin.data.dropped import Dropped, write_sieved
    from marin.text.extract import Refused, page_text

    inputs, names, out, index, shards, extractor, content, source = work

    def verdicts() -> Iterator[Document | Dropped]:
        for name in names:
            for page in pages(inputs, name):
                text = page if isinstance(page, Refused) else page_text(page, extractor, content)
                if isinstance(text, Refused):
                    yield Dropped(text.name, text.reason, {"detail": text.detail})
                else:
                    yield Document(text, source, {"page": page.name})

    return write_sieved(out, index, shards, verdicts())


def pages(inputs: Directory, name: str) -> Iterator[Page | Refused]:
    """The pages of one file, told by its suffix."""
    from marin.text.extract import Page, Refused, warc_pages

    lower = name.lower()
    if lower.endswith((".warc", ".warc.gz")):
        with inputs.open(name) as stream:
            yield from warc_pages(stream, name)
    elif lower.endswith((".html", ".htm", ".xhtml")):
        yield Page(name, inputs.read_bytes(name))
    else:
        yield Refused(name, "unknown_format", "wanted .html, .htm, .xhtml, .warc or .warc.gz")
