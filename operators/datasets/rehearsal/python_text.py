"""Text of every Python installation, as documents: sources that need no network and no account.

Each operator depends on the running Python, which no field can name. ``outside()`` describes this Python, and marin
records the description with the output. Another Python then shows as drift.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from marin import Context, Documents, ExecutorStep, RawFiles
from operators.datasets.rehearsal.docstrings import DocstringForm
from operators.datasets.rehearsal.installation import Share

if TYPE_CHECKING:
    from marin.data.documents import Document

EVERYTHING = Share(0, 1000)


class StandardLibraryCode(ExecutorStep[Documents], op="stdlib-code", version=1):
    """Python source of standard-library modules, one document a file."""

    share: Share = EVERYTHING

    def outside(self) -> dict[str, str]:
        from operators.datasets.rehearsal.installation import library_digest

        return {"python-standard-library": library_digest()}

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document
        from operators.datasets.rehearsal.installation import standard_library

        modules = [module for module in standard_library() if self.share.holds(module.name) and module.size]
        return _write(ctx, (Document(module.source(), f"stdlib/{module.relative}") for module in modules))


class LanguageReference(ExecutorStep[Documents], op="language-reference", version=1):
    """Python's language reference in plain text, in pieces of about 6000 characters without repeats."""

    share: Share = EVERYTHING

    def outside(self) -> dict[str, str]:
        from operators.datasets.rehearsal.installation import reference_digest

        return {"python-language-reference": reference_digest()}

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document
        from operators.datasets.rehearsal.installation import reference_sections

        return _write(
            ctx, (Document(text, f"reference/{name}") for name, text in reference_sections() if self.share.holds(name))
        )


class Docstrings(ExecutorStep[Documents], op="docstrings", version=1):
    """Docstrings of standard-library modules, one document a class or module. The step imports no module.

    shortest: the step leaves out documents with fewer characters.
    """

    share: Share = EVERYTHING
    form: DocstringForm = DocstringForm.PROSE
    shortest: int = 200

    def outside(self) -> dict[str, str]:
        from operators.datasets.rehearsal.installation import library_digest

        return {"python-standard-library": library_digest()}

    def run(self, ctx: Context) -> Documents:
        from marin.data.documents import Document
        from operators.datasets.rehearsal.docstrings import docstrings, write_docstrings
        from operators.datasets.rehearsal.installation import standard_library

        short = 0

        def documents() -> Iterator[Document]:
            nonlocal short
            for module in standard_library():
                if not self.share.holds(module.name):
                    continue
                for group in docstrings(module.name, module.source()):
                    text = write_docstrings(group, self.form)
                    if len(text) < self.shortest:
                        short += 1
                    else:
                        yield Document(text, f"docstrings/{group[0].name}")

        made = _write(ctx, documents())
        return Documents(documents=made.documents, bytes=made.bytes, shards=made.shards, dropped={"short": short})


class PydocPages(ExecutorStep[RawFiles], op="pydoc-html", version=1):
    """HTML pages that pydoc renders for standard-library modules: ``json.decoder.html`` …, to be extracted."""

    share: Share = EVERYTHING

    def outside(self) -> dict[str, str]:
        from operators.datasets.rehearsal.installation import library_digest

        return {"python-standard-library": library_digest()}

    def run(self, ctx: Context) -> RawFiles:
        from operators.datasets.rehearsal.installation import standard_library
        from operators.datasets.rehearsal.pydoc_pages import is_safe, render_pages

        names = [module.name for module in standard_library() if self.share.holds(module.name) and is_safe(module.name)]
        pages = render_pages(names)
        for name, html in pages.items():
            ctx.out.write_text(f"{name}.html", html)
        return RawFiles(files=len(pages), bytes=sum(len(html.encode()) for html in pages.values()))


def _write(ctx: Context, documents: Iterator[Document]) -> Documents:
    from marin.data.documents import write_documents

    count, size, shards = write_documents(ctx.out, documents)
    return Documents(documents=count, bytes=size, shards=shards)
