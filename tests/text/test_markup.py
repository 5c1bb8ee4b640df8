"""Code, tables and formulas of real markup come out as Markdown with either extractor; flavours know their pages."""

from __future__ import annotations

from collections import Counter

import pytest

from marin.text.extract import Content, Extractor, Page, Refused, page_text
from marin.text.flavours import Flavour
from tests.shared_data import shared

PROSE = (
    "<p>The harbour of the town was built in the last century, when ships were small and the wind decided who came in, "
    "and it has been made deeper three times since then, so that larger ones can land.</p>"
    "<p>Most of what it sends away is timber from the hills, which is cut in winter and floats down with the melting "
    "snow; what comes back is salt, cloth and, for some years now, machines of every kind.</p>"
)


def article(inside: str) -> bytes:
    head = "<html><head><title>T</title></head><body><nav><a href='/'>Home</a></nav><main><article><h1>Harbour</h1>"
    return f"{head}{PROSE}{inside}{PROSE}</article></main><footer>Imprint</footer></body></html>".encode()


def extracted(html: bytes, extractor: Extractor, flavour: Flavour = Flavour.WEB) -> str:
    text = page_text(Page("p", html), extractor, Content.MAIN, flavour)
    assert isinstance(text, str), text
    assert "zq" not in text
    return text


CODE = {
    "GitHub": '<div class="highlight highlight-source-python"><pre><span class="pl-k">def</span> f(a):\n    '
    "return a &lt; 1\n</pre></div>",
    "Prism": '<pre><code class="language-python">def f(a):\n    return a &lt; 1\n</code></pre>',
    "Pandoc": '<div class="sourceCode"><pre class="sourceCode python"><code>def f(a):\n    '
    "return a &lt; 1</code></pre></div>",
    "Sphinx": '<div class="highlight-python notranslate"><div class="highlight"><pre><span class="linenos">1</span>'
    "<span>def</span> f(a):\n    return a &lt; 1\n</pre></div></div>",
    "MDN, once": '<pre class="brush: python; notranslate">def f(a):\n    return a &lt; 1\n</pre>',
    "Stack Overflow": '<pre class="lang-python s-code-block"><code class="hljs">def f(a):\n    '
    "return a &lt; 1\n</code></pre>",
    "Wikipedia": '<div class="mw-highlight mw-highlight-lang-python mw-content-ltr"><pre><span></span>def f(a):\n    '
    "return a &lt; 1\n</pre></div>",
}


@pytest.mark.parametrize("extractor", Extractor)
@pytest.mark.parametrize("html", CODE.values(), ids=CODE)
def test_code_keeps_its_lines_and_its_language(extractor: Extractor, html: str) -> None:
    text = extracted(article(html), extractor)
    assert "\n\n```python\n" in text
    assert text.split("```python\n")[1].split("\n```")[0].removeprefix("1") == "def f(a):\n    return a < 1"
    assert text.count("ships were small") == 2
    assert "# Harbour" in text


@pytest.mark.parametrize("extractor", Extractor)
def test_code_of_no_language_and_with_fences_in_it(extractor: Extractor) -> None:
    text = extracted(article("<pre><code>make\n```\nmore\n```</code></pre>"), extractor)
    assert "````\nmake\n```\nmore\n```\n````" in text


TABLE = """<table class="wikitable"><caption>Ships by year</caption>
<tr><th>Year</th><th>Ships</th><th>Cargo</th></tr>
<tr><td>1901</td><td>12</td><td>salt | cloth</td></tr>
<tr><td colspan="2">none</td><td><b>timber</b></td></tr></table>"""


@pytest.mark.parametrize("extractor", Extractor)
def test_a_table_of_data_is_one_and_a_layout_is_not(extractor: Extractor) -> None:
    text = extracted(article(TABLE), extractor)
    rows = ["| Year | Ships | Cargo |", "| --- | --- | --- |", r"| 1901 | 12 | salt \| cloth |", "| none |  | timber |"]
    assert "Ships by year\n\n" + "\n".join(rows) in text
    layout = f"<table><tr><td><div>{PROSE}</div></td><td><p>side by side</p></td></tr></table>"
    assert "| --- |" not in extracted(article(layout), extractor)


