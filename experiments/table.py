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

Each file asks one question: its docstring has the arms, the start and end, and the decision rule. An experiment
rehearses on a laptop: `./py experiments/exp600_kestrel.py`. With `--scale full --dry-run` it prints the plan and the
cost at full scale. Experiments share trainings: marin trains each once. [marin_8b.py](marin_8b.py) and
[marin_32b.py](marin_32b.py) hold the two runs, and [pipeline.py](pipeline.py) the stages of their text;
[a picture](../docs/lessons.md) shows both. `./py -m experiments.table > experiments/README.md` writes this page.

**Answer at rehearsal.** The differences between two arms, from the reports of the experiment's page. A ± is half of a
95 % interval over documents and items, or over the steps of a training; a number without ± is a single measurement.
A difference is significant unless the cell says otherwise. An arm is one seed unless the cell says otherwise, and
another seed may answer differently.

**Full scale.** Tokens and chip-hours of everything that the experiment needs from an empty store. In brackets:
trainings that no other experiment shares.

**Rehearsal.** Trainings and their steps, and the duration: alone from an empty store, and after others in one
store{measured}. Beside each duration: the load of the machine before and after.

`./py -m experiments.rehearse FOLDER` measures answers and durations again, with `--alone` each in its own store, and
writes them to [rehearsed.json](rehearsed.json).

"""
OLDER = "**From an earlier version:** "
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
        """Return the sections of the docstring (Question, Arms, Start …), each in one line."""
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
    """Return the entry of ``experiments/<name>.py``."""
    build = importlib.import_module(f"experiments.{name}").build
    return Entry(name, build(Scale.FULL), build(Scale.REHEARSAL))


def entries() -> list[Entry]:
    """Return every experiment of the folder, by run and then by tokens."""
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
    """Return the measured answer, with a mark if the experiment makes other reports today."""
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
    """Return " (38 min 2 s for 18 experiments; on 2 cores, 2026-11-23)"."""
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
