"""The commands of ``marin`` by section, and the lookup of a command.

Each command has a module of its name in this package, with a ``command``; the cluster commands share one module. marin
imports a module when its command is called, so ``marin --help`` and completion load no module. To add a command, add a
file, a line in COMMANDS, a section of docs/commands.md, and rows in tests/cli/test_every_command.py.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from marin.cli.exits import Exit
from marin.errors import did_you_mean

# Section → command → its line in --help, in this order.
COMMANDS: dict[str, dict[str, str]] = {
    "Every day": {
        "new": "Make a small project, or another experiment in one.",
        "plan": "Show the steps that would run, why, and their cost; or everything about one step.",
        "run": "Plan and run an experiment, like running its file.",
        "status": "Show running and failed steps, and past runs.",
        "logs": "Print the log of a step's attempt, also while it runs.",
        "ls": "List committed outputs: name, size, time, maker.",
        "cat": "Print the contents of an output: documents, decoded tokens, metrics, scores, files.",
        "diff": "Compare two experiments, or two git revisions of one.",
        "serve": "Show the store in a browser: runs, steps, documents, dropped text, tokens, curves.",
    },
    "Trust": {
        "lineage": "Show the inputs of an output, or everything built from it.",
        "audit": "Show whether results can be trusted: errors, doubts, decisions.",
        "audit contamination": "Search cached text for evaluation items, and name the checkpoints that read them.",
        "accept": "Accept drifted outputs as they are, with a reason; runs nothing.",
        "revoke": "Declare bytes bad, and list everything built from them.",
        "adopt": "Copy outside data into the store, with a manifest and a reason, to pin it.",
    },
    "Keeping": {
        "mirror": "Copy outputs to another store, and verify every byte.",
        "gc": "List outputs that nothing needs, or the ones you name, and the space that deleting them would free.",
    },
    "Models": {
        "inspect": "Check some batches of a training, and show samples of their text.",
        "compare": "Compare models side by side: tasks, bits per byte, answers to prompts, distance of the weights.",
        "microanneal": "Judge a dataset: short cooldowns with and without it, and a verdict on including it.",
    },
    "Clusters": {
        "submit": "Run an experiment on a cluster, with its driver, and print the driver's output.",
        "cluster up": "Start a Ray cluster on this machine and keep it, or start one that a file defines.",
        "cluster down": "End the cluster that `marin cluster up` started, or that a file defines.",
        "cluster status": "List a cluster's nodes with their resources, and the steps that run or wait there.",
        "cluster jobs": "List the drivers that were submitted to a cluster.",
        "cluster logs": "Print the output of a submitted driver.",
        "cluster dashboard": "Print the address of a cluster's dashboard for a browser.",
    },
    "This tool": {
        "completion": "Print the script for Tab in bash, zsh and fish, and how to install it.",
    },
}
LINES = {name: line for section in COMMANDS.values() for name, line in section.items()}

# Former beginning of a command line → its present form; the user types the words in capitals. Both work until the next
# release.
EARLIER = {
    "explain": "plan EXPERIMENT STEP",
    "phases": "plan --phases EXPERIMENT",
    "runs": "status",
    "health": "status --health TRAINING",
    "verify --bytes": "audit --every-byte",
    "verify": "audit --bytes",
    "rm": "gc --only named STEP",  # deletes nothing if STEP is an empty variable
    "lineage up": "lineage STEP",
    "lineage down": "lineage --down STEP",
}


def module_of(command: str) -> str:
    """Return the module of a command in marin.cli. The cluster commands share one, each under its second word."""
    return "cluster" if command.startswith("cluster ") else command.replace(" ", "_")


class LazyGroup(click.Group):
    """The group of all commands. It imports a command's module only when the command is needed."""

    def main(self, *arguments: Any, **given: Any) -> Any:
        if "_MARIN_COMPLETE" not in os.environ:
            return super().main(*arguments, **given)
        from click.shell_completion import add_completion_class

        from marin.cli.completion import Bash

        add_completion_class(Bash, "bash")
        try:
            return super().main(*arguments, **given)
        except Exception:  # in the middle of a line, no completion is better than a traceback
            sys.exit(Exit.FAILED)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(LINES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in LINES:
            return None
        module = importlib.import_module(f"marin.cli.{module_of(cmd_name)}")
        name = cmd_name.removeprefix("cluster ")
        return getattr(module, "command" if name == cmd_name else name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        for earlier, now in EARLIER.items():
            words = earlier.split()
            if args[: len(words)] == words:
                args = [*(word for word in now.split() if not word.isupper()), *args[len(words) :]]
                if not ctx.resilient_parsing:  # not while Tab completes a line
                    click.echo(f"`marin {earlier}` is `marin {now}` now", err=True)
                break
        name, kind = args[0], " ".join(args[:2])
        if kind in LINES and len(args) > 1:
            return super().resolve_command(ctx, [kind, *args[2:]])
        if name not in LINES and not name.startswith("-"):
            near = [kind for kind in LINES if kind.startswith(f"{name} ")]
            if near and args[1:2] in ([], ["-h"], ["--help"]):
                click.echo("\n".join(f"marin {kind:20}  {LINES[kind]}" for kind in near))
                ctx.exit()
            if name.endswith(".py"):
                near = [f"{command} {name}" for command in ("run", "plan")]
            every = f"there are: {', '.join(LINES)}"
            hint = f"did you mean {' or '.join(near)}?" if near else did_you_mean(name, LINES, every)
            ctx.fail(f"no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in COMMANDS.items():
            with formatter.section(section):
                formatter.write_dl(list(commands.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = {name: line for name, line in LINES.items() if " " not in name and name.startswith(incomplete)}
        items = [CompletionItem(name, help=line) for name, line in names.items()]
        return [*items, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="marin")
def main() -> None:
    """Plan, run and examine LLM experiments."""
