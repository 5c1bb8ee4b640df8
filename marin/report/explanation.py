"""Explain what a plan decided about one step: the reason, the code, the fields, and what is committed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from msgspec.structs import asdict
from rich.console import Console

from marin.errors import CorruptRecord
from marin.fingerprint.fingerprint import source_diff, stored_code
from marin.plan.drift import code_differences
from marin.plan.facts import pinned_output
from marin.plan.missing import describe_fields
from marin.plan.plan import Plan
from marin.report.lineage_tree import described
from marin.report.table import say
from marin.steps.step import ExecutorStep
from marin.store.numbers import counted, write_duration
from marin.store.redaction import without_credentials

OUTSIDE = 10  # entries to print


def explanation(plan: Plan, step: ExecutorStep[Any]) -> dict[str, Any]:
    """Return everything about a step, JSON-able. ``diffs``: the source differences of all changed units of code."""
    decision, today = plan.of(step), plan.today[step]
    record = decision.record
    facts: dict[str, Any] = {
        "step": step.name,
        "identity": step.identity,
        "operator": f"{type(step).__module__}.{type(step).__qualname__} version {step.version}",
        "action": decision.action,
        "reason": decision.reason,
        "reason_apart": decision.reason_apart,
        "drift": list(decision.drift),
        "notes": list(decision.notes),
        "fields": describe_fields(step),
        "inputs": [dependency.name for dependency in step.dependencies],
        "code": {"digest": today.code.digest, "units": sorted(today.code.units), "opaque": list(today.code.opaque)},
        "packages": dict(today.code.packages),
        "outside": dict(today.entries),
        "diffs": {},
        "accepted": [acceptance.to_plain() for acceptance in plan.store.acceptances.about(step.identity)],
    }
    if step.pin is not None:
        with suppress(CorruptRecord):  # the reason names the fault
            original = pinned_output(plan.snapshot, step.pin)
            facts["pinned"] = original.attempt
            facts["diffs"] = plan.snapshot.code_of_pins.differences(original)
    if record is not None:
        facts["committed"] = {
            **described(record),
            "inputs": [asdict(read) for read in record.inputs],
            "mirrored": [asdict(copy) for copy in record.mirrored],
            "observed": record.observed.to_plain(),
        }
        stored = stored_code(plan.store, record.code) if record.code != today.code.digest and step.pin is None else None
        if stored is not None:
            facts["diffs"] = {
                change.name: source_diff(change, stored.sources, today.code.sources)
                for change in code_differences(stored, today.code)
            }
    return without_credentials(facts)


def print_explanation(console: Console, facts: dict[str, Any]) -> None:
    for text, style in _lines(facts):
        say(console, text, style)


def _lines(facts: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (text, style) of each line."""
    yield f"{facts['step']}  {facts['identity']}", "bold"
    yield f"  {facts['operator']}", ""
    yield f"  {facts['action']}: {facts['reason_apart']}", "cyan"
    yield from ((f"    {text}", "yellow") for text in [*facts["drift"], *facts["notes"]])
    for name, diff in facts["diffs"].items():
        yield f"  {name}:", "bold"
        for text in str(diff).splitlines():
            yield f"    {text}", {"+": "green", "-": "red"}.get(text[:1], "dim")
    if "pinned" in facts:
        yield f"  pins {facts['pinned']}", ""
    yield "  fields", ""
    yield from ((f"    {name} = {value}", "") for name, value in facts["fields"].items())
    if outside := [f"    {name}: {mark}" for name, mark in facts["outside"].items()]:
        yield "  reads from outside", ""
        yield from ((text, "") for text in outside[:OUTSIDE])
        if len(outside) > OUTSIDE:
            yield f"    and {len(outside) - OUTSIDE:,} more (--json lists them)", "dim"
    if "committed" in facts:
        yield from _committed(facts["committed"])
    for acceptance in facts["accepted"]:
        yield f"  drift accepted {acceptance['when']} by {acceptance['who']}: {acceptance['because']}", "yellow"
        yield from ((f"    {text}", "dim") for text in acceptance["changes"])
    code = facts["code"]
    yield f"  code {code['digest'][:12]}: {len(code['units'])} functions, classes and constants", ""
    yield from ((f"    {name}", "dim") for name in code["units"])
    yield from ((f"    cannot be followed: {text}", "yellow") for text in code["opaque"])
    yield "  packages " + ", ".join(f"{name} {version}" for name, version in sorted(facts["packages"].items())), ""


def _committed(record: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"  committed {record['ended']} by {record['who']} in {write_duration(record['seconds'])}", ""
    yield f"    {record['output']}  {counted(record['files'], 'file')}, {record['bytes']:,} bytes", ""
    yield f"    content {record['root']}", ""
    if record["because"]:
        yield f"    made again: {record['because']}", "yellow"
    if record["git"]:
        yield f"    git {record['git']} ({record['experiment']})", ""
    for copy in record["mirrored"]:
        yield f"    mirrored from {copy['origin']} by {copy['who']} on {copy['when']}", ""
    yield from ((f"    read {read['name']} {read['root'][:12]}", "") for read in record["inputs"])
    yield from ((f"    {text}", "") for text in _observed(record["observed"])[:OUTSIDE])


def _observed(observed: dict[str, Any]) -> list[str]:
    """Return what run() was seen to read."""
    return [
        *(f"saw {name}: {digest[:12] or 'not there'}" for name, digest in observed["files"].items()),
        *(f"saw {name}/: {entries}" for name, entries in observed["trees"].items()),
        *(f"listed {name}: {names}" for name, names in observed["folders"].items()),
        *(f"ran {name} {ran['digest'][:8]}, found by name" for name, ran in observed["code"].items()),
        *(f"environment {name}{'' if value else ' (not set)'}" for name, value in observed["environment"].items()),
    ]
