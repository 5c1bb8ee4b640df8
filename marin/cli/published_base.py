"""``marin microanneal --checkpoint hf:…``: options that only a published model needs, and its experiment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from marin.cli.candidate import candidate, name_of, quoted
from marin.cli.completions import complete_path
from marin.cli.new_model import GivenModel
from marin.cli.parameters import flag, option
from marin.errors import BadField
from marin.report.typed import marin

CONTROL = "control"
# Option → an example of its value, and why only the user knows the value.
NEEDED = {
    "control": ("FOLDER", "ordinary text like the model's own; without it every candidate is compared with forgetting"),
    "questions": (
        "FILE.jsonl",
        'the tasks that decide the verdict, a line each: {"question": "…", "answer": "… #### 9"}',
    ),
    "peak_lr": ("1e-4", "the learning rate of the cooldowns; the model does not record its final learning rate"),
}
# The experiment that the command writes, with the fields in braces filled in.
FILE = '''\
"""Microannealing: {names} on {model}.

Question: is {names} worth adding to {model}? A short training on ordinary text,
and one with each candidate at {share:.0%} of it; seeds, tokens and margin are below.
Decision: the verdict on each candidate, from the questions.
"""

from marin import Experiment, Scale, executor_main
{shapes}
from operators.new_candidates import Candidate, microanneal_published
{operator}

# printed by: marin new model {given}
{declared}
CONTROL = {control}
CANDIDATES = {{
{candidates}
}}
QUESTIONS = {{
{questions}
}}


def build(scale: Scale) -> Experiment:
    return microanneal_published(
        MODEL,
        control=CONTROL,
        candidates=CANDIDATES,
        questions=QUESTIONS,
        question=__doc__,
        label="{label}",
{settings}
    )


if __name__ == "__main__":
    executor_main(build)
'''


@dataclass(frozen=True, kw_only=True)
class PublishedOptions:
    """Options that replace the experiment of a checkpoint, which a published model does not have."""

    control: str = option(
        "--control",
        "For a published model: ordinary text like its own, named as for --candidate.",
        default="",
        metavar="PATH|HF-ID",
        complete=complete_path,
    )
    questions: tuple[str, ...] = option(
        "--questions",
        "For a published model: the deciding tasks, JSON lines with question and answer. Repeatable.",
        multiple=True,
        metavar="FILE",
        complete=complete_path,
    )
    peak_lr: float | None = option(
        "--peak-lr",
        "For a published model: the highest learning rate of the cooldowns.",
        type=click.FloatRange(0, min_open=True),
    )
    bos: bool = flag(
        "--bos", "For a published model: texts begin with the token that its tokenizer puts first, as Llama's do."
    )

    def must_be_whole(self, checkpoint: str, candidates: Sequence[str]) -> None:
        """Raise BadField for missing options. The message gives the reason for each and the whole command."""
        missing = [name for name in NEEDED if not getattr(self, name)]
        if not missing:
            return
        words = ["microanneal", "--checkpoint", checkpoint]
        words += [word for each in candidates for word in ("--candidate", each)]
        given = {"control": [self.control], "questions": self.questions, "peak_lr": [str(self.peak_lr or "")]}
        for name, (example, _) in NEEDED.items():
            words += [word for value in given[name] or [""] for word in (_flag(name), value or example)]
        words += ["--bos"] if self.bos else []
        why = "\n".join(f"  {_flag(name)} {NEEDED[name][0]}: {NEEDED[name][1]}" for name in missing)
        raise BadField(
            f"{checkpoint} is a published model, so marin does not know:\n{why}\nNothing was written. Give "
            f"{'it' if len(missing) == 1 else 'them'}:\n  {marin(*words)}"
        )

    def must_be_left_out(self, checkpoint: str) -> None:
        """Raise BadField for an option that the experiment of a checkpoint answers itself."""
        given = [_flag(each.name) for each in fields(self) if getattr(self, each.name)]
        if given:
            raise BadField(
                f"{checkpoint} was made by an experiment, which sets text, tasks and learning rate; leave out "
                f"{', '.join(given)}"
            )


def names_of_published(questions: Sequence[str]) -> set[str]:
    """Return the names of the experiment's steps that do not belong to a candidate."""
    return {f"tokenize/{name}" for name in (CONTROL, *map(name_of, questions))}


def published_file(
    model: GivenModel,
    candidates: Mapping[str, str],
    options: PublishedOptions,
    settings: Mapping[str, Any],
    text_field: str,
) -> str:
    """Return the text of the experiment. candidates: code by name. Reads only config.json of the model.

    Raises BadField for missing files of questions, InputError for a model that marin does not read.
    """
    shapes, operator = model.imports()
    more = {"peak_lr": options.peak_lr, "bos": options.bos}
    return FILE.format(
        names=", ".join(candidates),
        model=model.name,
        given=shlex.quote(model.given),
        share=settings["share"],
        shapes=shapes,
        operator=operator,
        declared=model.code(),
        control=candidate("--control", options.control, text_field)[1],
        candidates="\n".join(f'    "{name}": {code},' for name, code in candidates.items()),
        questions="\n".join(f'    "{name}": {quoted(path)},' for name, path in _tasks(options.questions).items()),
        label="-".join(candidates),
        settings="\n".join(f"        {name}={value!r}," for name, value in (more | dict(settings)).items() if value),
    )


def _tasks(questions: Sequence[str]) -> dict[str, str]:
    found = dict[str, str]()
    for given in questions:
        path = Path(given).expanduser()
        if "://" not in given and not path.is_file():
            raise BadField(f"--questions {given}: there is no such file")
        if (name := name_of(given)) in found:
            raise BadField(f"two files of questions are called {name}; rename one")
        found[name] = given if "://" in given else str(path.absolute())
    return found


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
