"""Real text for benchmarks: what ../shared/data holds as JSON lines (gzip, field ``text``), or another folder."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

SHARED = Path(__file__).resolve().parents[3] / "shared/data"


def texts(folder: Path) -> list[str]:
    found: list[str] = []
    for path in sorted(folder.rglob("*.jsonl.gz")):
        with gzip.open(path, "rt") as lines:
            found += [record["text"] for record in map(json.loads, lines) if record.get("text", "").strip()]
    return found
