"""``marin accept``."""

from __future__ import annotations

from rich.text import Text

from marin.cli.completions import complete_experiment_and_steps
from marin.cli.exits import Exit
from marin.cli.options import JSON, ExperimentOptions, echo_json
from marin.cli.parameters import all_of, argument, command_line, reason
from marin.errors import BadField
from marin.report.table import open_console, say
from marin.store.numbers import listed

NAMED = 6  # steps that still stop


@command_line()
def command(
    names: tuple[str, ...] = argument(
        nargs=-1, required=True, metavar="EXPERIMENT STEP...", complete=complete_experiment_and_steps
    ),
    because: str = reason("--because", "Why the outputs are still good; recorded and shown."),
    options: ExperimentOptions = all_of(ExperimentOptions),
    as_json: bool = JSON,
) -> int:
    """Accept drifted outputs of EXPERIMENT as they are, for the current change only. Runs nothing.

    STEP is op/label, label, op or identity. After another change, plans stop again.
    """
    from marin.plan.acceptance import accept_named
    from marin.plan.decision import Action
    from marin.plan.plan import resolve_names

    # The experiment may come before or after its steps.
    files = [name for name in names if name.endswith(".py")]
    if len(files) > 1:
        raise BadField(f"accept works on one experiment at a time; found {' and '.join(files)}")
    experiment = files[0] if files else names[0]
    named = [name for name in names if name != experiment]
    if not named:
        raise BadField(f"name the steps of {experiment} to accept; `marin plan {experiment}` lists the drifted ones")
    plan = options.plan(experiment)
    steps = sorted(resolve_names(named, plan.experiment.steps()), key=lambda step: step.name)
    accepted = accept_named(plan, steps, because)
    if as_json:
        echo_json([{"step": a.step.name, "identity": a.step.identity, **a.entry.to_plain()} for a in accepted])
        return Exit.OK
    console = open_console()
    for each in accepted:
        console.print(Text.assemble("accepted ", (each.step.name, "bold"), f" {each.step.identity[:12]}"))
        for line in each.entry.changes:
            say(console, f"    {line}", "yellow")
        say(console, f"    {each.entry.describe()}")
    done = {each.step for each in accepted}
    if left := [decision.step.name for decision in plan.having(Action.STOP) if decision.step not in done]:
        say(console, f"still stopping this experiment: {listed(left, NAMED)}")
    return Exit.OK
