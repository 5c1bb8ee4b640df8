"""Revocations on existing pages. A page lists the outputs that it shows, and carries a banner while one is refused.

The list stands in the page itself, so that the two cannot get separated. Only the banner is ever rewritten.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, cast

from marin.store.layout import PAGES
from marin.store.lineage import read_lineage
from marin.store.numbers import counted, listed
from marin.store.revocation import revoked
from marin.store.store import Store
from marin.store.trust import Taint

if TYPE_CHECKING:
    from marin.executor.run_results import Run

DIGITS = 12  # of a digest
LABEL = 60  # characters of a label
NAMED = 8  # outputs of one revocation that a banner names
_SHOWN = re.compile(rb'<script type="application/json" id="marin-shown">(.*?)</script>', re.DOTALL)
_BANNER = re.compile(rb"<!-- revoked -->.*?<!-- /revoked -->", re.DOTALL)


def shown(run: Run) -> str:
    """Return a script element for the page's head: the outputs on the page, and which ones are results.

    By operator: the labels, and for each output DIGITS of its identity and DIGITS of its bytes' root. Together these
    identify the output. The list is compressed, because a page of ten thousand steps has no room for more.
    """
    outputs: dict[str, tuple[list[str], list[str]]] = {}
    for step, each in run.results.items():
        if each.record is not None:
            labels, digests = outputs.setdefault(step.op, ([], []))
            labels.append(step.label[:LABEL])
            digests.append(each.record.identity[:DIGITS] + each.record.root[:DIGITS])
    by_operator = {op: [labels, "".join(digests)] for op, (labels, digests) in outputs.items()}
    packed = base64.b64encode(zlib.compress(json.dumps(by_operator, separators=(",", ":")).encode(), 9)).decode()
    results = {name: step.identity for name, step in run.plan.experiment.results.items()}
    content = json.dumps({"outputs": packed, "results": results}, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="marin-shown">{content}</script>'


def _outputs(shown: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, DIGITS of identity and of root) of every output on a page."""
    outputs: Any = shown["outputs"]
    if isinstance(outputs, str):
        outputs = json.loads(zlib.decompress(base64.b64decode(outputs)))
    if isinstance(outputs, list):  # pages before November 2026: [name, identity, root]
        rows = cast("list[list[str]]", outputs)
        yield from ((name, identity[:DIGITS] + root[:DIGITS]) for name, identity, root in rows)
        return
    for op, (labels, digests) in outputs.items():  # not compressed before November 2026
        for index, label in enumerate(labels):
            digits = digests[2 * DIGITS * index :][: 2 * DIGITS]
            yield f"{op}/{label or digits[:8]}", digits


def stamp_pages(store: Store, names: Iterable[str] | None = None) -> list[str]:
    """Put the banner on every page that shows a revoked output or one built from it; take it off other pages.

    names: of pages; all by default. Returns the pages that changed. Raises StoreError.
    """
    every = [f"{PAGES}/{name}" for name in store.objects.list(PAGES)] if names is None else list(names)
    pages = [name for name in every if name.endswith(".html")]
    changed: dict[str, None] = {}
    standing, stamped = revoked(store), None
    while pages and standing.all != stamped:  # somebody else may revoke at the same moment
        taint = Taint(read_lineage(store), standing)
        changed |= dict.fromkeys(name for name in pages if _stamp(store, name, taint))
        standing, stamped = revoked(store), standing.all
    return list(changed)


def _stamp(store: Store, name: str, taint: Taint) -> bool:
    """Put the right banner on a page. A run that writes the page at the same moment may lose it until its next run."""
    page = store.objects.read(name)
    outputs = _SHOWN.search(page) if page is not None else None
    if page is None or outputs is None or not _BANNER.search(page):
        return False  # written before pages had banners; the next run replaces it
    banner = _banner(json.loads(outputs.group(1)), taint)
    place = f"<!-- revoked -->{banner}<!-- /revoked -->".encode(errors="backslashreplace")
    new = _BANNER.sub(lambda _: place, page, count=1)
    if new == page:
        return False
    store.objects.write(name, new)
    return True


def _banner(shown: dict[str, Any], taint: Taint) -> str:
    by_reason: dict[str, list[str]] = {}
    refused: set[str] = set()
    distrusted = {output.identity[:DIGITS] + output.root[:DIGITS]: bad for output, bad in taint.found.items()}
    for name, digits in _outputs(shown):
        if (bad := distrusted.get(digits)) is not None:
            refused.add(digits[:DIGITS])
            why = f"{bad.revocation.name} was {taint.revocations.describe(bad.revocation)}"
            by_reason.setdefault(why, []).append(name)
    if not by_reason:
        return ""
    results = [name for name, identity in shown["results"].items() if identity[:DIGITS] in refused]
    return _html(by_reason, results, len(shown["results"]), len(refused))


def _html(by_reason: dict[str, list[str]], results: list[str], of: int, outputs: int) -> str:
    if results:
        title = f"Revoked: do not use {len(results)} of {counted(of, 'result')}"
        rest = "depend" if len(results) > 1 else "depends"
        about = f"<b>{escape(', '.join(results))}</b> {rest} on outputs that somebody revoked"
    else:
        title = f"Revoked: {counted(outputs, 'output')} on this page"
        about = "No result depends on the outputs that somebody revoked"
    lines = [
        f"<li>{escape(reason)}. On this page: {escape(listed(names, NAMED))}.</li>"
        for reason, names in by_reason.items()
    ]
    return (
        f'\n<section class="alarm" id="revoked">\n<h2>✕ {escape(title)}</h2>\n<p>{about} after this page was written. '
        f"marin refuses every plan that needs these outputs.</p>\n<ul>\n" + "\n".join(lines) + "\n</ul>\n</section>\n"
    )
