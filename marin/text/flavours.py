"""Flavours of pages: sites with uniform pages, for which the place of the text and of clutter in it is known."""

# pyright: basic
from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from marin.steps.value import value


@value("flavour")
class Flavour(Enum):
    """A kind of page. WEB: any page. WIKIPEDIA: a wiki article without references, navigation and boxes.

    AR5IV: a paper of arXiv as LaTeXML writes it, without bibliography.
    STACKEXCHANGE: a question and its answers, best first, with their scores.
    """

    _value_: str
    WEB = "web"
    WIKIPEDIA = "wikipedia"
    AR5IV = "ar5iv"
    STACKEXCHANGE = "stackexchange"


@dataclass(frozen=True)
class Shape:
    """Selectors for a flavour. roots: elements that hold the text; the first one present counts.

    dropped: elements to remove from the text. title: the heading, outside the root.
    """

    roots: tuple[str, ...]
    dropped: str
    title: str = ""


SHAPES = {
    Flavour.WIKIPEDIA: Shape(
        ("#mw-content-text .mw-parser-output", "#mw-content-text", "#bodyContent"),
        ".mw-editsection, .mw-cite-backlink, sup.reference, .reflist, ol.references, .mw-references-wrap, .navbox, "
        ".infobox, .hatnote, .toc, #toc, .noprint, .metadata, .ambox, .sistersitebox, .mw-jump-link, .catlinks, "
        ".printfooter, .mw-empty-elt, .shortdescription, .nomobile, .vertical-navbox, .sidebar, .gallery, style",
        "h1#firstHeading",
    ),
    Flavour.AR5IV: Shape(
        ("article.ltx_document", ".ltx_page_content", ".ltx_document"),
        ".ltx_bibliography, .ltx_page_footer, .ltx_page_header, .ltx_page_navbar, .ltx_TOC, .ltx_ERROR, "
        ".ltx_role_pubnote, .ltx_authors, .ltx_dates, .ltx_note_mark, .ltx_tag_equation, .ltx_eqn_eqno, .ar5iv-footer, "
        "footer, nav, style",
    ),
    Flavour.STACKEXCHANGE: Shape(
        ("#question",),
        ".comments, .js-comments-container, .post-signature, .js-post-menu, .s-notice, .post-notice, button, style",
        "#question-header h1, h1",
    ),
}


def narrowed(tree: Any, flavour: Flavour) -> str | None:
    """Return the HTML of the text alone, or None if the page is not of this flavour."""
    shape = SHAPES[flavour]
    body: Any = tree.body
    if body is None:
        return None
    found = [body.query_selector(root) for root in shape.roots]
    root = next((each for each in found if each is not None), None)
    if root is None:
        return None
    title: Any = body.query_selector(shape.title) if shape.title else None
    heading = f"<h1>{_escaped(' '.join(title.text.split()))}</h1>" if title is not None else ""
    text = _posts(body) if flavour is Flavour.STACKEXCHANGE else _without(root, shape.dropped)
    return f"<html><body><main>{heading}{text}</main></body></html>"


def _posts(page: Any) -> str:
    """Return the question's text (the first post), then each answer below a heading with its score."""
    answers: list[tuple[bool, int, str]] = []
    for answer in page.query_selector_all(".answer"):
        score = answer.getattr("data-score") or _text(answer.query_selector(".js-vote-count")) or "0"
        accepted = "accepted-answer" in (answer.getattr("class") or "")
        value = int(score) if score.lstrip("+-").isdecimal() else 0
        answers.append((accepted, value, _post(answer)))
    best_first = sorted(answers, key=lambda each: (not each[0], -each[1]))
    written = [
        f"<h2>Answer (score {score}{', accepted' if accepted else ''})</h2>{body}"
        for accepted, score, body in best_first
    ]
    return _post(page) + "".join(written)


def _post(node: Any) -> str:
    body: Any = node.query_selector(".js-post-body, .s-prose, .post-text")
    return _without(body, SHAPES[Flavour.STACKEXCHANGE].dropped) if body is not None else ""


def _without(node: Any, dropped: str) -> str:
    for each in node.query_selector_all(dropped):
        if each.parent is not None:
            each.decompose()
    return node.html


def _text(node: Any) -> str:
    return node.text.strip() if node is not None else ""


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")
