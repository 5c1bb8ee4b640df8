"""Read the commands from a page of the documentation, and the output that the page shows for each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PROGRAMS = {
    *(
        "./check",
        "./py",
        "cd",
        "chgrp",
        "chmod",
        "docker",
        "export",
        "gcloud",
        "git",
        "hf",
        "kubectl",
        "marin",
        "mkdir",
        "mkdocs",
        "pip",
        "pwd",
    ),
    *("python", "ray", "ssh", "trackio", "unset", "uv", "wandb"),
}
# First lines of blocks without a language that hold no command, and texts in sentences that look like commands.
TEXT = {
    "experiments/       questions: one file for each GitHub issue; README.md has a table of all",
    "store < steps < fingerprint < plan < executor < report < upkeep < cli        text  data  training  evaluation",
    "note: not seen: files that programs of the step read (grep); 1 step. List it in outside(), and "
    "marin notices when it changes",
    "✓ [1/2] download-files/own  0.00 s",
    "PatchedCode: Say: this process runs code that differs from the files:",
    "begins with 32,519,623,680 parameters of another run's checkpoint, 0 fresh, 0 left out",
    "stop  pinned/math     lib.rules.BANNED changed (9ccb70d5 → b0f3ea5d) since bundle/dolmino was made",
    "…",
    "BadField: Train 'run': a batch of 4,000 sequences, from step 0 on, cannot be shared by the 1,024 chips of "
    "v4-2048. Nearest that can: 3,072 and 4,096; or make those steps a run of its own on other chips, which begins "
    "with Fork(…)",
    "PlanError: train/run asks for v4-2048 (256 hosts), each host with 1 CPU, 4 TPU; the cluster's 5 node(s) have "
    "1 × v4-16 (of 2 hosts), 2 × v4-8 (of 1 and 1 hosts). Ask for an accelerator that it has (tpu(…) | tpu(…) allows "
    "either of two), or give the --address of another cluster",
    "marin needs Python 3.12 or 3.13",
}
PLAN = re.compile(r"train +\d+  ≥ ~")  # a plan's line; tests/cli/test_troubleshooting.py compares its numbers
SHELL = re.compile(r"^```(?:sh|bash|)\n(.*?)^```|(?<![`\w])`([^`]+)`", re.MULTILINE | re.DOTALL)
BESIDE = re.compile(r" {3,}| +# ")  # text beside a command


@dataclass(frozen=True)
class Command:
    """A command on a page. text: in a shell's form. prints: the output that the page shows, () for none."""

    text: str
    prints: tuple[str, ...] = ()


def is_command(line: str) -> bool:
    return bool(words := program_and_rest(line)) and words[0] in PROGRAMS


def program_and_rest(line: str) -> tuple[str, str]:
    """Return the program and the rest, without the line's own variables and without the folder of an environment."""
    name, _, rest = re.sub(r"^(?:[A-Z_]+=\S+ )*(?:\S*\.venv/bin/)?", "", line).partition(" ")
    return name, rest.strip()


def commands(page: Path) -> list[Command]:
    """Return the commands in order. A command in a sentence counts if a word follows its name (and subcommand)."""
    text = re.sub(r"^#.*$", "", page.read_text(), flags=re.MULTILINE)  # a title with a command introduces it
    text = re.sub(r"^```(?!sh\n|bash\n|\n)\w+\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    found: list[Command] = []
    for block, span in SHELL.findall(text):
        found += in_block(block, page.name) if block else in_sentence(" ".join(span.split()))
    return found


def in_block(block: str, page: str) -> list[Command]:
    lines = block.splitlines()
    shown = [re.sub(r"^(?:\$|next:) ", "", line) for line in lines]
    if not any(is_command(line) for line in shown):
        assert lines[0] in TEXT or PLAN.match(lines[0]), (
            f"{page}: no command that the tests know, and no known text: {lines[0]!r}"
        )
        return []
    asked = any(line.startswith("$ ") for line in lines)
    found: list[tuple[str, list[str]]] = []
    printing: list[str] = []
    for line, bare in zip(lines, shown, strict=True):
        if is_command(bare) and (line.startswith(("$ ", "next: ")) or not asked):
            found.append((BESIDE.split(bare)[0], []))
            if line.startswith("next: "):
                printing.append(line)
            else:
                printing = found[-1][1]
        elif found:
            printing.append(line)
        else:
            assert asked, f"{page}: is this a command? {line!r}"
    return [Command(text, tuple(prints)) for text, prints in found]


def in_sentence(span: str) -> list[Command]:
    words = span.replace("\\|", "|").split()
    is_name = len(words) < 2 or (words[0].endswith(("marin", "ray")) and len(words) < 3 and words[1] != "--help")
    return [Command(" ".join(words))] if not is_name and is_command(span) and span not in TEXT else []
