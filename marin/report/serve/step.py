"""Everything in the store about one step: how it was built, its inputs, its readers, and whether to trust it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from marin.errors import CorruptRecord, MarinError
from marin.report.audit import audit_record
from marin.report.history import status_of
from marin.report.lineage_tree import About, Direction, LineageTree, walk
from marin.report.page.drawing import REPORT
from marin.report.section import Table
from marin.report.serve.curves import CHECKPOINT
from marin.report.serve.dropped import removed_by_reason
from marin.report.serve.listing import pages_of
from marin.report.serve.looked import StoreView
from marin.report.written import written_table
from marin.store.files.manifest import FileEntry
from marin.store.layout import state_name
from marin.store.lineage import output_of
from marin.store.record import Record
from marin.store.redaction import redacted, without_credentials
from marin.store.store import Store
from marin.store.verifications import last_verified
from marin.training.checkpoint import SAMPLES
from marin.training.metrics import parse_metrics

INPUTS, FILES, NODES = 200, 300, 200  # listed at most
DEPTH = 6  # levels of a lineage
LINE, LONGEST_VALUE = 140, 4_000  # characters of a field on one line, and in total
LONGEST_RECORD = 400_000
LOG_BYTES = 400_000  # from its end
LAST_LINES = 30  # of the log, on the page of the step
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_REFERENCE = re.compile(r"#([0-9a-f]{12})\b")  # another step in a record's fields


def step_page(looked: StoreView, identity: str) -> dict[str, Any]:
    """Return the page. Without an output it has only status and log. identity: first digits. Raises UnknownStep."""
    identity, record = looked.find(identity)
    store, status = looked.store, status_of(looked.store, identity)
    log = "\n".join(log_text(store, status.log)[0].splitlines()[-LAST_LINES:])
    folder = state_name(identity) if record is None or status.status != "committed" else record.attempt
    about = {
        "name": status.step, "identity": identity, "status": status, "log": log, "record": record,
        "wrote": _wrote(store, folder),
    }  # fmt: skip
    if record is None:
        return {**about, "is_committed": False, "views": ()}
    output, is_committed = output_of(record), looked.is_committed(record)
    warnings = looked.warnings([record], thorough=True)[output]
    files: list[FileEntry] = []
    with suppress(MarinError):  # a warning reports the error
        files = store.manifest(record) if is_committed else []
    return {
        **about,
        "name": record.name,
        "is_committed": is_committed,
        "warnings": warnings,
        "notes": [note for note in looked.claims([output])[output] if note not in warnings],  # on its origin
        "claims": audit_record(store, looked.lineage, record),
        "verified": last_verified(store).get(record.attempt, ""),  # when `marin audit --bytes` last found no damage
        "views": _views(looked, record) if is_committed else (),
        "fields": [(name, *_value(value)) for name, value in without_credentials(record.config).items()],
        "files": files,
        "up": _lineage(looked, record, Direction.UP),
        "down": _lineage(looked, record, Direction.DOWN),
    }


def _wrote(store: Store, folder: str) -> Table | None:
    """Return the samples of a training with prompts, running or not. folder: of the samples, below the store."""
    content = store.objects.read(f"{folder}/{SAMPLES}")
    lines: list[dict[str, Any]] = []
    with suppress(CorruptRecord):  # another part of the page reports damage
        lines = parse_metrics(content or b"", SAMPLES)
    return written_table("Samples", lines) if lines else None


def _views(looked: StoreView, record: Record) -> list[tuple[str, str]]:
    """Return (address below the step, title) of each view of this kind of output.

    A report has its tables and pictures on the pages of its experiment.
    """
    found = [("contents", {"tokens": "documents, decoded"}.get(record.kind, record.kind))]
    if record.kind == "tokens":
        found.insert(0, ("tokens", "sequences, token by token"))
    if removed := sum(removed_by_reason(record).values()):
        found.append(("dropped", f"kept and dropped, side by side ({removed:,} dropped)"))
    if record.kind == REPORT and (experiment := record.provenance.experiment):
        pages = pages_of(looked, [experiment])[experiment]
        found += [(f"../../page/{quote(page)}", f"on the page {page.removesuffix('.html')}") for page in pages]
    if record.kind == CHECKPOINT:
        found.append((f"../../curves?run={record.identity[:12]}", "loss curve"))
    return found


def _value(value: object) -> tuple[str, str]:
    """Return (the value as text, identity of the step that the value names)."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) > LINE and not isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False, default=str, indent=1)
    named = _REFERENCE.search(text) if isinstance(value, str) else None
    short = text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]} … {len(text) - LONGEST_VALUE:,} more"
    return short, named[1] if named else ""


def _lineage(looked: StoreView, record: Record, direction: Direction) -> list[tuple[int, About, str]]:
    """Return the lines of a lineage: (level, text, identity; "" for several outputs)."""
    tree = LineageTree(direction, [output_of(record)], looked.lineage, looked.store_claims())
    roots, further = tree.tree(depth=DEPTH, every=False)
    found = [
        (level, tree.about(node), node.outputs[0].identity if len(node.outputs) == 1 else "")
        for level, node in walk(roots)
        if level
    ]
    if more := max(len(found) - NODES, 0) + further:
        down = " --down" if direction is Direction.DOWN else ""
        command = f"marin lineage {record.identity[:12]}{down} --depth 99"
        found[NODES:] = [(1, About(f"and {more:,} more", command, []), "")]
    return found


def log_text(store: Store, name: str) -> tuple[str, bool]:
    """Return (the end of a log, without colours and credentials; True if the log is longer)."""
    if not name:
        return "", False
    start = 0
    if not store.objects.is_remote:
        try:
            start = max(store.directory.size(name) - LOG_BYTES, 0)
        except OSError:
            return "", False
    content = store.objects.read_log(name, start)
    cut = start > 0 or len(content) > LOG_BYTES
    return redacted(_COLOUR.sub("", content[-LOG_BYTES:].decode(errors="replace"))), cut
