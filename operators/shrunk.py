"""Shrink a full plan: the same steps with the same inputs, on machines and data that you have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from marin import BatchSchedule, Experiment, Interpolation, Resources, Stages
from marin.data.by_step import scaled_steps
from marin.data.http_file import HttpFile
from marin.data.order_spec import OrderSpec
from marin.errors import BadField
from marin.training.model import ModelShape
from marin.training.readings import Reading
from marin.training.schedule import Cycles, Decay, Rewarmup, Schedule
from operators.download import HttpIndex, HuggingFace
from operators.evaluate import Evaluate
from operators.pretrained_tokenizer import PretrainedTokenizer
from operators.start import Fork, WarmStart
from operators.tokenize_chats import TokenizeChats
from operators.train import Milestone, Train
from operators.watch import Watch

type _Fields = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Another place of a listing of files, and of the files themselves."""

    index: HttpFile
    base: str


@dataclass(frozen=True, kw_only=True)
class Shrink:
    """The sizes of a shrunk plan. Everything else stays: recipes, precision, shuffles, gates, bounds.

    steps, batch, length, block: divisors. steps divides the optimizer steps, batch the sequences in a batch, length the
    tokens in a sequence, block the sequences in a block. hidden, intermediate, layers, heads, kv_heads: of every model.
    files: the most files of each download. machines: the machines to use in place of an accelerator, by its name in
    plans (``4 × v5p-512``). vocabulary: of every model, None to keep its own. listings: other places of listings, by
    the URL of the index that they replace. checkpoint_every: optimizer steps.
    """

    steps: int
    batch: int
    length: int
    block: int = 1
    machines: Mapping[str, Resources]
    hidden: int = 32
    intermediate: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    files: int = 1
    vocabulary: int | None = None
    checkpoint_every: int = 20
    listings: Mapping[str, Listing] = field(default_factory=dict[str, Listing])

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "length", "block"):
            if getattr(self, name) < 1:
                raise BadField(f"Shrink.{name} is {getattr(self, name)}; it is a divisor, so wanted at least 1")

    def __str__(self) -> str:
        return (
            f"shrunk: steps / {self.steps:,}, batches / {self.batch:,}, sequences / {self.length:,}, models of "
            f"{self.layers} × {self.hidden}, {self.files} file(s) of each download"
        )


def shrunk(experiment: Experiment, by: Shrink) -> Experiment:
    """Return the experiment with every step made small; the records of the outputs say so.

    Each step keeps its operator, label and inputs, so the graph equals the full experiment's. Raises BadField for an
    accelerator that ``machines`` does not name, and the errors of steps that cannot be so small.
    """

    def adjust(old: Any, now: _Fields) -> _Fields:
        rule = _RULES.get(cast(object, old).__class__)
        return rule(by, old, now) if rule is not None else {}

    return experiment.adjusted(adjust, why=str(by))


