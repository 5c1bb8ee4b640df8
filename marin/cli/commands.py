"""The commands of ``marin``, by section, and how each is found.

One module per command, in this package and named after it, holding a ``command``; those of a cluster are in one.
A module is imported when its command is called, so ``marin --help`` and completion load none of them. To add one: a
file, a line in COMMANDS, a section of docs/commands.md, and rows in tests/cli/test_every_command.py.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from marin.cli.exits import Exit

# Section → command → what it does, in one line. Help shows them in this order.
COMMANDS: dict[str, dict[str, str]] = {
    "Every day": {
        "new": "A small project of your own, or another experiment in one.",
        "plan": "What would run, why, and what it costs; all about one step.",
        "run": "Plan and run an experiment, like running its file.",
        "status": "Who works on which step, what failed, and past runs.",
        "logs": "The log of a step's attempt, also while it runs.",
        "ls": "Committed outputs: name, size, when, by whom.",
        "cat": "What an output holds: documents, tokens decoded, metrics, scores, files.",
        "diff": "What differs between two experiments, or two git revisions of one.",
        "serve": "The store in a browser: runs, steps, documents, dropped text, tokens, curves.",
    },
    "Trust": {
        "lineage": "What an output was made from, and what was made from it.",
        "audit": "Whether results can be believed: what is wrong or doubtful.",
        "audit contamination": "Which cached text holds evaluation items, and which checkpoints read it.",
        "accept": "Let drifted outputs stand, with a reason; runs nothing.",
        "revoke": "Declare bytes bad; says what was made from them.",
        "adopt": "Bring outside data in, with a manifest and a reason, to be pinned.",
    },
    "Keeping": {
        "mirror": "Copy outputs to another store, every byte verified.",
        "gc": "What nothing needs any more, or what you name, and what deleting it would free.",
    },
    "Models": {
        "inspect": "Some of the batches that a training reads, checked, with samples of their text.",
        "compare": "Models side by side: tasks, bits per byte, what they wrote, how far their weights are apart.",
        "microanneal": "Is a dataset worth including? Short cooldowns with and without it, and a verdict.",
    },
    "Clusters": {
        "submit": "Run an experiment on a cluster, its driver too, and follow what it prints.",
        "cluster up": "Start a Ray cluster on this machine and keep it, or one that a file defines.",
        "cluster down": "End it.",
        "cluster status": "Its nodes, what they have, what runs and waits there.",
        "cluster jobs": "The drivers that were submitted to it.",
        "cluster logs": "What one of them printed, and prints.",
        "cluster dashboard": "Where to watch it in a browser.",
    },
    "This tool": {
        "completion": "Tab in bash, zsh and fish: prints the script and how to install it.",
    },
}
LINES = {name: line for section in COMMANDS.values() for name, line in section.items()}

# How a command line began, and what it is now; what is typed in capitals follows. Both work until the next release.
EARLIER = {
    "explain": "plan EXPERIMENT STEP",
    "phases": "plan --phases EXPERIMENT",
    "runs": "status",
    "health": "status --health TRAINING",
    "verify --bytes": "audit --every-byte",
    "verify": "audit --bytes",
    "rm": "gc --only named STEP",  # takes nothing away where STEP is an empty variable
    "lineage up": "lineage STEP",
    "lineage down": "lineage --down STEP",
}


def module_of(command: str) -> str:
    """Of marin.cli; those of a cluster share one, each under its second word."""
    return "cluster" if command.startswith("cluster ") else command.replace(" ", "_")


class LazyGroup(click.Group):
    """Imports a command's module when the command is needed, not before."""

    def main(self, *arguments: Any, **given: Any) -> Any:
        if "_MARIN_COMPLETE" not in os.environ:
            return super().main(*arguments, **given)
        from click.shell_completion import add_completion_class

        from marin.cli.completion import Bash

        add_completion_class(Bash, "bash")
        try:
            return super().main(*arguments, **given)
        except Exception:  # somebody is in the middle of a line: no completion is better than a traceback
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
                if not ctx.resilient_parsing:  # nobody is in the middle of a line
                    click.echo(f"`marin {earlier}` is `marin {now}` now", err=True)
                break
        name, kind = args[0], " ".join(args[:2])
        if kind in LINES and len(args) > 1:
            return super().resolve_command(ctx, [kind, *args[2:]])
        if name not in LINES and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, LINES, n=2)
            if kinds := [kind for kind in LINES if kind.startswith(f"{name} ")]:
                if args[1:2] in ([], ["-h"], ["--help"]):
                    click.echo("\n".join(f"marin {kind:20}  {LINES[kind]}" for kind in kinds))
                    ctx.exit()
                near = kinds
            if name.endswith(".py"):
                near = [f"{command} {name}" for command in ("run", "plan")]
            hint = f"did you mean {' or '.join(near)}?" if near else f"there are: {', '.join(LINES)}"
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
    """Plan, run and question LLM experiments."""
