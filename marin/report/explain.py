"""Everything known about one step: what it is, what is committed, what changed, and why it would run."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import asdict
from rich.console import Console
from rich.text import Text

from marin.errors import CorruptRecord
from marin.fingerprint.fingerprint import compare, source_diff
from marin.fingerprint.stored import stored_code
from marin.plan.facts import pinned_output
from marin.plan.missing import describe_fields
from marin.plan.plan import Plan
from marin.steps.step import ExecutorStep
from marin.store.redaction import without_credentials

OUTSIDE = 10  # entries that are shown


def explanation(plan: Plan, step: ExecutorStep[Any]) -> dict[str, Any]:
    """JSON-able; ``diffs`` holds the source difference of every changed function, class or constant."""
    decision, today = plan.of(step), plan.today[step]
    record = decision.record
    told: dict[str, Any] = {
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
        "accepted": [held.to_plain() for held in plan.store.acceptances(step.identity)],
    }
    if step.pin is not None:
        with suppress(CorruptRecord):  # the reason says what is wrong with it
            original = pinned_output(plan.snapshot, step.pin)
            told["pinned"] = original.attempt
            told["diffs"] = plan.snapshot.code_of_pins.differences(original)
    if record is not None:
        told["committed"] = {
            "output": record.attempt,
            "root": record.root,
            "files": record.files,
            "bytes": record.bytes,
            "facts": record.facts,
            "inputs": [asdict(held) for held in record.inputs],
            "mirrored": [asdict(held) for held in record.mirrored],
            "observed": record.observed.to_plain(),
            **asdict(record.provenance),
        }
        stored = stored_code(plan.store, record.code) if record.code != today.code.digest and step.pin is None else None
        if stored is not None:
            told["diffs"] = {
                change.name: source_diff(change, stored.sources, today.code.sources)
                for change in compare(stored, today.code)
            }
    return without_credentials(told)


def observed_lines(observed: dict[str, Any]) -> list[str]:
    """What run() was seen to read, for people."""
    lines = [f"saw {name}: {digest[:12] or 'not there'}" for name, digest in observed["files"].items()]
    lines += [f"saw {name}/: {held}" for name, held in observed["trees"].items()]
    lines += [f"listed {name}: {names}" for name, names in observed["folders"].items()]
    lines += [f"ran {name} {ran['digest'][:8]}, found by name" for name, ran in observed["code"].items()]
    return lines + [
        f"environment {name}{'' if value else ' (not set)'}" for name, value in observed["environment"].items()
    ]


def print_explanation(console: Console, told: dict[str, Any]) -> None:
    def line(text: str, style: str = "") -> None:
        console.print(Text(text, style=style), soft_wrap=True)

    line(f"{told['step']}  {told['identity']}", "bold")
    line(f"  {told['operator']}")
    line(f"  {told['action']}: {told['reason_apart']}", "cyan")
    for text in told["drift"]:
        line(f"    {text}", "yellow")
    for text in told["notes"]:
        line(f"    {text}", "yellow")
    for name, diff in told["diffs"].items():
        line(f"  {name}:", "bold")
        for text in str(diff).splitlines():
            line(f"    {text}", "green" if text.startswith("+") else "red" if text.startswith("-") else "dim")
    if "pinned" in told:
        line(f"  pins {told['pinned']}")
    line("  fields")
    for name, held in told["fields"].items():
        line(f"    {name} = {held}")
    outside = told["outside"]
    if outside:
        line("  reads from outside")
        for name, mark in list(outside.items())[:OUTSIDE]:
            line(f"    {name}: {mark}")
        if len(outside) > OUTSIDE:
            line(f"    and {len(outside) - OUTSIDE:,} more (--json lists them)", "dim")
    committed = told.get("committed")
    if committed:
        line(f"  committed {committed['started']} by {committed['who']} in {committed['seconds']:.1f} s")
        files = "1 file" if committed["files"] == 1 else f"{committed['files']:,} files"
        line(f"    {committed['output']}  {files}, {committed['bytes']:,} bytes")
        line(f"    content {committed['root']}")
        if committed["because"]:
            line(f"    made again: {committed['because']}", "yellow")
        if committed["git"]:
            line(f"    git {committed['git']} ({committed['experiment']})")
        for held in committed["mirrored"]:
            line(f"    mirrored from {held['origin']} by {held['who']} on {held['when']}")
        for held in committed["inputs"]:
            line(f"    read {held['name']} {held['root'][:12]}")
        for text in observed_lines(committed["observed"])[:OUTSIDE]:
            line(f"    {text}")
    for entry in told["accepted"]:
        line(f"  drift accepted {entry['when']} by {entry['who']}: {entry['because']}", "yellow")
        for text in entry["changes"]:
            line(f"    {text}", "dim")
    code = told["code"]
    line(f"  code {code['digest'][:12]}: {len(code['units'])} functions, classes and constants")
    for name in code["units"]:
        line(f"    {name}", "dim")
    for text in code["opaque"]:
        line(f"    cannot be followed: {text}", "yellow")
    packages = ", ".join(f"{name} {version}" for name, version in sorted(told["packages"].items()))
    line(f"  packages {packages}")
