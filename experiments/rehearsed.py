"""The answers of the experiments' rehearsals, in the words of their own reports, and their durations.

``./py -m experiments.rehearse`` writes both to rehearsed.json, and the table of experiments shows them.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from marin import Experiment
from marin.evaluation.metric_names import in_words
from marin.store.store import Store

KEPT = Path(__file__).with_suffix(".json")
# The rows that answer each experiment, by result with a report; no rows for a verdict, which has one answer.
ANSWERED_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "exp600_kestrel": {"comparison": ("bpb/",)},
    "exp600_ocelot": {
        gap: ("held-out loss of the weights − of the average",) for gap in ("gap at the peak", "gap after the cooldown")
    },
    "exp600_jellyfish": {
        "comparison": ("bpb/",),
        "a space at the end": ("bpb/",),
    },
    "exp600_phoenix": {"training": ("held-out loss, first 2,000 steps", "held-out loss, the 8,000 after them")},
    "exp646_ladder": {"ladder": ()},
    "exp784_hq_anneal": {"verdict": ()},
    "exp820_flan_anneal": {"verdict": ()},
    "exp898_raccoon": {"training": ("growth of the loss", "norm of lm_head at the end")},
    "exp916_spoonbill": {"training": ("log Z", "norm of lm_head at the end", "held-out loss")},
    "exp977_starling": {
        "comparison": ("bpb/",),
        "a space at the end": ("bpb/",),
    },
    "exp977_deeper_starling": {"comparison": ("bpb/",)},
    "exp1237_sft": {"comparison": ("bpb/",)},
    "exp1295_llama": {"training": ("loss, last 6,000 steps", "share of steps skipped, last 6,000 steps")},
    "exp1321_detectors": {"doses": (), "shuffles": ()},
    "exp1380_muon": {"training": ("loss, first half", "loss, second half")},
    "exp1388_nadamw": {"training": ("loss",)},
    "exp1390_necro": {"training": ("loss", "share of steps clipped")},
    "exp1395_qwen3": {"training": ("loss, first 5,000 steps", "loss, second half")},
    "exp1529_mantis": {"comparison": ("bpb/math", "gsm/lm_eval/bpb", "gsm/olmes/bpb")},
    "exp2345_lr_sweep": {"sweep": ()},
    "exp2345_mixture": {"search": (), "comparison": ("bpb/",)},
}


class RunTime(BaseModel, frozen=True):
    """The duration of an experiment, with Ray's start and end.

    version: see ``version_of``. load: of the machine, before and after."""

    seconds: float
    version: str
    day: str
    revision: str
    cores: int
    load: tuple[float, float]


class Rehearsal(BaseModel, frozen=True):
    """A measured rehearsal.

    answers: sentences by the identity of the reporting step. If that identity has changed, the experiment has changed.
    shared: in one store for all experiments, one after the other. alone: from an empty store.
    """

    answers: dict[str, str] = {}
    shared: RunTime | None = None
    alone: RunTime | None = None


REHEARSALS = TypeAdapter(dict[str, Rehearsal])


def kept() -> dict[str, Rehearsal]:
    return REHEARSALS.validate_json(KEPT.read_bytes())


def version_of(rehearsal: Experiment) -> str:
    """Return a hash of the identities of all results."""
    return sha256(" ".join(sorted(step.identity for step in rehearsal.results.values())).encode()).hexdigest()[:12]


def asked(name: str, rehearsal: Experiment) -> dict[str, tuple[str, ...]]:
    """Return the rows that answer the experiment, by today's identity of the reporting step."""
    return {rehearsal.results[result].identity[:12]: rows for result, rows in ANSWERED_BY[name].items()}


def answers(store: Store, name: str, rehearsal: Experiment) -> dict[str, str]:
    found: dict[str, str] = {}
    for result, rows in ANSWERED_BY[name].items():
        identity = rehearsal.results[result].identity
        if (record := store.record(identity)) is None:
            raise SystemExit(f"{name}: {result} is not committed in {store.prefix}; run the experiment there")
        found[identity[:12]] = sentence(json.loads(store.output(record).read_text("report.json")), rows)
    return found


def sentence(report: dict[str, Any], rows: tuple[str, ...]) -> str:
    """Return a report.json's verdict in a sentence, or a sentence on these rows; "bpb/" means all rows below.

    A ± is half of a 95 % interval.
    """
    if isinstance(report.get("answer"), str):  # of a family of runs
        return " ".join([report["answer"], *report["more"][:1]])
    if not rows:
        candidates = report.get("candidates", {}).values()
        return " ".join(each["sentence"] for each in candidates) or f"{report['verdict'].partition('. ')[0]}."
    held = {row.get("metric") or row["name"]: row for row in report["rows"]}
    chosen = [(name, row) for name, row in held.items() if name in rows or f"{name.partition('/')[0]}/" in rows]
    if "answer" not in report:  # a report of CompareTrainings
        return f"{'; '.join(_reading(row, report['baseline']) for _, row in chosen)}."
    arms = [arm for arm in report["arms"] if arm != report["baseline"]]
    numbers = [
        f"{arm} − {report['baseline']}, {chosen[0][1]['unit']}: "
        + ", ".join(f"{in_words(name)} {_difference(row['differences'][arm])}" for name, row in chosen)
        for arm in arms
    ]
    starred = any(row["contaminated"] for _, row in chosen)
    return f"{'; '.join(numbers)}.{' ' + report['star'] if starred else ''}"


def _reading(row: dict[str, Any], baseline: str) -> str:
    apart = {f"{arm} − {baseline}": _difference(found) for arm, found in row["differences"].items()}
    numbers = {baseline: _number(row["values"][baseline]), **apart}
    return f"{row['name']}: {', '.join(f'{name} {number}' for name, number in numbers.items())}"


def _difference(found: dict[str, Any]) -> str:
    star = "*" if found.get("contaminated") else ""
    shows = found.get("shown", found["verdict"] == "shows") or found["low"] is None
    return f"{_number(found, '+')}{star}{'' if shows else ' (does not show)'}"


def _number(found: dict[str, Any], sign: str = "") -> str:
    half = "" if found["low"] is None else f" ± {(found['high'] - found['low']) / 2:.2g}"
    return f"{found['value']:{sign}.3g}{half}".replace("-", "−")


def write(name: str, found: dict[str, str], took: dict[str, RunTime]) -> None:
    """Write an experiment's answers and durations; drop numbers of another version of the experiment."""
    held = kept()
    same = held[name] if name in held and held[name].answers.keys() == found.keys() else Rehearsal()
    held[name] = same.model_copy(update={**took, "answers": found})
    KEPT.write_bytes(REHEARSALS.dump_json(dict(sorted(held.items())), indent=1, exclude_none=True) + b"\n")