def _train(by: Shrink, old: Train, now: _Fields) -> _Fields:
    return {
        **_counts("first_step", "end_step")(by, old, now),
        "keep_at": tuple(dict.fromkeys(step // by.steps for step in old.keep_at)),
        "keep_every": None if old.keep_every is None else max(1, old.keep_every // by.steps),
        "checkpoint_every": by.checkpoint_every,
        "block": max(1, old.block // by.block),
        "seq_len": _length(by, old.seq_len),
        "vocabulary": by.vocabulary or old.vocabulary,
    }


def _model(by: Shrink, old: ModelShape, now: _Fields) -> _Fields:
    return {
        "hidden": by.hidden,
        "intermediate": by.intermediate,
        "layers": by.layers,
        "heads": by.heads,
        "kv_heads": by.kv_heads,
        "head_width": None,
        "seq_len": _length(by, old.seq_len),
    }


def _order(by: Shrink, old: OrderSpec[Any], now: _Fields) -> _Fields:
    return {
        **_counts("first", "end")(by, old, now),
        "block": max(1, old.block // by.block),
        "seq_len": _length(by, old.seq_len),
    }


def _stages(by: Shrink, old: Stages[Any], now: _Fields) -> _Fields:
    return {"at": scaled_steps("stages", now["at"], by.steps)}


def _batch(by: Shrink, old: BatchSchedule, now: _Fields) -> _Fields:
    return {"at": old.scaled(steps=by.steps, batch=by.batch).at}


def _reading(by: Shrink, old: Reading, now: _Fields) -> _Fields:
    return {
        **dict(zip(("first", "end"), _range(by, (old.first, old.end)), strict=True)),
        "since": None if old.since is None else _range(by, old.since),
    }


def _watch(by: Shrink, old: Watch, now: _Fields) -> _Fields:
    return {
        **_spans("every")(by, old, now),
        "window": None if old.window is None else _length(by, old.window),
        "tokens_per_prompt": max(1, old.tokens_per_prompt // by.length) if old.prompts else old.tokens_per_prompt,
    }


def _evaluate(by: Shrink, old: Evaluate, now: _Fields) -> _Fields:
    window = _length(by, old.window)
    return {"window": window, "stride": min(window - 1, max(1, old.stride // by.length))}


def _download(by: Shrink, old: HuggingFace | HttpIndex, now: _Fields) -> _Fields:
    few = by.files if old.most is None else min(by.files, old.most)
    there = by.listings.get(old.index.url) if isinstance(old, HttpIndex) else None
    moved = {} if there is None else {"index": there.index, "base": there.base}
    return {"most": few, "size": None, **moved}


def _tokenizer(by: Shrink, old: PretrainedTokenizer, now: _Fields) -> _Fields:
    return {"vocabulary": by.vocabulary or old.vocabulary}


def _resources(by: Shrink, old: Resources, now: _Fields) -> _Fields:
    if old.accelerator is None:
        return {}
    machines: list[Resources] = []
    for accelerator in old.accelerators:
        if str(accelerator) not in by.machines:
            known = ", ".join(sorted(by.machines)) or "none"
            raise BadField(
                f"Shrink.machines does not name {accelerator}; give machines to use in its place (there are: {known})"
            )
        machines.append(by.machines[str(accelerator)])
    first, *others = dict.fromkeys(each for machine in machines for each in machine.accelerators)
    return {"accelerator": first, "alternatives": tuple(others), "region": machines[0].region}


def _counts(*names: str) -> Callable[[Shrink, Any, _Fields], _Fields]:
    """Shrink fields that are positions in a run, in optimizer steps."""
    return lambda by, old, now: {name: getattr(old, name) // by.steps for name in names}


def _spans(*names: str) -> Callable[[Shrink, Any, _Fields], _Fields]:
    """Shrink fields that are numbers of optimizer steps; a number above zero stays at least one."""
    return lambda by, old, now: {
        name: max(min(1, held), held // by.steps) for name in names for held in [getattr(old, name)]
    }


def _range(by: Shrink, steps: tuple[int, int]) -> tuple[int, int]:
    first = steps[0] // by.steps
    return first, max(first + 1, steps[1] // by.steps)


def _length(by: Shrink, tokens: int) -> int:
    return max(2, tokens // by.length)


_RULES: Mapping[type[Any], Callable[[Shrink, Any, _Fields], _Fields]] = {
    BatchSchedule: _batch,
    Cycles: _spans("length", "decay", "until", "rewarmup"),
    Decay: _counts("start", "end"),
    Evaluate: _evaluate,
    Fork: _spans("replayed"),
    HttpIndex: _download,
    HuggingFace: _download,
    Interpolation: _spans("steps"),
    Milestone: _counts("step"),
    ModelShape: _model,
    OrderSpec: _order,
    PretrainedTokenizer: _tokenizer,
    Reading: _reading,
    Resources: _resources,
    Rewarmup: lambda by, old, now: {**_counts("at")(by, old, now), **_spans("steps")(by, old, now)},
    Schedule: _spans("warmup"),
    Stages: _stages,
    TokenizeChats: lambda by, old, now: {"seq_len": _length(by, old.seq_len)},
    Train: _train,
    Watch: _watch,
    WarmStart: _spans("replayed"),
}