EULER = r"e^{i\pi} + 1 = 0"
FORMULAS = {
    "annotated MathML": f'<math><semantics><mrow><mi>e</mi></mrow><annotation encoding="application/x-tex">{EULER}'
    "</annotation></semantics></math>",
    "LaTeXML": f'<math alttext="{EULER}" class="ltx_Math" display="inline"><mi>e</mi></math>',
    "KaTeX": '<span class="katex"><span class="katex-mathml"><math><semantics><mi>e</mi><annotation '
    f'encoding="application/x-tex">{EULER}</annotation></semantics></math></span><span class="katex-html" '
    'aria-hidden="true"><span>e</span><span>iπ</span></span></span>',
    "MathJax 2": f'<script type="math/tex">{EULER}</script>',
    "MathJax 3": "<mjx-container><mjx-math>e</mjx-math><mjx-assistive-mml><math><semantics><mi>e</mi><annotation "
    f'encoding="application/x-tex">{EULER}</annotation></semantics></math></mjx-assistive-mml></mjx-container>',
    "Wikipedia": '<span class="mwe-math-element"><span style="display: none;"><math alttext="{\\displaystyle '
    f'{EULER}}}"><mi>e</mi></math></span><img src="x.svg" class="mwe-math-fallback-image-inline" alt="{{\\displaystyle '
    f'{EULER}}}"></span>',
    "WordPress": f'<img src="x.png" alt="{EULER}" class="latex">',
}


@pytest.mark.parametrize("extractor", Extractor)
@pytest.mark.parametrize("html", FORMULAS.values(), ids=FORMULAS)
def test_formulas_are_the_latex_that_their_author_wrote(extractor: Extractor, html: str) -> None:
    sentence = f"<p>Above the gate somebody wrote {html} in white chalk, and nobody has ever found out who it was.</p>"
    text = extracted(article(sentence), extractor)
    assert f"somebody wrote ${EULER}$ in white chalk" in " ".join(text.split())


@pytest.mark.parametrize("extractor", Extractor)
@pytest.mark.parametrize(
    ("mathml", "latex"),
    [
        ("<mfrac><mn>1</mn><mrow><mi>n</mi><mo>+</mo><mn>1</mn></mrow></mfrac>", r"\frac{1}{n + 1}"),
        ("<msup><mi>x</mi><mn>2</mn></msup><mo>≤</mo><mi>α</mi>", r"x^{2} \leq \alpha"),
        (
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><msub><mi>a</mi>"
            "<mi>i</mi></msub>",
            r"\sum_{i = 1}^{n} a_{i}",
        ),
        ("<msqrt><mi>sin</mi><mi>θ</mi></msqrt>", r"\sqrt{\sin \theta}"),
        ("<mover><mi>v</mi><mo>→</mo></mover><mtext>for all</mtext>", r"\vec{v} \text{for all}"),
        (
            "<mo>(</mo><mtable><mtr><mtd><mi>a</mi></mtd><mtd><mi>b</mi></mtd></mtr><mtr><mtd><mi>c</mi></mtd><mtd>"
            "<mi>d</mi></mtd></mtr></mtable><mo>)</mo>",
            r"( \begin{matrix} a & b \\ c & d \end{matrix} )",
        ),
        ("<msup><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></msup>", "{a + b}^{2}"),
    ],
)
def test_mathml_alone_becomes_latex(extractor: Extractor, mathml: str, latex: str) -> None:
    html = (
        f'<p>In the book stands the line <math display="block">{mathml}</math> which is explained below at length.</p>'
    )
    assert f"$${latex}$$" in extracted(article(html), extractor)


@pytest.mark.parametrize(
    ("extractor", "html"),
    [
        (Extractor.RESILIPARSE, b"<html><body><nav><a href='/'>Home and garden</a></nav></body></html>"),
        (Extractor.TRAFILATURA, b"<html><body><footer>Home and garden</footer></body></html>"),
    ],
)
def test_a_page_that_loses_all_its_text_is_told_from_one_that_has_none(extractor: Extractor, html: bytes) -> None:
    lost = page_text(Page("p", html), extractor, Content.MAIN)
    assert isinstance(lost, Refused), lost
    assert lost.reason == "all_lost"
    assert f"{extractor.value} takes none of" in lost.detail
    assert "Home and garden" in lost.detail
    empty = b"<html><body><canvas></canvas><script>f()</script></body></html>"
    none = page_text(Page("p", empty), extractor, Content.MAIN)
    assert isinstance(none, Refused)
    assert none.reason == "no_text"


def test_pages_of_canvases_and_frames_are_told_from_lost_ones() -> None:
    """Most of MDN's examples that come out empty draw on a canvas or frame another page. Twelve lose their text."""
    found = Counter[str]()
    for path in shared("mdn-html").rglob("*.html"):
        text = page_text(Page(path.name, path.read_bytes()), Extractor.RESILIPARSE, Content.MAIN)
        found[text.reason if isinstance(text, Refused) else "text"] += 1
    assert found == {"text": 349, "no_text": 188, "all_lost": 12}


