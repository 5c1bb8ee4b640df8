"""Keep code with its language, tables, formulas and headings as Markdown, because extractors lose them.

Each block is replaced in the page by its own words between two marks. The length is the same, so an extractor judges
the stand-in as it would judge the block. In the extracted text, Markdown then replaces the stand-in. A block that the
extractor removes stays removed.
"""

# pyright: basic
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from marin.text.mathml import latex_of

MARKED = re.compile(r"zq(\d+)begin\b(.*?)\bzq\1end\b", re.DOTALL)
LEFT_OVER = re.compile(r"[ \t]*\bzq\d+(?:begin|end)\b[ \t]*|\bzqh\d\b[ \t]*")
HEADING = re.compile(r"^[ \t]*(?:#+[ \t]*)?zqh([1-6])[ \t]+", re.MULTILINE)
LANGUAGE = re.compile(
    r"(?:^|[\s;])(?:language-|lang-|highlight-source-|mw-highlight-lang-|brush:\s*|highlight-|sourceCode\s+)"
    r"([A-Za-z][\w+#.-]*)"
)
NO_LANGUAGE = frozenset(("default", "none", "text", "plain", "plaintext", "notranslate", "txt"))
BLOCKS = "table, p, div, ul, ol, dl, form, pre, h1, h2, h3, h4, h5, h6, article, section"
FORMULAS = (
    "mjx-container, .katex-display, .katex, .mwe-math-element, math, script[type^='math/tex'], img.latex, img.tex"
)


class Kept:
    """The Markdown of the marked blocks of one page."""

    def __init__(self) -> None:
        self._blocks: list[str] = []

    def mark(self, tree: Any) -> None:
        """Mark the blocks of a page in its tree, which changes. Raises nothing: an unknown block stays unchanged."""
        if tree.body is None:
            return
        for each in tree.body.query_selector_all(FORMULAS):
            self._formula(tree, each)
        for each in tree.body.query_selector_all("pre"):
            self._code(tree, each)
        for each in tree.body.query_selector_all("table"):
            self._table(tree, each)
        for each in tree.body.query_selector_all("h1, h2, h3, h4, h5, h6"):
            if each.first_child is not None and each.text.strip():
                each.insert_before(tree.create_text_node(f"zqh{each.tag[1]} "), each.first_child)

    def restore(self, text: str) -> str:
        """Return the extracted text with Markdown in place of the marks."""
        text = MARKED.sub(lambda found: f"\n\n{self._blocks[int(found[1])]}\n\n", text)
        return LEFT_OVER.sub("", HEADING.sub(lambda found: "#" * int(found[1]) + " ", text))

    def _stand_in(self, tree: Any, node: Any, markdown: str) -> None:
        mark = tree.create_element("p")
        mark.text = f"zq{len(self._blocks)}begin {' '.join(node.text.split())} zq{len(self._blocks)}end"
        self._blocks.append(markdown)
        node.parent.replace_child(mark, node)

    def _formula(self, tree: Any, node: Any) -> None:
        if node.parent is None or _inside(node, FORMULAS.split(", ")):
            return
        latex, display = _latex(node)
        if not latex:
            return
        written = tree.create_element("span")
        written.text = f" $${latex}$$ " if display else f"${latex}$"
        node.parent.replace_child(written, node)

    def _code(self, tree: Any, node: Any) -> None:
        for numbers in node.query_selector_all(".linenos, .lineno, .line-numbers, .line-numbers-rows, .gutter"):
            numbers.decompose()
        code, language = node.text.strip("\n").rstrip(), _language(node)
        if not code.strip() or not (language or node.query_selector("code, samp, kbd")):
            return  # extractors keep the lines of a pre that is not code
        fence = "```"
        while fence in code:
            fence += "`"
        self._stand_in(tree, node, f"{fence}{language}\n{code}\n{fence}")

    def _table(self, tree: Any, node: Any) -> None:
        if node.query_selector(BLOCKS) or node.getattr("role") == "presentation":
            return  # a table for the page's layout
        rows = [_cells(row) for row in node.query_selector_all("tr")]
        width = max(map(len, rows), default=0)
        linked = sum(len(link.text) for link in node.query_selector_all("a"))
        if len(rows) < 2 or width < 2 or (linked > 0.3 * len(node.text)):
            return
        filled = [row + [""] * (width - len(row)) for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in filled]
        lines.insert(1, "|" + " --- |" * width)
        caption = node.query_selector("caption")
        title = [" ".join(caption.text.split()), ""] if caption else []
        self._stand_in(tree, node, "\n".join(title + lines))


def _cells(row: Any) -> list[str]:
    found: list[str] = []
    for cell in row.child_nodes:
        if cell.tag in ("td", "th"):
            span = cell.getattr("colspan") or "1"
            empty = int(span) - 1 if span.isdecimal() and 1 <= int(span) <= 100 else 0
            found += [" ".join(cell.text.split()).replace("|", r"\|"), *[""] * empty]
    return found


def _language(pre: Any) -> str:
    """Return the language from a class or attribute of the code inside, the element, or the two elements around it."""
    around = [pre.query_selector("code"), pre, pre.parent, pre.parent.parent if pre.parent else None]
    for node in around:
        if node is None or not node.tag or node.tag.startswith("#"):
            continue
        for name in ("data-lang", "data-language", "lang", "class"):
            value = node.getattr(name) or ""
            found = LANGUAGE.search(value) if name == "class" else re.fullmatch(r"([A-Za-z][\w+#.-]*)", value)
            if found and name == "lang" and node is not around[0] and node is not pre:
                continue  # the language of the prose
            if found and found[1].lower() not in NO_LANGUAGE:
                return found[1].lower()
    return ""


def _latex(node: Any) -> tuple[str, bool]:
    """Return the formula's LaTeX, as its author wrote it if the page has that, and whether it is a displayed one."""
    if node.tag == "script":
        return " ".join(node.text.split()), "mode=display" in (node.getattr("type") or "")
    if node.tag == "img":
        return (node.getattr("alt") or "").removeprefix("$").removesuffix("$").strip(), False
    math = node if node.tag == "math" else node.query_selector("math")
    classes = node.getattr("class") or ""
    display = "katex-display" in classes or node.getattr("display") in ("block", "true")
    if math is None:
        image = node.query_selector("img[alt]")
        return (_unwrapped(image.getattr("alt") or "") if image else ""), display
    display = display or math.getattr("display") == "block"
    for annotation in math.query_selector_all("annotation"):
        if "tex" in (annotation.getattr("encoding") or "").lower():
            return _unwrapped(annotation.text), display
    return _unwrapped(math.getattr("alttext") or "") or latex_of(math), display


def _unwrapped(latex: str) -> str:
    """Return the LaTeX without Wikipedia's wrapper."""
    latex = " ".join(latex.split())
    found = re.fullmatch(r"\{\\(?:displaystyle|textstyle)\s+(.*)\}", latex)
    return found[1].strip() if found else latex.removeprefix(r"\displaystyle").strip()


def _inside(node: Any, selectors: Sequence[str]) -> bool:
    """Return whether the node is part of a formula that is replaced as a whole."""
    above = node.parent
    while above is not None and above.tag and above.tag != "body":
        classes = (above.getattr("class") or "").split() if not above.tag.startswith("#") else []
        if above.tag in selectors or any(f".{name}" in selectors for name in classes):
            return True
        above = above.parent
    return False
