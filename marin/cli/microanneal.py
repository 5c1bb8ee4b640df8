"""``marin microanneal``: judge whether a dataset is worth including. Writes an experiment and runs it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import click

from marin.cli.candidate import candidate
from marin.cli.completions import complete_output, complete_path
from marin.cli.exits import Exit
from marin.cli.new_model import GivenModel, names_model
from marin.cli.options import PREFIX
from marin.cli.origin import experiment_of, module_of, origin_of
from marin.cli.parameters import Parsed, all_of, command_line, flag, option
from marin.cli.published_base import PublishedOptions, names_of_published, published_file
from marin.cli.run import command as run_command
from marin.errors import BadField, ExperimentError, UnknownStep
from marin.steps.scale import Scale
from marin.store.inventory import read_inventory
from marin.store.lookup import output_called, published_as
from marin.store.store import open_store

NUMBER = re.compile(r"\d*\.?\d+")
# Operators of a candidate's steps. The candidate's name is their label.
STAGES = ("text-files", "download-hf", "read-documents", "exact-dedup", "decontaminate", "tokenize")
# The experiment that the command writes, with the fields in braces filled in.
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
    """Parse a metric and its largest loss, ``mmlu/acc=0.01``. Raises BadField."""
    name, _, loss = text.rpartition("=")
    if not name or not NUMBER.fullmatch(loss):
        raise BadField(f"--guard {text}: wanted a metric and how much it may lose, such as mmlu/acc=0.01")
    return name, float(loss)


@command_line()
def command(
    checkpoint: str = option(
        "--checkpoint",
        "Of the store: op/label, label, identity or path; or a published model, hf:OWNER/NAME@COMMIT or a folder.",
        required=True,
        metavar="STEP|MODEL",
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
        "The experiment that made the checkpoint.  [default: the one that its record names]",
        default="",
        metavar="FILE",
        complete=complete_path,
    ),
    text_field: str = option("--text-field", "The field with the text, in JSON lines and Parquet.", default="text"),
    share: float = option(
        "--share",
        "The share of a candidate in the mixture.",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.3,
    ),
    tokens: int | None = option(
        "--tokens", "Tokens of each run.  [default: one a parameter]", type=click.IntRange(min=1)
    ),
    seeds: int = option("--seeds", "Runs of each arm.", type=click.IntRange(min=1), default=3),
    primary: tuple[str, ...] = option(
        "--primary", "The deciding metric, such as gsm/olmes/bpb. Repeatable.", multiple=True, metavar="METRIC"
    ),
    margin: float = option("--margin", "Differences smaller than this do not matter.", type=float, default=0.01),
    guards: tuple[tuple[str, float], ...] = option(
        "--guard",
        "A metric may lose no more than this, such as mmlu/acc=0.01 or bpb/=0.05. Repeatable.",
        multiple=True,
        type=Parsed("METRIC=LOSS", parse_guard),
    ),
    shortest: float | None = option(
        "--shortest", "Refuse runs with fewer tokens a parameter.  [default: 0.25]", type=click.FloatRange(min=0)
    ),
    max_epochs: float | None = option(
        "--max-epochs",
        "How often a run may read a source.  [default: the training's]",
        type=click.FloatRange(0, min_open=True),
    ),
    published: PublishedOptions = all_of(PublishedOptions),
    dry_run: bool = flag("--dry-run", "Write the experiment, and show its plan and cost."),
    prefix: str = PREFIX,
) -> int:
    """Judge whether a dataset is worth including: short cooldowns of a checkpoint with and without it, and a verdict.

    The command writes an experiment into this folder, based on the experiment that made the checkpoint, and runs it as
    a plain `marin run` would. You can add candidates, seeds or tasks to that file later; then only the new runs run.
    The scale is the checkpoint's.

    A published model names neither its text nor its schedule: give --control, --questions and --peak-lr with it.
    """
    settings = {
        "share": share, "tokens": tokens, "seeds": seeds, "primary": primary, "margin": margin,
        "guard": dict(guards), "shortest": shortest, "max_epochs": max_epochs,
    }  # fmt: skip
    given, record, inventory = checkpoint, None, None
    if not names_model(given):
        inventory = read_inventory(open_store(prefix))
        record = output_called(inventory, checkpoint)
        if record.kind != "checkpoint":
            raise UnknownStep(f"{record.name} is {record.kind.replace('_', ' ')}; --checkpoint wants a checkpoint")
        given = published_as(record)
    if record is None or inventory is None or names_model(given):
        if experiment:
            raise BadField(
                f"--experiment {experiment}: {given} is a published model, which no experiment made; leave it out"
            )
        published.must_be_whole(checkpoint, candidates)
        scale, taken = Scale.FULL, names_of_published(published.questions)
        found = _named(candidates, text_field, taken, "the experiment")
        text = published_file(GivenModel(given), found, published, settings, text_field)
    else:
        published.must_be_left_out(record.name)
        origin = Path(experiment) if experiment else origin_of(record, inventory)
        module = module_of(origin)
        scale = Scale(record.provenance.scale or Scale.REHEARSAL)
        taken = {step.name for step in experiment_of(module, origin, scale).steps()}
        found = _named(candidates, text_field, taken, str(origin))
        text = FILE.format(
            names=", ".join(found),
            checkpoint=record.name,
            identity=record.identity,
            share=share,
            module=module,
            label="-".join(found),
            candidates="\n".join(f'    "{name}": {code},' for name, code in found.items()),
            settings="\n".join(f"        {name}={value!r}," for name, value in settings.items() if value),
        )
    file = Path(f"microanneal_{'-'.join(found).replace('-', '_')}.py")
    if file.exists() and file.read_text() != text:
        raise ExperimentError(
            f"{file} exists already with other contents; nothing was written. Run that file (marin run {file}), "
            "edit it, or delete it"
        )
    if not file.exists():
        file.write_text(text)
        click.echo(f"made {file}")
    run = click.get_current_context()
    run.invoke(run_command, experiment=str(file), scale=scale, prefix=prefix, dry_run=dry_run)
    return Exit.OK


def _named(given: Sequence[str], text_field: str, taken: set[str], owner: str) -> dict[str, str]:
    """Return the code of each candidate by name. taken: names of steps that owner already has. Raises BadField."""
    found = dict[str, str]()
    for each in given:
        called, code = candidate("--candidate", each, text_field)
        names = (f"{called}-{number}" if number > 1 else called for number in count(1))
        name = next(free for free in names if not any(f"{op}/{free}" in taken for op in STAGES))
        if name != called:
            click.echo(f"candidate {called} gets the name {name}, because {owner} has steps with the label {called}")
        if name in found:
            raise BadField(f"two candidates are called {name}; rename one folder, or put both into one")
        found[name] = code
    return found
