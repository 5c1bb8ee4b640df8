"""Tab in bash, for names that bash takes apart: ``train/pretrain@160000``, ``gs://…``, labels with spaces.

bash splits a command line at ``@``, ``:`` and ``=`` too and replaces only what follows the last of them, so the line is
split here instead, and of each completion only the end is handed back.
"""

from __future__ import annotations

import os
import re
from typing import Any

from click.shell_completion import BashComplete, CompletionItem, split_arg_string

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
UNQUOTED = re.compile(r"[^\w@%+=:,./#-]")


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
        value: Any = item.value
        return f"{item.type},{UNQUOTED.sub(_escaped, str(value)[self._kept :]) if item.type == 'plain' else value}"


def _escaped(mark: re.Match[str]) -> str:
    return f"\\{mark[0]}"
