"""``marin completion``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from click.shell_completion import FishComplete, ZshComplete

from marin.cli.bash_completion import Bash
from marin.cli.commands import COMPLETE_VARIABLE, main
from marin.cli.exits import Exit
from marin.cli.options import ends

SHELLS = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
# Where each keeps it: nothing but completion is in these files, so that writing one replaces an older one.
INSTALL = {
    "bash": "marin completion bash > ~/.local/share/bash-completion/completions/marin   # with bash-completion\n"
    "echo 'eval \"$(marin completion bash)\"' >> ~/.bashrc                            # without",
    "zsh": "echo 'eval \"$(marin completion zsh)\"' >> ~/.zshrc                        # after compinit",
    "fish": "marin completion fish > ~/.config/fish/completions/marin.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
@ends
def command(shell: str | None) -> int:
    """A script that completes commands, options, steps, results, outputs and runs in SHELL (else that of $SHELL).

    On a terminal it says how to install it too.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        found = f"$SHELL is {shell}" if shell else "$SHELL is not set"
        raise click.UsageError(f"{found}; name one of {', '.join(SHELLS)}: `marin completion bash`")
    click.echo(SHELLS[shell](main, {}, "marin", COMPLETE_VARIABLE).source())
    if sys.stdout.isatty():
        click.echo(f"# This script completes marin in {shell}. To install it:\n{INSTALL[shell]}", err=True)
    return Exit.OK
