"""The table of experiments: ``./py -m experiments.table > experiments/README.md``."""

import functools
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from experiments.rehearsed import Rehearsal, asked, kept, version_of
from marin import Experiment, Scale
from marin.plan.cost.plan_cost import training_of
from marin.store.numbers import counted, write_count, write_duration
from operators.train import Train

FOLDER = Path(__file__).parent
HEAD = """# Experiments

One file for each question: what is asked, of which arms, from where to where, and by what it is decided. Each plans at
full scale and rehearses on a laptop: `./py experiments/exp600_kestrel.py`; with `--scale full --dry-run` it says what
it would cost. What several of them train is trained once for all. [marin_8b.py](marin_8b.py) and
[marin_32b.py](marin_32b.py) hold the two runs, [pipeline.py](pipeline.py) the way of their text;
[a picture](../docs/lessons.md) shows both. Made by `./py -m experiments.table > experiments/README.md`.

Answer at rehearsal: what the reports of its page say of the rows that answer it: differences between two arms, ± half
of their 95 % interval over documents and items, or over the steps of a training; without ± it is one look. A
difference shows unless it says otherwise; one seed an arm unless it says otherwise, and another seed may say
something else. Full scale: tokens and chip-hours of everything that the experiment needs from an empty store, and in
brackets of what no other experiment trains. Rehearsal: trainings and their steps, and how long it took alone, from an
empty store, and after others, in one store{measured}; beside it the load of the machine before and after.

`./py -m experiments.rehearse FOLDER` measures answers and durations again, `--alone` each in a store of its own, and
keeps them in [rehearsed.json](rehearsed.json).

"""
OLDER = "**Of an earlier version:** "
COLUMNS = (
    "| experiment | question | arms | answer at rehearsal | full scale: tokens | chip-hours | rehearsal |\n"
    "|---|---|---|---|---:|---:|---|\n"
)
SECTION = re.compile(r"^(\w+): (.*?)(?=^\w+: |\Z)", re.MULTILINE | re.DOTALL)
FAMILIES = {"8b-": "Marin 8B", "32b-": "Marin 32B"}
OTHERS = "Others"


@dataclass(frozen=True)
class Entry:
    name: str
    full: Experiment
    rehearsal: Experiment

    @property
    def title(self) -> str:
        return (self.full.question or "").strip().splitlines()[0].rstrip(".")

    @property
    def sections(self) -> dict[str, str]:
        """Question, Arms, Start …: what the docstring says of each, in one line."""
        return {name: " ".join(text.split()) for name, text in SECTION.findall(self.full.question or "")}

    @property
    def trainings(self) -> list[Train]:
        return _trainings(self.full)

    @property
    def family(self) -> str:
        labels = [run.label for run in self.trainings]
        return next(
            (name for prefix, name in FAMILIES.items() if any(label.startswith(prefix) for label in labels)), OTHERS
        )


@functools.cache
def entry(name: str) -> Entry:
    """Of ``experiments/<name>.py``."""
    build = importlib.import_module(f"experiments.{name}").build
    return Entry(name, build(Scale.FULL), build(Scale.REHEARSAL))


def entries() -> list[Entry]:
    """Every experiment of the folder, in the order of its run and of the steps that it looks at."""
    found = [entry(path.stem) for path in FOLDER.glob("exp*.py")]
    return sorted(found, key=lambda entry: (entry.family, _sums(entry.trainings)[0], entry.name))


def page() -> str:
    every = entries()
    owners: dict[Train, int] = {}
    for each in every:
        for run in each.trainings:
            owners[run] = owners.get(run, 0) + 1
    held = kept()
    parts = [HEAD.format(measured=_measured(list(held.values())))]
    for family in [*FAMILIES.values(), OTHERS]:
        rows = [_row(entry, owners, held.get(entry.name)) for entry in every if entry.family == family]
        if rows:
            parts.append(f"## {family}\n\n{COLUMNS}" + "\n".join(rows) + "\n\n")
    return "".join(parts).rstrip() + "\n"


def _row(entry: Entry, owners: dict[Train, int], measured: Rehearsal | None) -> str:
    own = [run for run in entry.trainings if owners[run] == 1]
    tokens, hours = _sums(entry.trainings), _sums(own)
    full, rehearsed = entry.full, _trainings(entry.rehearsal)
    steps = sum(run.end_step - run.first_step for run in rehearsed)
    cells = (
        f"[{entry.title.partition(':')[0]}]({entry.name}.py), [issue]({full.issue_url})",
        entry.sections["Question"],
        entry.sections["Arms"],
        answer(entry, measured),
        f"{write_count(tokens[0])} ({write_count(hours[0]) if own else '–'})",
        f"{tokens[1]:,.0f} ({hours[1]:,.0f})" if own else f"{tokens[1]:,.0f} (–)",
        f"{counted(len(rehearsed), 'training')}, {steps} steps{_took(entry, measured)}",
    )
    return f"| {' | '.join(cells)} |"


def answer(entry: Entry, measured: Rehearsal | None) -> str:
    """What was measured, marked if the reports that said so are not those that the experiment makes today."""
    if measured is None:
        return "never measured"
    older = measured.answers.keys() != asked(entry.name, entry.rehearsal).keys()
    return (OLDER if older else "") + " ".join(measured.answers.values()).replace("|", "\\|").replace("*", "\\*")


def _took(entry: Entry, measured: Rehearsal | None) -> str:
    if measured is None:
        return ""
    took = {"alone": measured.alone, "after others": measured.shared}
    today = version_of(entry.rehearsal)
    told = ""
    for how, each in took.items():
        if each is not None:
            older = "" if each.version == today else ", an earlier version"
            told += f"; {how} {write_duration(each.seconds)} (load {each.load[0]:g} to {each.load[1]:g}{older})"
    return told


def _measured(every: list[Rehearsal]) -> str:
    """ " (38 min 2 s for 18 experiments; on 2 cores, 2026-11-23)"."""
    shared = [each.shared for each in every if each.shared]
    if not shared:
        return ""
    all_of_them = f"{write_duration(sum(each.seconds for each in shared))} for {len(shared)} experiments"
    took = [*shared, *(each.alone for each in every if each.alone)]
    cores, days = sorted({each.cores for each in took}), sorted({each.day for each in took})
    return f" ({all_of_them}; on {' or '.join(map(str, cores))} cores, {', '.join(days)})"


def _trainings(experiment: Experiment) -> list[Train]:
    return [step for step in experiment.steps() if isinstance(step, Train)]


def _sums(runs: list[Train]) -> tuple[int, float]:
    costs = [cost for run in runs if (cost := training_of(run)) is not None]
    return sum(cost.work.tokens for cost in costs), sum(cost.chip_hours or 0.0 for cost in costs)


if __name__ == "__main__":
    sys.stdout.write(page())
