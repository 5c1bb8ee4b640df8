"""Write the section on the documents that decontamination removed, for all sources together."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from marin.report.section import Column, Made, Page, Quote, Section, Table, Text
from marin.store.numbers import counted, listed

SHOWN = 3  # excerpts
SOURCES = 40  # sources with a row of their own, by documents lost
NAMED = 4  # names in a sentence

type Row = Mapping[str, Any]


def together(made: Mapping[str, Made | None], page: Page) -> Section | None:
    summaries = {name: summary for name, each in made.items() if each and (summary := _summary(each)) is not None}
    gone = listed([name for name in made if name not in summaries], NAMED)
    if not summaries:
        return None
    suites: dict[str, list[Row]] = {}
    for summary in summaries.values():
        for row in summary["evaluations"]:
            suites.setdefault(str(row["against"]), []).append(row)
    sentence = _sentence(summaries, suites) + (f" The findings in {gone} were deleted since." if gone else "")
    blocks = [Text(sentence), _by_suite(suites), *_by_source(summaries), *_excerpts(summaries)]
    return Section(title="Decontamination", blocks=blocks)


def _summary(made: Made) -> Row | None:
    if not made.output.exists("contamination.json"):
        return None
    return {**json.loads(made.output.read_text("contamination.json")), "removed": sum(made.facts["dropped"].values())}


def _sentence(summaries: Mapping[str, Row], suites: Mapping[str, Sequence[Row]]) -> str:
    seen = counted(sum(summary["documents"] for summary in summaries.values()), "document")
    removed = sum(summary["removed"] for summary in summaries.values())
    names = listed(list(suites), NAMED)
    where = f"{seen} of {counted(len(summaries), 'source')}"
    controls = [row["control"] for rows in suites.values() for row in rows]
    planted, found = (sum(control[name] for control in controls) for name in ("planted", "found"))
    control = f" Of {counted(planted, 'item')} planted for the search to find, {found:,} were found."
    if not removed:
        return f"The search found no item of {names} in {where}.{control}"
    those = "this document was" if removed == 1 else "these documents were"
    return f"The search found items of {names} in {removed:,} of {where}; {those} removed.{control}"


def _by_suite(suites: Mapping[str, Sequence[Row]]) -> Table:
    rows = [
        [
            name,
            f"{rows[0]['items']:,}",
            f"{rows[0]['unindexed']:,}",
            _control(rows),
            f"{sum(row['documents'] for row in rows):,}",
            _counts(rows, "ways"),
            _counts(rows, "forms"),
        ]
        for name, rows in suites.items()
    ]
    columns = ["suite", "items", "too short", "control", "documents removed", "how they were copied", "in the form of"]
    return Table(
        title="Evaluation items that the search looked for, and found",
        columns=[Column(name) for name in columns],
        rows=rows,
        note="Too short: items of so few words that any text may hold them by chance; the search leaves them out. "
        "Control: items planted for the same search, both unchanged and disguised; of several steps, the one that "
        "found the fewest. The counts are documents; a document may hold items of several suites.",
    )


def _control(rows: Sequence[Row]) -> str:
    """Return the control of the step that found the fewest planted items."""
    worst = min((row["control"] for row in rows), key=lambda control: control["found"])
    return f"{worst['found']} of {worst['planted']} found"


def _counts(rows: Iterable[Row], name: str) -> str:
    total = Counter[str]()
    for row in rows:
        total.update(row[name])
    return ", ".join(f"{each} {count:,}" for each, count in total.most_common()) or "—"


def _by_source(summaries: Mapping[str, Row]) -> list[Table]:
    """Return a table by source, if there are several. Its note names the sources that lost nothing."""
    if len(summaries) < 2:
        return []
    lost = {name: summary for name, summary in summaries.items() if summary["removed"]}
    order = sorted(lost, key=lambda name: (-lost[name]["removed"], name))
    rows = [
        [
            name,
            f"{lost[name]['documents']:,}",
            f"{lost[name]['removed']:,}",
            f"{lost[name]['removed'] / lost[name]['documents']:.2%}",
            "; ".join(f"{row['found']:,} of {row['against']}" for row in lost[name]["evaluations"] if row["found"]),
        ]
        for name in order[:SOURCES]
    ]
    if not rows:
        return []
    more = f"And {len(order) - SOURCES} more sources. " if len(order) > SOURCES else ""
    clean = [name for name in summaries if name not in lost]
    note = f"{more}No document was removed from {listed(clean, NAMED)}." if clean else more
    columns = [Column(name) for name in ("source", "documents", "removed", "share removed", "different items")]
    return [Table(title="Documents removed from each source", columns=columns, rows=rows, note=note, folded=True)]


def _excerpts(summaries: Mapping[str, Row]) -> list[Quote]:
    """Return excerpts, unlike ones first: one of each way, form and suite, then others."""
    unlike: dict[tuple[str, str, str], Quote] = {}
    alike: list[Quote] = []
    for source, summary in summaries.items():
        for row in summary["evaluations"]:
            for each in row["passages"]:
                before, text, after = each["passage"]
                about = f"{row['against']}, item {each['item']}: {each['part']} {each['coverage']:.0%}"
                title = f"{source} · {about}, {each['way']}, {each['form']}"
                quote = Quote(title=title, before=before, text=text, after=after)
                if unlike.setdefault((each["way"], each["form"], row["against"]), quote) is not quote:
                    alike.append(quote)
    return [*unlike.values(), *alike][:SHOWN]
