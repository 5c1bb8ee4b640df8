"""The section of DropShort on the page: the lengths of the documents that stay."""

from statistics import quantiles

from marin.data.documents import read_documents
from marin.report.section import Column, Page, Section, Table
from marin.store.files.directory import Directory

from my_project.drop_short import DropShort


def section(step: DropShort, output: Directory, page: Page) -> Section:
    words = sorted(len(document.text.split()) for document in read_documents(output))
    lengths = [words[0], *(round(each) for each in quantiles(words, n=4)), words[-1]]
    names = ["shortest", "a quarter is shorter", "half", "three quarters", "longest"]
    rows = [[name, f"{length:,}"] for name, length in zip(names, lengths, strict=True)]
    return Section(
        title="Length",
        answer=f"{len(words)} documents have at least {step.words} words.",
        blocks=[Table(title="Words of a document", columns=[Column("document"), Column("words")], rows=rows)],
    )
