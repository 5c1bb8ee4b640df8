"""``marin microanneal``: is this dataset worth including? Writes an experiment, and runs it."""

from __future__ import annotations

import importlib
import json
import re
import sys
from itertools import count
from pathlib import Path

import click

from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.options import PREFIX
from marin.cli.parameters import Parsed, command_line, flag, option
from marin.cli.run import command as run_command
from marin.errors import BadField, ExperimentError, UnknownStep
from marin.steps.scale import Scale
from marin.store.inventory import Inventory, read_inventory
from marin.store.lookup import output_called
from marin.store.record import Record
from marin.store.store import open_store

NAME = re.compile(r"[^a-z0-9]+")
NUMBER = re.compile(r"\d*\.?\d+")
HUB = re.compile(r"([\w.-]+/[\w.-]+)(?:@([0-9a-f]{40}))?")
# Of a candidate: its name is the label of these.
STAGES = ("text-files", "download-hf", "read-documents", "exact-dedup", "decontaminate", "tokenize")
# An experiment like any other: what is in braces is filled in.
FILE = '''\
"""Microannealing: {names}.

Question: is {names} worth including? A short cooldown of {checkpoint} on the usual mixture,
and one on each candidate at {share:.0%} of it; seeds, tokens and margin are below.
Decision: the verdict on each candidate, from tasks.
"""

from marin import Experiment, Scale, executor_main
from operators.new_candidates import Candidate, microanneal_of

from {module} import build as origin

CANDIDATES = {{
{candidates}
}}


def build(scale: Scale) -> Experiment:
    return microanneal_of(
        origin(scale),
        checkpoint="{identity}",  # {checkpoint}
        candidates=CANDIDATES,
        question=__doc__,
        label="{label}",
{settings}
    )


if __name__ == "__main__":
    executor_main(build)
'''


def parse_guard(text: str) -> tuple[str, float]:
    """``mmlu/acc=0.01``. Raises BadField."""
    name, _, loss = text.rpartition("=")
    if not name or not NUMBER.fullmatch(loss):
        raise BadField(f"--guard {text}: wanted a metric and how much it may lose, mmlu/acc=0.01 say")
    return name, float(loss)


@command_line()
def command(
    checkpoint: str = option(
        "--checkpoint",
        "Of the store: op/label, label, identity or path.",
        required=True,
        metavar="STEP",
        complete=complete_output,
    ),
    candidates: tuple[str, ...] = option(
        "--candidate",
        "A folder or file of text, or a dataset of the hub as OWNER/NAME@COMMIT. Repeatable.",
        multiple=True,
        required=True,
        metavar="PATH|HF-ID",
        complete=complete_path,
    ),
    experiment: str = option(
        "--experiment",
        "That made the checkpoint.  [default: as its record says]",
        default="",
        metavar="FILE",
        complete=complete_path,
    ),
    text_field: str = option("--text-field", "Of records in JSON lines and Parquet.", default="text"),
    share: float = option(
        "--share",
        "Of each candidate in the mixture.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.3,
    ),
    tokens: int | None = option("--tokens", "Of each run.  [default: one a parameter]", type=click.IntRange(min=1)),
    seeds: int = option("--seeds", "Runs of each arm.", type=click.IntRange(min=1), default=3),
    primary: tuple[str, ...] = option(
        "--primary", "What decides, such as gsm/olmes/bpb. Repeatable.", multiple=True, metavar="METRIC"
    ),
    margin: float = option("--margin", "Smaller differences do not matter.", type=float, default=0.01),
    guards: tuple[tuple[str, float], ...] = option(
        "--guard",
        "What may lose no more than this, such as mmlu/acc=0.01 or bpb/=0.05. Repeatable.",
        multiple=True,
        type=Parsed("METRIC=LOSS", parse_guard),
    ),
    shortest: float | None = option(
        "--shortest", "Tokens a parameter that are enough.  [default: 0.25]", type=click.FloatRange(min=0)
    ),
    max_epochs: float | None = option(
        "--max-epochs", "Over a source.  [default: the training's]", type=click.FloatRange(0, min_open=True)
    ),
    dry_run: bool = flag("--dry-run", "Write the experiment and say what would run and what it costs."),
    prefix: str = PREFIX,
) -> int:
    """Whether a dataset is worth including: short cooldowns of a checkpoint with and without it, and a verdict.

    Writes an experiment, here, on the one that made STEP, and runs it, as `marin run` would without further options:
    add candidates, seeds or tasks to that file later, and only those runs are made. The scale is the checkpoint's.
    """
    inventory = read_inventory(open_store(prefix))
    record = output_called(inventory, checkpoint)
    if record.kind != "checkpoint":
        raise UnknownStep(f"{record.name} is {record.kind.replace('_', ' ')}; --checkpoint wants a checkpoint")
    origin = Path(experiment) if experiment else _made_by(record, inventory)
    module = _module(origin)
    scale = Scale(record.provenance.scale or Scale.REHEARSAL)
    taken = _names(module, origin, scale)
    found = dict[str, str]()
    for candidate in candidates:
        given, code = _candidate(candidate, text_field)
        names = (f"{given}-{number}" if number > 1 else given for number in count(1))
        name = next(free for free in names if not any(f"{op}/{free}" in taken for op in STAGES))
        if name != given:
            click.echo(f"candidate {given} is called {name}: {origin} has steps with the label {given}")
        if name in found:
            raise BadField(f"two candidates are called {name}; rename a folder, or make them one")
        found[name] = code
    names = ", ".join(found)
    label = "-".join(found)
    settings = {
        "share": share, "tokens": tokens, "seeds": seeds, "primary": primary, "margin": margin,
        "guard": dict(guards), "shortest": shortest, "max_epochs": max_epochs,
    }  # fmt: skip
    text = FILE.format(
        names=names,
        checkpoint=record.name,
        identity=record.identity,
        share=share,
        module=module,
        label=label,
        candidates="\n".join(f'    "{name}": {code},' for name, code in found.items()),
        settings="\n".join(f"        {name}={value!r}," for name, value in settings.items() if value),
    )
    file = Path(f"microanneal_{label.replace('-', '_')}.py")
    if file.exists() and file.read_text() != text:
        raise ExperimentError(
            f"{file} exists already and says something else; nothing was written. Run that (marin run {file}), "
            "edit it, or take it away"
        )
    if not file.exists():
        file.write_text(text)
        click.echo(f"made {file}")
    run = click.get_current_context()
    run.invoke(run_command, experiment=str(file), scale=scale, prefix=prefix, dry_run=dry_run)
    return Exit.OK


