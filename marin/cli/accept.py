"""``marin accept``."""

from __future__ import annotations

import click
from rich.text import Text

from marin.cli.completions import complete_experiment_and_steps
from marin.cli.exits import Exit
from marin.cli.options import JSON, PREFIX, echo_json, ends, plan_of, scale_option
from marin.errors import BadField
from marin.report.table import open_console
from marin.steps.scale import Scale


@click.command()
@click.argument(
    "names", nargs=-1, required=True, metavar="EXPERIMENT STEP...", shell_complete=complete_experiment_and_steps
)
@click.option("--because", default="", metavar="REASON", help="Why the outputs still stand; recorded and shown.")
@scale_option()
@PREFIX
@JSON
@ends
def command(names: tuple[str, ...], because: str, scale: Scale, prefix: str, as_json: bool) -> int:
    """Let STEPs of EXPERIMENT stand although what would make them has changed, and say why. Runs nothing.

    STEP is op/label, label, op or identity. What is accepted is the change as it is now: another change stops again.
    """
    from marin.plan.acceptance import accept_named
    from marin.plan.decision import Action
    from marin.plan.plan import resolve_names

    experiment, asked = _apart(names)
    made = plan_of(experiment, scale, prefix)
    steps = sorted(resolve_names(asked, made.experiment.steps()), key=lambda step: step.name)
    done = accept_named(made, steps, because)
    rows = [{"step": held.step.name, "identity": held.step.identity, **held.entry.to_plain()} for held in done]
    if as_json:
        echo_json(rows)
        return Exit.OK
    console = open_console()
    for held in done:
        console.print(Text.assemble("accepted ", (held.step.name, "bold"), f" {held.step.identity[:12]}"))
        for line in held.entry.changes:
            console.print(Text(f"    {line}", style="yellow"), soft_wrap=True)
        console.print(Text(f"    {held.entry.describe()}"), soft_wrap=True)
    left = [decision.step.name for decision in made.having(Action.STOP) if decision.step not in {h.step for h in done}]
    if left:
        more = f" and {len(left) - 6} more" if len(left) > 6 else ""
        console.print(Text(f"still stopping this experiment: {', '.join(left[:6])}{more}"), soft_wrap=True)
    return Exit.OK


def _apart(names: tuple[str, ...]) -> tuple[str, list[str]]:
    """(the experiment, the steps), in whichever order they were given."""
    files = [name for name in names if name.endswith(".py")]
    if len(files) > 1:
        raise BadField(f"accept works on one experiment at a time; found {' and '.join(files)}")
    experiment = files[0] if files else names[0]
    steps = list(names)
    steps.remove(experiment)
    if not steps:
        raise BadField(f"name the steps of {experiment} to accept; `marin plan {experiment}` lists what stops")
    return experiment, steps
