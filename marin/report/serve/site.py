"""From an address to a page: the view that the address means, and the page's rights in the browser."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import re
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec.structs import asdict

from marin.errors import BadField, MarinError, UnknownStep
from marin.report.contents import Contents, contents, contents_of_file
from marin.report.history import run_called, run_names
from marin.report.page import figures
from marin.report.serve import curves, dropped, listing, step, texts, tokens
from marin.report.serve.looked import StoreView
from marin.report.words import describe_facts
from marin.store.layout import PAGES
from marin.store.lineage import output_of
from marin.store.numbers import counted, write_bytes, write_duration
from marin.store.redaction import redacted, without_credentials
from marin.store.store import Store

LOG = logging.getLogger(__name__)
PAGE = "marin.report.page"
# These pages run no script, fetch nothing from elsewhere, and stand in no frame.
CLOSED = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
POLICY = f"{CLOSED}; style-src 'self'; img-src data:; form-action 'self'"
STEPS = '{"step":"../step/"}'  # where an experiment's page finds its steps
SCRIPT, JSON = re.compile(r"(?is)<script\b([^>]*)>.*?</script[^>]*>"), re.compile(r"\btype=.application/json\b")
LARGEST = 64 << 20  # bytes of a file that can only be read whole


@dataclass(frozen=True)
class Answer:
    body: bytes
    status: int = HTTPStatus.OK
    kind: str = "text/html; charset=utf-8"
    policy: str = CLOSED


class Query:
    """The part of an address behind the question mark."""

    def __init__(self, values: Mapping[str, list[str]]) -> None:
        self.values = values

    def text(self, name: str) -> str:
        return self.values.get(name, [""])[-1]

    def number(self, name: str, default: int = 0) -> int:
        """Return a number, at least 0. Raises BadField."""
        given = self.text(name)
        if given and not re.fullmatch(r"\d{1,15}", given, re.ASCII):
            raise BadField(f"{name} is {given[:40]!r}; wanted a whole number, 0 or more")
        return int(given) if given else default


class Site:
    """The views of a store. base: beginning of every address, ``/<secret>/``. Answers any thread."""

    def __init__(self, store: Store, base: str) -> None:
        self.store, self.base = store, base
        self._looked: StoreView | None = None
        self._lock = threading.Lock()
        loader = ChoiceLoader([PackageLoader("marin.report.serve"), PackageLoader(PAGE)])
        self._templates = Environment(
            loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
        )
        filters: dict[str, Any] = self._templates.filters
        filters.update(
            address=_address,
            wanted=_wanted,
            bytes=write_bytes,
            duration=write_duration,
            facts=describe_facts,
            counted=counted,
        )

    def answer(self, parts: list[str], query: Mapping[str, list[str]]) -> Answer:
        """Return the answer. parts: of the path below base. A failure becomes a page that names the error."""
        try:
            return self._answer(parts, Query(query))
        except MarinError as error:
            if isinstance(error, UnknownStep):
                return self._error(HTTPStatus.NOT_FOUND, "Not found", str(error))
            status = HTTPStatus.BAD_REQUEST if isinstance(error, BadField) else HTTPStatus.INTERNAL_SERVER_ERROR
            return self._error(status, "marin cannot show this", str(error))
        except Exception as error:  # a fault of one view must not end the others
            LOG.error(redacted(traceback.format_exc()).replace(self.base, "/…/"))
            text = f"{type(error).__name__}: {error}"
            return self._error(HTTPStatus.INTERNAL_SERVER_ERROR, "This view failed; other views may work", text)

    def _look(self) -> StoreView:
        """Return a look at the store that is not too old."""
        with self._lock:
            if self._looked is None or time.monotonic() > self._looked.until:
                self._looked = StoreView(self.store)
            return self._looked

    def _error(self, status: HTTPStatus, title: str, text: str) -> Answer:
        return self._page("error.html", status=status, title=title, text=redacted(text))

    def _page(self, template: str, status: int = HTTPStatus.OK, policy: str = POLICY, **values: Any) -> Answer:
        html = self._templates.get_template(template).render(base=self.base, prefix=self.store.prefix, **values)
        return Answer(html.encode(errors="backslashreplace"), status=status, policy=policy)

    def _answer(self, parts: list[str], query: Query) -> Answer:
        match parts:
            case [] | [""]:
                looked = self._look()
                return self._page("home.html", look=looked, home=listing.home(looked))
            case ["style.css"]:
                css = [self._templates.get_template(name).render() for name in ("page.css", "serve.css")]
                return Answer("".join([css[0], figures.style(), css[1]]).encode(), kind="text/css; charset=utf-8")
            case ["page", name]:
                return self._experiment_page(name)
            case ["runs"]:
                runs, before = listing.runs_of(self._look(), query.text("experiment"), query.text("before"))
                return self._page("runs.html", look=self._look(), runs=runs, before=before, query=query)
            case ["run", name]:
                if name not in run_names(self.store):
                    raise UnknownStep(f"no run is called {name!r}; see the list of runs")
                run = run_called(self.store, name)
                events, left_out = listing.events_of(run)
                return self._page("run.html", look=self._look(), run=run, events=events, left_out=left_out)
            case ["outputs"]:
                asked = query.text("q"), query.text("kind"), query.text("experiment")
                page = listing.outputs_page(self._look(), *asked, query.number("from"))
                return self._page("outputs.html", look=self._look(), page=page, query=query)
            case ["curves"]:
                return self._curves(query)
            case ["step", identity]:
                looked = self._look()
                return self._page("step.html", look=looked, step=step.step_page(looked, identity))
            case ["step", identity, view, *path]:
                return self._step(identity, view, "/".join(path), query)
            case _:
                raise UnknownStep("this page does not exist; use the links at the top")

    def _step(self, identity: str, view: str, path: str, query: Query) -> Answer:
        """Return one view of a step's output."""
        looked = self._look()
        whole, record = looked.find(identity)
        if view == "log" and not path:
            log, cut = step.log_text(self.store, step.status_of(self.store, whole).log)
            name = record.name if record is not None else whole[:12]
            return self._page("text.html", look=looked, record=record, title=f"{name}: log", text=log, cut=cut)
        if record is None or not (looked.is_committed(record) or view == "record"):
            raise UnknownStep(f"{whole[:12]} has no committed output for this view; see the page of the step")
        known: dict[str, Any] = {
            "look": looked,
            "record": record,
            "warnings": looked.warnings([record], thorough=True)[output_of(record)],
            "query": query,
        }
        match view, path:
            case "record", "":
                plain = without_credentials(asdict(record))
                text = json.dumps(plain, indent=1, ensure_ascii=False, default=str)
                most, title = step.LONGEST_RECORD, f"{record.name}: record"
                return self._page("text.html", **known, title=title, text=text[:most], cut=len(text) > most)
            case "tokens", "" if record.kind == "tokens":
                page = tokens.tokens_page(looked, record, query.number("from"), query.number("length", tokens.LENGTH))
                return self._page("tokens.html", **known, page=page)
            case "dropped", "" if removed := dropped.removed_by_reason(record):
                asked = query.text("reason"), query.number("from"), query.number("kept")
                page = dropped.dropped_page(looked, record, *asked)
                return self._page("dropped.html", **known, page=page, removed=removed)
            case "contents", "":
                found = contents(looked.inventory, record, whole="at" in query.values, most=LARGEST)
                return self._contents(found, path, known)
            case "file", path if path:
                return self._contents(contents_of_file(looked.inventory, record, path, LARGEST), path, known)
            case _:
                raise UnknownStep(f"{record.name} has no such view")

    def _contents(self, found: Contents, path: str, known: dict[str, Any]) -> Answer:
        query: Query = known["query"]
        if "at" in query.values:
            entry = texts.entry_at(found, query.number("from"), query.number("at"))
            return self._page("entry.html", **known, path=path, entry=entry)
        page = texts.page_of(found, query.number("from"), query.text("q"))
        most = texts.ENTRIES[found.form]
        return self._page("contents.html", **known, path=path, page=page, most=most, seconds=texts.SEARCH_SECONDS)

    def _curves(self, query: Query) -> Answer:
        looked = self._look()
        known = curves.trainings(looked)
        metric, runs = query.text("metric") or "loss", query.values.get("run", [])
        page = curves.curves_page(looked, known, runs, metric)
        policy = f"{POLICY}; script-src {_digest()}" if page["figure"] else POLICY
        return self._page(
            "curves.html", policy=policy, look=looked, known=known, metric=metric, page=page, packed=figures.packed,
            groups={op: [each for each in known if each.op == op] for op in dict.fromkeys(each.op for each in known)},
            script=Markup(figures.script()), chosen={run[:12] for run in runs},
        )  # fmt: skip

    def _experiment_page(self, name: str) -> Answer:
        """Return a page as a run wrote it, with links to its steps.

        Anybody may have written to the store. Only our own script may run, and nothing in the page can make the browser
        tell others this address.
        """
        if name not in self.store.objects.list(PAGES):
            raise UnknownStep(f"no page is called {name!r}; see the list of experiments")
        page = (self.store.objects.read(f"{PAGES}/{name}") or b"").decode(errors="replace")
        known = {identity[:12] for identity in self._look().inventory.records}
        page = re.sub(r"(?i)<meta|referrerpolicy", "<x-gone", page)

        def linked(code: re.Match[str]) -> str:
            return f'<a href="../step/{code[1]}">{code[0]}</a>' if code[1] in known else code[0]

        page = re.sub(r"<code>([0-9a-f]{12})</code>", linked, page)
        page = re.sub(r'href="file://[^"]*[-/]([0-9a-f]{12})\.\d+/\.marin/log\.txt"', r'href="../step/\1/log"', page)
        page = page.replace("<header>", '<header><p><a href="../">← the store</a></p>', 1)
        # Pages of any version hold data for today's script, or none. Any other script is dropped.
        page = SCRIPT.sub(lambda found: found[0] if JSON.search(found[1]) else "", page)
        before, end, after = page.rpartition("</body>")
        own = f'<script type="application/json" id="marin-store">{STEPS}</script><script>{figures.script()}</script>'
        page = f"{before}{own}{end}{after}" if end else page + own
        policy = f"{CLOSED}; form-action 'none'; style-src 'unsafe-inline'; img-src data:; script-src {_digest()}"
        return Answer(page.encode(), policy=policy)


@cache
def _digest() -> str:
    """Return the script of pages as a source that a policy can allow."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(figures.script().encode()).digest()).decode()}'"


def _wanted(query: Mapping[str, object]) -> str:
    """Return a query as it stands in an address, without empty values."""
    return urlencode({name: str(value) for name, value in query.items() if value not in ("", None)}, errors="replace")


def _address(value: object, **query: object) -> str:
    """Return a path or a part of one, with a query without empty values."""
    asked = _wanted(query)
    path = quote(str(value), safe="/", errors="surrogateescape")
    return f"{path}?{asked}" if asked else path