def _made_by(record: Record, inventory: Inventory) -> Path:
    """The file of the experiment that a checkpoint was made by. Raises ExperimentError if it is not here."""
    stem = record.provenance.experiment
    patterns = (f"{stem}.py", f"*/{stem}.py") if stem else ()
    there = next((found for pattern in patterns if (found := sorted(Path().glob(pattern)))), list[Path]())
    if len(there) == 1:
        return there[0]
    if there:
        raise ExperimentError(f"{record.name} was made by one of {', '.join(map(str, there))}; say which: --experiment")
    by = f"by {stem}.py, which is not in this folder or one below" if stem else "by no experiment that is known"
    raise ExperimentError(
        f"{record.name} in {inventory.store.prefix} was made {by}; go to the folder of that project, or give "
        "--experiment"
    )


def _module(file: Path) -> str:
    """The name under which a file in this folder imports an experiment. Raises ExperimentError for one elsewhere."""
    if not file.is_file():
        raise ExperimentError(f"--experiment {file}: there is no such file")
    here = Path().absolute()
    if not file.absolute().is_relative_to(here):
        raise ExperimentError(f"{file} is not below {here}; go to the folder of its project")
    parts = file.absolute().relative_to(here).with_suffix("").parts
    if not all(part.isidentifier() for part in parts):
        raise ExperimentError(f"{file} cannot be imported: {'.'.join(parts)} is no name of a module")
    return ".".join(parts)


def _names(module: str, file: Path, scale: Scale) -> set[str]:
    """Of the steps of an experiment, imported as the file does that is written here."""
    from marin.steps.experiment_file import built_by, explained

    if (here := str(Path().absolute())) not in sys.path:
        sys.path.insert(0, here)
    with explained(file):
        build = importlib.import_module(module).build
    return {step.name for step in built_by(build, file, scale).steps()}


def _candidate(given: str, text_field: str) -> tuple[str, str]:
    """(name, code). Raises BadField for what is neither text nor a dataset at a commit."""
    field = "" if text_field == "text" else f", text_field={_code(text_field)}"
    path = Path(given).expanduser()
    if "://" in given or path.exists():
        where = given if "://" in given else str(path.absolute())
        name = NAME.sub("-", Path(where.rstrip("/*")).name.partition(".")[0].lower()).strip("-")
        return name or "candidate", f"Candidate(path={_code(where)}{field})"
    named = HUB.fullmatch(given)
    if named is None:
        raise BadField(
            f"--candidate {given}: there is no such file or folder, and it is no OWNER/NAME@COMMIT of the hub"
        )
    if not named[2]:
        raise BadField(
            f"--candidate {given}: there is no such folder; if it is a dataset of the hub, say at which commit: "
            f"{given}@ and 40 hex digits, which its page shows under Files → History"
        )
    name = NAME.sub("-", named[1].rpartition("/")[2].lower()).strip("-")
    return name, f"Candidate(repo={_code(named[1])}, revision={_code(named[2])}{field})"


def _code(text: str) -> str:
    """In double quotes, as the rest of the file."""
    return json.dumps(text, ensure_ascii=False)