# --- flavours

WIKI = f"""<html><body><div id="mw-navigation">Donate</div><h1 id="firstHeading">Harbour</h1><div id="bodyContent">
<div id="mw-content-text"><div class="mw-parser-output"><div class="hatnote">For others, see there.</div>
<table class="infobox"><tr><th>Depth</th><td>9 m</td></tr></table><p>A harbour<sup
class="reference">[1]</sup> shelters ships.
</p><div id="toc">Contents</div><h2>History<span class="mw-editsection">[edit]</span></h2>{TABLE}
<p>Its depth is {FORMULAS["Wikipedia"]}.</p><ul><li>one quay</li></ul><h2>References</h2><ol
class="references"><li>Ada, 1901
</li></ol><div class="navbox">Harbours of the world</div></div></div><div
class="catlinks">Categories</div></div></body></html>"""

PAPER = """<html><body><header class="ltx_page_header">ar5iv</header><div class="ltx_page_main"><article
class="ltx_document">
<h1 class="ltx_title">On Harbours</h1><div class="ltx_authors">Ada L.</div><div
class="ltx_abstract"><p>We dig.</p></div>
<section class="ltx_section"><h2 class="ltx_title">1 Depth</h2><p class="ltx_p">Let <math alttext="d>0" class="ltx_Math"
display="inline"><mi>d</mi></math> be it <cite class="ltx_cite">[3]</cite>.</p><table class="ltx_equation
ltx_eqn_table"><tr>
<td class="ltx_align_center"><math alttext="\\displaystyle d=\\frac{1}{2}" class="ltx_Math"
display="block"><mi>d</mi></math>
</td><td class="ltx_eqn_cell ltx_eqn_eqno"><span class="ltx_tag">(1)</span></td></tr></table></section>
<section class="ltx_bibliography">Bell, 1999.</section></article></div><footer
class="ltx_page_footer">LaTeXML</footer></body></html>"""

QUESTION = """<html><body><div id="question-header"><h1><a class="question-hyperlink"
href="/q/1">How deep is it?</a></h1></div>
<div class="question" id="question" data-score="7"><div class="js-post-body s-prose"><p>I ask for my boat.</p></div>
<div class="comments">Which boat?</div></div><div id="answers">
<div class="answer" data-score="12"><div class="js-post-body s-prose"><p>Nine metres.</p></div></div>
<div class="answer accepted-answer js-accepted-answer" data-score="3"><div class="js-post-body s-prose"><p>Measure:</p>
<pre class="lang-bash s-code-block"><code>sound --depth</code></pre></div><div
class="comments">Thanks!</div></div></div>
<div id="sidebar">Hot questions</div></body></html>"""


@pytest.mark.parametrize(
    ("flavour", "html", "wanted", "unwanted"),
    [
        (
            Flavour.WIKIPEDIA,
            WIKI,
            ["# Harbour\n", "A harbour shelters ships.", "## History\n", "| Year | Ships | Cargo |", f"${EULER}$",
             "one quay"],
            ["Donate", "For others", "9 m", "[1]", "edit", "Contents", "Ada", "of the world", "Categories"],
        ),
        (
            Flavour.AR5IV,
            PAPER,
            ["# On Harbours\n", "We dig.", "## 1 Depth\n", "Let $d>0$ be it [3].", r"$$d=\frac{1}{2}$$"],
            ["ar5iv", "Ada", "(1)", "Bell", "LaTeXML"],
        ),
        (
            Flavour.STACKEXCHANGE,
            QUESTION,
            ["# How deep is it?\n", "I ask for my boat.", "## Answer (score 3, accepted)\n",
             "```bash\nsound --depth\n```",
             "## Answer (score 12)\n", "Nine metres."],
            ["Which boat", "Thanks", "Hot"],
        ),
    ],
    ids=[flavour.value for flavour in Flavour if flavour is not Flavour.WEB],
)  # fmt: skip
def test_a_flavour_takes_the_text_and_nothing_else(
    flavour: Flavour, html: str, wanted: list[str], unwanted: list[str]
) -> None:
    text = extracted(html.encode(), Extractor.RESILIPARSE, flavour)
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert [part for part in unwanted if part in text] == []
    other = page_text(Page("p", article("")), Extractor.RESILIPARSE, Content.MAIN, flavour)
    assert isinstance(other, Refused)
    assert other.reason == "other_kind"
