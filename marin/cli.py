"""``marin``: the same engine for any experiment file: plan, run, explain, status, verify."""

from __future__ import annotations

import json
import sys
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from marin.errors import BadPrefix, CorruptRecord, UnknownStep
from marin.experiment import Experiment
from marin.experiment_file import built_by, load_build
from marin.main import EXIT_DRIFT, EXIT_OK, EXIT_STORE, Options, guarded, run_experiment, run_options
from marin.plan import Action, Decision, Plan, make_plan, resolve_names
from marin.scale import Scale
from marin.store import Store, open_store


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="marin")
def main() -> None:
    """Plan, run and question LLM experiments."""


@main.command("run", help="Plan and run EXPERIMENT (a file), like running the file itself.")
@click.argument("experiment")
@run_options
def run_command(experiment: str, **given: Any) -> None:
    def work() -> int:
        build, source = load_build(experiment)
        return run_experiment(build, source, Options(**given))

    sys.exit(guarded(work))


def _inspecting(command: Any) -> Any:
    for decorate in (
        click.option("--json", "as_json", is_flag=True, help="For scripts."),
        click.option("--prefix", default="store", show_default=True, help="Where the store lives."),
        click.option("--scale", type=click.Choice(Scale, case_sensitive=False), default=Scale.REHEARSAL),
        click.argument("experiment"),
    ):
        command = decorate(command)
    return command


def _plan(experiment: str, scale: Scale, prefix: str) -> tuple[Experiment, Store, Plan]:
    build, source = load_build(experiment)
    built, store = built_by(build, source, scale), open_store(prefix)
    return built, store, make_plan(built, store)


@main.command(help="What would run and why, one line a step; exit code 3 if something drifted.")
@_inspecting
def plan(experiment: str, scale: Scale, prefix: str, as_json: bool) -> None:
    def work() -> int:
        from marin.costs import print_costs
        from marin.terminal import print_plan

        _, _, made = _plan(experiment, scale, prefix)
        if as_json:
            click.echo(json.dumps([_as_json(decision) for decision in made.decisions], indent=1, ensure_ascii=False))
        else:
            print_plan(Console(), made, every=True)
            print_costs(Console(), made)
        return EXIT_DRIFT if made.having(Action.STOP) else EXIT_OK

    sys.exit(guarded(work))


def _as_json(decision: Decision) -> dict[str, Any]:
    return {
        "step": decision.step.name,
        "identity": decision.step.identity,
        "action": decision.action,
        "reason": decision.reason,
        "drift": list(decision.drift),
        "notes": list(decision.notes),
        "output": decision.record.attempt if decision.record else None,
    }


@main.command(help="Everything known about STEP (op/label, op or identity): fields, inputs, code, why it would run.")
@_inspecting
@click.argument("step")
def explain(experiment: str, scale: Scale, prefix: str, as_json: bool, step: str) -> None:
    def work() -> int:
        from marin.explain import explanation, print_explanation

        built, _, made = _plan(experiment, scale, prefix)
        steps = sorted(resolve_names([step], built.steps()), key=lambda held: held.name)
        explanations = [explanation(made, found) for found in steps]
        if as_json:
            click.echo(json.dumps(explanations, indent=1, ensure_ascii=False))
            return EXIT_OK
        for told in explanations:
            print_explanation(Console(), told)
        return EXIT_OK

    sys.exit(guarded(work))


@main.command(help="Which outputs of the experiment are there, who is working on which, what failed.")
@_inspecting
def status(experiment: str, scale: Scale, prefix: str, as_json: bool) -> None:
    def work() -> int:
        from marin.status import step_status

        built, store, _ = _plan(experiment, scale, prefix)
        rows = [step_status(store, step) for step in built.steps()]
        if as_json:
            click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
            return EXIT_OK
        table = Table(box=None, header_style="bold")
        for heading in ("step", "status", "detail"):
            table.add_column(heading, overflow="fold")
        for row in rows:
            table.add_row(Text(row["step"]), row["status"], Text(row["detail"]))
        Console().print(table)
        return EXIT_OK

    sys.exit(guarded(work))


@main.command(help="Re-read committed outputs and compare with their manifests; exit code 5 if any differs.")
@click.option("--prefix", default="store", show_default=True, help="Where the store lives.")
@click.option("--sizes-only", is_flag=True, help="Names and sizes, without reading every byte.")
@click.option("--json", "as_json", is_flag=True, help="For scripts.")
@click.argument("steps", nargs=-1)
def verify(prefix: str, sizes_only: bool, as_json: bool, steps: tuple[str, ...]) -> None:
    def work() -> int:
        store = open_store(prefix)
        if not store.directory.exists():
            raise BadPrefix(f"{store.prefix} does not exist; --prefix names the store to verify")
        wrong: dict[str, list[str]] = {}
        checked = 0
        asked = set(steps)
        for identity in sorted(store.identities()):
            try:
                record = store.record(identity)
            except CorruptRecord as error:
                wrong[identity] = [str(error)]
                asked.discard(identity)
                continue
            if record is None:
                continue
            names = {record.name, record.op, record.label, identity, identity[:12]}
            if steps and not names & set(steps):
                continue
            asked -= names
            checked += 1
            found = store.verify(record, checksums=not sizes_only)
            if found:
                wrong[f"{record.name} {identity[:12]}"] = found
        if asked:
            raise UnknownStep(f"no committed output in {store.prefix} is called {', '.join(sorted(asked))}")
        if as_json:
            click.echo(json.dumps({"checked": checked, "wrong": wrong}, indent=1, ensure_ascii=False))
        else:
            console = Console()
            for name, found in wrong.items():
                console.print(name, style="red", highlight=False, markup=False, soft_wrap=True)
                for line in found:
                    console.print(f"    {line}", highlight=False, markup=False, soft_wrap=True)
            console.print(
                f"{checked} outputs checked, {len(wrong)} damaged — store {store.prefix}", markup=False, highlight=False
            )
            if wrong:
                console.print("make a damaged output again with --rebuild STEP when running its experiment")
        return EXIT_STORE if wrong else EXIT_OK

    sys.exit(guarded(work))
