"""``marin completion``, and Tab in bash for names that bash splits.

bash also splits a command line at ``@``, ``:`` and ``=`` (``train/pretrain@160000``, ``gs://…``), and replaces only the
part after the last one. So marin splits the line itself, and returns only the end of each completion.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete, split_arg_string

from marin.cli.exits import Exit
from marin.cli.parameters import argument, command_line

COMPLETE_VARIABLE = "_MARIN_COMPLETE"  # set by the scripts when somebody presses Tab
SCRIPT = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""
QUOTED = re.compile(r"([^\w@%+=:,./#-])")  # letters that need a backslash


class Bash(BashComplete):
    source_template = SCRIPT

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)
        incomplete = words.pop() if words and not line[-1].isspace() else ""
        breaks = {mark for mark in os.environ.get("COMP_BREAKS", "") if not mark.isspace() and mark not in "\"'"}
        self._kept = max((incomplete.rfind(mark) for mark in breaks), default=-1) + 1  # letters that bash keeps
        return words[1:], incomplete

    def format_completion(self, item: CompletionItem) -> str:
        value = str(item.value)
        return f"{item.type},{QUOTED.sub(r'\\\1', value[self._kept :]) if item.type == 'plain' else value}"


SHELLS = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
# The files of bash-completion and fish hold nothing but marin's completion, so writing one replaces an older one.
INSTALL = {
    "bash": "marin completion bash > ~/.local/share/bash-completion/completions/marin   # with bash-completion\n"
    "echo 'eval \"$(marin completion bash)\"' >> ~/.bashrc                            # without",
    "zsh": "echo 'eval \"$(marin completion zsh)\"' >> ~/.zshrc                        # after compinit",
    "fish": "marin completion fish > ~/.config/fish/completions/marin.fish",
}


@command_line()
def command(shell: str | None = argument(type=click.Choice(list(SHELLS)), required=False)) -> int:
    """Print a script that completes commands, options, steps, results, outputs and runs in SHELL, by default $SHELL.

    On a terminal, the command also says how to install the script.
    """
    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in SHELLS:
        found = f"$SHELL is {shell}" if shell else "$SHELL is not set"
        raise click.UsageError(f"{found}; name one of {', '.join(SHELLS)}: `marin completion bash`")
    click.echo(SHELLS[shell](click.get_current_context().find_root().command, {}, "marin", COMPLETE_VARIABLE).source())
    if sys.stdout.isatty():
        click.echo(f"# This script completes marin in {shell}. To install it:\n{INSTALL[shell]}", err=True)
    return Exit.OK
